package metrics

// Kind is the Prometheus type of a metric.
type Kind string

// The kinds.
const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
)

// Family describes one metric. Nodes, requests, builds and uploads are never labels, because their number is unbounded.
type Family struct {
	Name   string
	Kind   Kind
	Labels []string
	Help   string
	// Watch describes the values to monitor or alert on; empty for a metric that is only informative.
	Watch   string
	buckets []float64
}

// The buckets, in seconds.
var (
	callBuckets   = []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	commitBuckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1}
	passBuckets   = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5}
	readyBuckets  = []float64{.01, .05, .1, .5, 1, 5, 10, 20, 30, 45, 60, 90, 120, 180, 300, 600, 1200, 1800, 3600}
	imageBuckets  = []float64{10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 5400, 7200, 10800, 14400, 28800}
)

// families lists all metrics that npctl defines, in the order of the table in docs/operations.md.
var families = []Family{
	// Requests
	{Name: "npctl_node_requests", Kind: Gauge, Labels: []string{"state"},
		Help: "Requests by state: requested (no pool has accepted them), pending (nodes are being launched), fulfilled (waiting for the requestor), failed (kept for an hour)."},
	{Name: "npctl_node_requests_oldest_seconds", Kind: Gauge,
		Help: "Age of the oldest request that is requested or pending; 0 without one.", Watch: "more than your users accept"},
	{Name: "npctl_request_nodes_waiting", Kind: Gauge, Labels: []string{"label"},
		Help: "Nodes that requested and pending requests wait for."},
	{Name: "npctl_pool_addressable_requests", Kind: Gauge, Labels: []string{"provider", "pool"},
		Help: "Requested and pending requests that the pool could serve: it offers all their labels. With a shared state, of the pools of all processes."},
	{Name: "npctl_tenant_limit", Kind: Gauge, Labels: []string{"tenant", "resource"},
		Help: "Limits of tenant_limit blocks: instances, cores, ram_mib, volumes, volume_gb; absent without a limit."},
	{Name: "npctl_tenant_used", Kind: Gauge, Labels: []string{"tenant", "resource"},
		Help: "Use of the tenant's limits by its nodes and by accepted requests.", Watch: "near the limit while requests wait"},
	{Name: "npctl_requests_finished_total", Kind: Counter, Labels: []string{"result"},
		Help: "Requests that were fulfilled or failed. Of several processes with one state, only one counts each request.", Watch: "an unusual share of failed requests"},
	{Name: "npctl_requests_refused_total", Kind: Counter,
		Help: "Requests that the API rejected because max_requests were open.", Watch: "any: a client creates requests without end, or max_requests is too low"},
	{Name: "npctl_request_ready_seconds", Kind: Histogram, Labels: []string{"label"}, buckets: readyBuckets,
		Help: "Time from the creation of a request until all its nodes were ready. A request for several labels counts once for each label.", Watch: "the 95th percentile, which users experience"},
	{Name: "npctl_request_phase_seconds", Kind: Histogram, Labels: []string{"phase"}, buckets: readyBuckets,
		Help: "Parts of a request's time: queue (until a pass observed it), quota (until capacity was available and the launch of its last node started), create, boot and keyscan (of that node), other (retries of that node), accept (until the requestor took the nodes).", Watch: "the phase that grows when requests take longer"},
	{Name: "npctl_shadow_requests_total", Kind: Counter, Labels: []string{"result"},
		Help:  "With npctl watch -shadow: requests that other processes answered, by comparison with the decision of npctl: agree; other_pool, would_decline, would_wait, would_yield, would_serve (differences, named after the decision of npctl); other_provider (a provider that npctl does not serve was first), withdrawn (deleted, or deleted before its answer was observed), unknown (answered before npctl observed it, or by an unknown pool).",
		Watch: "any except agree, other_provider and withdrawn"},
	{Name: "npctl_watch_stalled_seconds", Kind: Gauge,
		Help: "How long requests have waited while no step launched or served anything; 0 while that is less than -stall.", Watch: "more than 0"},

	// Nodes
	{Name: "npctl_nodes", Kind: Gauge, Labels: []string{"provider", "pool", "label", "state"},
		Help: "Nodes by provider, pool, label and state. The label of a node with several labels is their list, joined by commas.", Watch: "no ready node of a label that always has ready nodes"},
	{Name: "npctl_label_min_ready", Kind: Gauge, Labels: []string{"label"},
		Help: "min_ready of the label."},
	{Name: "npctl_cost_per_hour", Kind: Gauge, Labels: []string{"provider", "label", "currency"},
		Help: "Price of the existing nodes of a label for one hour, by prices of the provider; absent without a price.", Watch: "more than your budget"},
	{Name: "npctl_cost_min_ready_per_hour", Kind: Gauge, Labels: []string{"provider", "label", "currency"},
		Help: "The same for min_ready nodes, as npctl launches them in an empty fleet."},
	{Name: "npctl_nodes_without_price", Kind: Gauge, Labels: []string{"provider", "label"},
		Help: "Existing nodes of a label that npctl_cost_per_hour does not contain; absent while no provider has prices."},
	{Name: "npctl_node_launches_total", Kind: Counter, Labels: []string{"provider", "result", "reason"},
		Help: "Launches that ended, by result (ready, failed) and, for failed launches, reason (quota, capacity, rejected, throttled, timeout, unavailable, other).", Watch: "failed launches, by reason"},
	{Name: "npctl_zone_launches_total", Kind: Counter, Labels: []string{"provider", "zone", "result"},
		Help: "Launches that ended, by zone and result (ready, failed). The zone is empty in providers without zones, and often for failed launches.", Watch: "failed launches in one zone"},
	{Name: "npctl_requestor_launches_total", Kind: Counter, Labels: []string{"requestor", "result"},
		Help: "Launches that ended, by requestor and result (ready, failed). NodePool:min-ready launches for min_ready. After 50 requestors, further ones count as other, as do launches whose requestor is unknown."},
	{Name: "npctl_node_launch_seconds", Kind: Histogram, Labels: []string{"provider", "phase"}, buckets: readyBuckets,
		Help: "Duration of successful launches: in total (total), in the cloud's API (create), until the instance was active with its addresses (boot), until it was reachable (keyscan)."},
	{Name: "npctl_provider_launch_failures", Kind: Gauge, Labels: []string{"provider"},
		Help: "Consecutive failed launches. Each failure increases the backoff.", Watch: "more than 5"},

	// Providers
	{Name: "npctl_provider_up", Kind: Gauge, Labels: []string{"provider"},
		Help: "1 when the newest listing of the provider succeeded.", Watch: "0 for longer than 10 minutes"},
	{Name: "npctl_provider_frozen", Kind: Gauge, Labels: []string{"provider"},
		Help: "1 when npctl does nothing in the provider: it is frozen, or another process serves it.", Watch: "1 for longer than a day: is the freeze still intended?"},
	{Name: "npctl_provider_listed_timestamp_seconds", Kind: Gauge, Labels: []string{"provider"},
		Help: "Start time of the newest successful listing.", Watch: "older than 10 minutes"},
	{Name: "npctl_provider_api_duration_seconds", Kind: Histogram, Labels: []string{"provider", "operation"}, buckets: callBuckets,
		Help: "Duration of single calls to a provider, successful or not, without pauses for rate limits and retries."},
	{Name: "npctl_provider_api_errors_total", Kind: Counter, Labels: []string{"provider", "operation", "reason"},
		Help: "Calls that failed, by reason as in npctl_node_launches_total.", Watch: "an unusual rate; throttled: reduce rate in the provider block"},
	{Name: "npctl_quota_limit", Kind: Gauge, Labels: []string{"provider", "resource"},
		Help: "Quota of the provider's project: instances, cores, ram_mib, volumes, volume_gb, addresses. +Inf means unlimited."},
	{Name: "npctl_quota_used", Kind: Gauge, Labels: []string{"provider", "resource"},
		Help: "Use of the quota by npctl and others, with launches and deletions since the newest listing.", Watch: "near the limit while requests wait"},
	{Name: "npctl_pool_max_servers", Kind: Gauge, Labels: []string{"provider", "pool"},
		Help: "max_servers of the pool; absent without a limit."},
	{Name: "npctl_leaks", Kind: Gauge, Labels: []string{"provider", "type"},
		Help: "Objects in the provider with ownership tags of npctl and without a record. npctl deletes them after two sightings.", Watch: "more than 0 for hours: the deletion fails"},
	{Name: "npctl_leaks_deleted_total", Kind: Counter, Labels: []string{"type"},
		Help: "Leaked objects that were deleted.", Watch: "a steady rate"},

	// Images
	{Name: "npctl_image_age_seconds", Kind: Gauge, Labels: []string{"image"},
		Help: "Age of the newest ready build of an image; absent without one.", Watch: "twice its rebuild_age"},
	{Name: "npctl_image_last_build_timestamp_seconds", Kind: Gauge, Labels: []string{"image"},
		Help: "Time at which the newest ready build of an image became ready; absent without one."},
	{Name: "npctl_image_last_build_exit_code", Kind: Gauge, Labels: []string{"image"},
		Help: "Result of the last build by this process: 0, the exit code of the program that failed (-1: ended by a signal), or 1 for any other error; absent before the first build.", Watch: "other than 0"},
	{Name: "npctl_image_size_bytes", Kind: Gauge, Labels: []string{"image", "format"},
		Help: "Size of each file of the newest ready build.", Watch: "a jump: elements or packages that were added"},
	{Name: "npctl_image_build_requests", Kind: Gauge, Labels: []string{"image"},
		Help: "1 when npctl image build, or another program, has requested a build of the image and no build is running.", Watch: "1 for longer than a build takes"},
	{Name: "npctl_image_upload_age_seconds", Kind: Gauge, Labels: []string{"image", "provider"},
		Help: "Age of the build of the newest ready upload of an image in a provider. Nodes boot from this upload.", Watch: "twice its rebuild_age"},
	{Name: "npctl_image_returned", Kind: Gauge, Labels: []string{"image", "provider"},
		Help: "1 when launches have returned to an older build of the image, because launches in a row from the newest one failed.", Watch: "1: see npctl why image/NAME"},
	{Name: "npctl_image_rollout_share", Kind: Gauge, Labels: []string{"image", "provider"},
		Help: "Part of the nodes that may boot from the newest usable build of the image: 1 without a rollout.", Watch: "less than 1 for longer than the stages take"},
	{Name: "npctl_image_unvalidated", Kind: Gauge, Labels: []string{"image", "provider"},
		Help: "1 while test nodes have to validate a newer upload of the image before nodes boot from it.", Watch: "1 for longer than a validation takes"},
	{Name: "npctl_image_failures", Kind: Gauge, Labels: []string{"image"},
		Help: "Consecutive failed builds of the image.", Watch: "more than 2"},
	{Name: "npctl_image_paused", Kind: Gauge, Labels: []string{"image"},
		Help: "1 when the image is paused, by configuration or by npctl image pause."},
	{Name: "npctl_image_builds_total", Kind: Counter, Labels: []string{"image", "result"},
		Help: "Builds that ended, by result (ready, failed)."},
	{Name: "npctl_image_build_seconds", Kind: Histogram, Labels: []string{"image"}, buckets: imageBuckets,
		Help: "Duration of successful builds."},
	{Name: "npctl_image_uploads_total", Kind: Counter, Labels: []string{"provider", "result"},
		Help: "Uploads that ended, by result (ready, failed).", Watch: "failed uploads"},
	{Name: "npctl_image_upload_seconds", Kind: Histogram, Labels: []string{"provider"}, buckets: imageBuckets,
		Help: "Duration of successful uploads."},
	{Name: "npctl_image_files_bytes", Kind: Gauge,
		Help: "Size of all files in the images directory.", Watch: "the free space of its file system"},

	// The daemon
	{Name: "npctl_plan_changes", Kind: Gauge, Labels: []string{"action"},
		Help: "Steps in the newest plan, including steps that wait for other steps.", Watch: "many unexpected deletes"},
	{Name: "npctl_plan_problems", Kind: Gauge,
		Help: "Problems in the newest plan: errors that only a cloud reveals, such as an unknown flavor.", Watch: "more than 0"},
	{Name: "npctl_drift", Kind: Gauge, Labels: []string{"reason"},
		Help: "Steps in the newest plan because of drift, by reason: lost, config-changed, inputs-changed."},
	{Name: "npctl_steps_running", Kind: Gauge, Labels: []string{"action"},
		Help: "Running steps."},
	{Name: "npctl_steps_failing", Kind: Gauge,
		Help: "Steps other than launches that failed and wait for their retry.", Watch: "more than 0 for an hour: npctl why shows the error"},
	{Name: "npctl_steps_total", Kind: Counter, Labels: []string{"action", "thing", "result"},
		Help: "Steps that ended, by result (done, failed).", Watch: "failed deletes"},
	{Name: "npctl_watch_passes_total", Kind: Counter,
		Help: "Completed passes."},
	{Name: "npctl_watch_pass_seconds", Kind: Histogram, buckets: passBuckets,
		Help: "Duration of a pass.", Watch: "more than 1 s"},
	{Name: "npctl_watch_last_pass_timestamp_seconds", Kind: Gauge,
		Help: "Time of the newest pass.", Watch: "older than 1 minute: the daemon hangs"},
	{Name: "npctl_watch_reloads_total", Kind: Counter, Labels: []string{"result"},
		Help: "Reloads of the configuration by result: done, invalid (errors), consent_required (deletions need consent)."},
	{Name: "npctl_watch_config_stale", Kind: Gauge,
		Help: "1 when the newest reload was rejected, so that an old configuration stays in force.", Watch: "1 for longer than an hour"},
	{Name: "npctl_watch_pending_deletions", Kind: Gauge,
		Help: "Deletions that need consent.", Watch: "more than 0: npctl status shows why"},
	{Name: "npctl_watch_state_outdated", Kind: Gauge,
		Help: "1 when the state is older than the clouds, such as after a restore. npctl then deletes no objects without a record.", Watch: "1"},
	{Name: "npctl_state_commit_seconds", Kind: Histogram, Labels: []string{"result"}, buckets: commitBuckets,
		Help: "Duration of commits, by result (done, conflict, failed).", Watch: "more than 0.1 s: a slow disk; any failed commit"},
	{Name: "npctl_state_connected", Kind: Gauge,
		Help: "State in ZooKeeper only: 1 when the process has a connection and knows the current state.", Watch: "0 for longer than a minute"},
	{Name: "npctl_state_reconnects_total", Kind: Counter,
		Help: "State in ZooKeeper only: connections since the first one.", Watch: "a steady rate"},
	{Name: "npctl_state_call_seconds", Kind: Histogram, Labels: []string{"result"}, buckets: commitBuckets,
		Help: "State in ZooKeeper only: duration of single calls, by result (done, failed: no answer). Calls that ZooKeeper rejects are done.", Watch: "more than 0.1 s: slow disks of ZooKeeper; any failed call"},
	{Name: "npctl_state_records", Kind: Gauge, Labels: []string{"kind"},
		Help: "Records in the state."},
	{Name: "npctl_api_invalid_tokens_total", Kind: Counter, Labels: []string{"result"},
		Help: "API calls with an invalid token, by result: unknown, or throttled after too many from the same address.", Watch: "an unusual rate: a client with an old token, or an attack"},
	{Name: "npctl_build_info", Kind: Gauge, Labels: []string{"version", "goversion"},
		Help: "1, with the version of npctl."},
}

// Families returns all metrics that npctl defines.
func Families() []Family { return append([]Family(nil), families...) }
