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
		Help: "Requests by state: requested (no pool has taken them), pending (nodes are on their way), fulfilled (waiting for their requestor), failed (kept for an hour)."},
	{Name: "npctl_node_requests_oldest_seconds", Kind: Gauge,
		Help: "Age of the oldest request that is requested or pending; 0 when there is none.", Watch: "more than your users put up with"},
	{Name: "npctl_request_nodes_waiting", Kind: Gauge, Labels: []string{"label"},
		Help: "Nodes that requested and pending requests ask for."},
	{Name: "npctl_requests_finished_total", Kind: Counter, Labels: []string{"result"},
		Help: "Requests that were fulfilled or have failed; of several processes in one state, one counts each.", Watch: "a share of failed ones that is not usual"},
	{Name: "npctl_requests_refused_total", Kind: Counter,
		Help: "Requests that the API refused since max_requests were open.", Watch: "any: a client that asks without end, or max_requests is too low"},
	{Name: "npctl_request_ready_seconds", Kind: Histogram, Labels: []string{"label"}, buckets: readyBuckets,
		Help: "Time from the creation of a request until all its nodes were ready. A request for several labels counts once for each.", Watch: "its 95th percentile: this is what users feel"},
	{Name: "npctl_request_phase_seconds", Kind: Histogram, Labels: []string{"phase"}, buckets: readyBuckets,
		Help: "Parts of a request's time: queue (until it was looked at), quota (until there was room and its last node was begun), create, boot and keyscan (of that node), other (retries of it), accept (until the requestor took the nodes).", Watch: "the phase that grows when requests take longer"},
	{Name: "npctl_shadow_requests_total", Kind: Counter, Labels: []string{"result"},
		Help:  "Of npctl watch -shadow: requests that others have answered, by how that compares with what npctl would have done: agree; other_pool, would_decline, would_wait, would_yield, would_serve (differences, named by what npctl would have done); other_provider (a provider that npctl does not serve was first), withdrawn (also removed before its answer was seen), unknown (answered before npctl could look at it, or nobody can tell from where).",
		Watch: "any but agree, other_provider and withdrawn"},
	{Name: "npctl_watch_stalled_seconds", Kind: Gauge,
		Help: "For how long requests have waited while nothing was launched or served; 0 below the time that -stall allows.", Watch: "more than 0"},

	// Nodes
	{Name: "npctl_nodes", Kind: Gauge, Labels: []string{"provider", "pool", "label", "state"},
		Help: "Nodes by where they are, what they are for and their state. The label of a machine with several is all of them, joined by commas.", Watch: "no ready node of a label that always has some"},
	{Name: "npctl_label_min_ready", Kind: Gauge, Labels: []string{"label"},
		Help: "Nodes that min_ready of the label asks for."},
	{Name: "npctl_node_launches_total", Kind: Counter, Labels: []string{"provider", "result", "reason"},
		Help: "Launches that ended, by result (ready, failed) and, of failed ones, reason (quota, capacity, rejected, throttled, timeout, unavailable, other).", Watch: "failed ones by reason"},
	{Name: "npctl_node_launch_seconds", Kind: Histogram, Labels: []string{"provider", "phase"}, buckets: readyBuckets,
		Help: "Time of a successful launch: all of it (total), and in the cloud's API (create), until it was active with its addresses (boot), until it answered (keyscan)."},
	{Name: "npctl_provider_launch_failures", Kind: Gauge, Labels: []string{"provider"},
		Help: "Launches in a row that have failed; each makes the pause before the next one longer.", Watch: "more than 5"},

	// Providers
	{Name: "npctl_provider_up", Kind: Gauge, Labels: []string{"provider"},
		Help: "1 when the newest look at the provider worked.", Watch: "0 for longer than 10 minutes"},
	{Name: "npctl_provider_frozen", Kind: Gauge, Labels: []string{"provider"},
		Help: "1 when the provider is left alone, by npctl freeze or because another process serves it.", Watch: "1 for longer than a day: forgotten?"},
	{Name: "npctl_provider_listed_timestamp_seconds", Kind: Gauge, Labels: []string{"provider"},
		Help: "When the newest listing that worked began.", Watch: "older than 10 minutes"},
	{Name: "npctl_provider_api_duration_seconds", Kind: Histogram, Labels: []string{"provider", "operation"}, buckets: callBuckets,
		Help: "Time that single calls to a provider took, successful or not, without pauses for rate limits and retries."},
	{Name: "npctl_provider_api_errors_total", Kind: Counter, Labels: []string{"provider", "operation", "reason"},
		Help: "Calls that failed, by reason as in npctl_node_launches_total.", Watch: "a rate that is not usual; throttled: lower rate in the provider block"},
	{Name: "npctl_quota_limit", Kind: Gauge, Labels: []string{"provider", "resource"},
		Help: "What the provider's project may use: instances, cores, ram_mib, volumes, volume_gb, addresses. +Inf when there is no limit."},
	{Name: "npctl_quota_used", Kind: Gauge, Labels: []string{"provider", "resource"},
		Help: "What the project uses, whoever uses it, as of the newest listing.", Watch: "near the limit while requests wait"},
	{Name: "npctl_pool_max_servers", Kind: Gauge, Labels: []string{"provider", "pool"},
		Help: "max_servers of the pool; absent when it has none."},
	{Name: "npctl_leaks", Kind: Gauge, Labels: []string{"provider", "type"},
		Help: "Things in the provider that carry our marks and belong to no record. They are deleted once they were seen twice.", Watch: "more than 0 for hours: they cannot be deleted"},
	{Name: "npctl_leaks_deleted_total", Kind: Counter, Labels: []string{"type"},
		Help: "Leaked things that were deleted.", Watch: "a steady rate: something leaks"},

	// Images
	{Name: "npctl_image_age_seconds", Kind: Gauge, Labels: []string{"image"},
		Help: "Age of the newest ready build of an image; absent when there is none.", Watch: "twice its rebuild_age"},
	{Name: "npctl_image_upload_age_seconds", Kind: Gauge, Labels: []string{"image", "provider"},
		Help: "Age of the build behind the newest ready upload of an image in a provider: what nodes boot there.", Watch: "twice its rebuild_age"},
	{Name: "npctl_image_failures", Kind: Gauge, Labels: []string{"image"},
		Help: "Builds of the image in a row that have failed.", Watch: "more than 2"},
	{Name: "npctl_image_paused", Kind: Gauge, Labels: []string{"image"},
		Help: "1 when the image is not built, by configuration or by npctl image pause."},
	{Name: "npctl_image_builds_total", Kind: Counter, Labels: []string{"image", "result"},
		Help: "Builds that ended, by result (ready, failed)."},
	{Name: "npctl_image_build_seconds", Kind: Histogram, Labels: []string{"image"}, buckets: imageBuckets,
		Help: "Time that successful builds took."},
	{Name: "npctl_image_uploads_total", Kind: Counter, Labels: []string{"provider", "result"},
		Help: "Uploads that ended, by result (ready, failed).", Watch: "failed ones"},
	{Name: "npctl_image_upload_seconds", Kind: Histogram, Labels: []string{"provider"}, buckets: imageBuckets,
		Help: "Time that successful uploads took."},
	{Name: "npctl_image_files_bytes", Kind: Gauge,
		Help: "Size of all files in the images directory.", Watch: "the room on its file system"},

	// The daemon
	{Name: "npctl_plan_changes", Kind: Gauge, Labels: []string{"action"},
		Help: "Steps in the newest plan, those that wait for others included.", Watch: "many deletes that nobody expects"},
	{Name: "npctl_plan_problems", Kind: Gauge,
		Help: "Mistakes that only a cloud could show, such as a flavor that does not exist, in the newest plan.", Watch: "more than 0"},
	{Name: "npctl_drift", Kind: Gauge, Labels: []string{"reason"},
		Help: "Steps in the newest plan that are there because things are not as recorded or declared: lost, config-changed, inputs-changed."},
	{Name: "npctl_steps_running", Kind: Gauge, Labels: []string{"action"},
		Help: "Steps that are being done."},
	{Name: "npctl_steps_failing", Kind: Gauge,
		Help: "Steps other than launches that have failed and wait for their next try.", Watch: "more than 0 for an hour: npctl why names the error"},
	{Name: "npctl_steps_total", Kind: Counter, Labels: []string{"action", "thing", "result"},
		Help: "Steps that ended, by result (done, failed).", Watch: "deletes that fail"},
	{Name: "npctl_watch_passes_total", Kind: Counter,
		Help: "Rounds of looking, planning and beginning steps."},
	{Name: "npctl_watch_pass_seconds", Kind: Histogram, buckets: passBuckets,
		Help: "Time that a round took.", Watch: "more than 1 s"},
	{Name: "npctl_watch_last_pass_timestamp_seconds", Kind: Gauge,
		Help: "When the newest round was.", Watch: "older than 1 minute: the daemon hangs"},
	{Name: "npctl_watch_reloads_total", Kind: Counter, Labels: []string{"result"},
		Help: "Reloads of the configuration by result: done, invalid (mistakes), consent_required (it would delete much)."},
	{Name: "npctl_watch_config_stale", Kind: Gauge,
		Help: "1 when the newest reload was refused or held back, so that an old configuration goes on.", Watch: "1 for longer than an hour"},
	{Name: "npctl_watch_pending_deletions", Kind: Gauge,
		Help: "Deletions that the configuration asks for and that wait for consent, since they are many.", Watch: "more than 0: npctl status says why"},
	{Name: "npctl_watch_state_outdated", Kind: Gauge,
		Help: "1 when the state is older than the clouds, such as after a restore, so that nothing without a record is deleted.", Watch: "1"},
	{Name: "npctl_state_commit_seconds", Kind: Histogram, Labels: []string{"result"}, buckets: commitBuckets,
		Help: "Time that writing to the state took, by result (done, conflict, failed).", Watch: "more than 0.1 s: a slow disk; failed ones at once"},
	{Name: "npctl_state_records", Kind: Gauge, Labels: []string{"kind"},
		Help: "Records in the state."},
	{Name: "npctl_api_invalid_tokens_total", Kind: Counter, Labels: []string{"result"},
		Help: "Calls to the API with a token that nobody knows, by result: unknown, or throttled where too many had come from the same address.", Watch: "a rate that is not usual: a client with an old token, or somebody who guesses"},
	{Name: "npctl_build_info", Kind: Gauge, Labels: []string{"version", "goversion"},
		Help: "1, with what npctl this is."},
}

// Families returns all metrics that npctl defines.
func Families() []Family { return append([]Family(nil), families...) }
