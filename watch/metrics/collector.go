package metrics

import (
	"cmp"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/watch"
)

// collector computes the gauges at each scrape, so that an object that no longer exists leaves no series behind.
type collector struct{ m *Metrics }

var _ prometheus.Collector = collector{}

// Describe implements prometheus.Collector.
func (w collector) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range w.m.gauges {
		to <- desc
	}
}

// Collect implements prometheus.Collector.
func (w collector) Collect(to chan<- prometheus.Metric) {
	m := w.m
	m.mu.Lock()
	pass, stalled, running, stale, connected, exitCodes := m.last, m.stalled, m.running, m.stale, m.connected, maps.Clone(m.exitCodes)
	m.mu.Unlock()
	s := scrape{Metrics: m, to: to, Pass: pass}
	s.gauge("npctl_build_info", 1, m.options.Version, runtime.Version())
	s.gauge("npctl_watch_config_stale", number(stale))
	if stalled != nil {
		s.gauge("npctl_watch_stalled_seconds", stalled().Seconds())
	}
	var steps []plan.Step
	if running != nil {
		steps = running()
		s.actions("npctl_steps_running", steps)
	}
	if connected != nil {
		s.gauge("npctl_state_connected", number(connected()))
	}
	if pass.Observed.Now.IsZero() {
		return // no pass yet, so nothing is known
	}
	s.gauge("npctl_watch_last_pass_timestamp_seconds", unix(pass.Observed.Now))
	s.consentRequired()
	s.requests()
	s.nodes()
	s.providers()
	s.leaks()
	s.images()
	s.builds(steps, exitCodes)
	s.tenants()
	s.plan()
	s.records()
}

// consentRequired sends the gauges of deletions that the newest plan does not run.
func (s *scrape) consentRequired() {
	n := 0
	for i := range s.Plan.Steps {
		if s.Plan.Steps[i].NeedsConsent {
			n++
		}
	}
	s.gauge("npctl_watch_pending_deletions", float64(n))
	old := slices.ContainsFunc(s.Plan.Notes, func(n plan.Note) bool { return n.Code == plan.NoteOldState })
	s.gauge("npctl_watch_state_outdated", number(old))
}

// scrape is the response to one request for metrics.
type scrape struct {
	*Metrics
	watch.Pass
	to chan<- prometheus.Metric
}

func (s scrape) gauge(name string, value float64, labels ...string) {
	s.to <- prometheus.MustNewConstMetric(lookUpMetric(s.gauges, name), prometheus.GaugeValue, value, labels...)
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func unix(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

func (s scrape) requests() {
	w := inspect.Fleet{Desired: s.Desired, Observed: s.Observed}
	status := w.Status(s.Plan)
	s.cost(status.Cost)
	labels := map[string]int{}
	for i := range s.Desired.Labels {
		labels[s.Desired.Labels[i].Name] = 0
	}
	for _, r := range s.Observed.Records.Requests {
		for _, label := range r.Labels {
			if _, configured := labels[label]; configured && r.IsOpen() { // clients may name any label, and the series of a label remains
				labels[label]++
			}
		}
	}
	for _, state := range resources.StatesOf(resources.KindRequest) {
		s.gauge("npctl_node_requests", float64(status.Requests[state]), string(state))
	}
	for label, n := range labels {
		s.gauge("npctl_request_nodes_waiting", float64(n), label)
	}
	oldest := 0.0
	if !status.OldestRequest.IsZero() {
		oldest = max(0, s.Observed.Now.Sub(status.OldestRequest).Seconds())
	}
	s.gauge("npctl_node_requests_oldest_seconds", oldest)
	addressable := map[[2]string]int{} // by provider and pool; several processes may register a pool
	for _, pool := range w.ServingPools() {
		at := [2]string{pool.Provider, pool.Name}
		addressable[at] = max(addressable[at], pool.CountAddressable(s.Observed.Records.Requests))
	}
	for at, n := range addressable {
		s.gauge("npctl_pool_addressable_requests", float64(n), at[0], at[1])
	}
}

// cost exports the prices of nodes.
func (s scrape) cost(c resources.Cost) {
	for i := range c.Labels {
		l := &c.Labels[i]
		s.gauge("npctl_cost_per_hour", l.Now.Hour, l.Provider, l.Label, l.Currency)
		s.gauge("npctl_cost_min_ready_per_hour", l.MinReady.Hour, l.Provider, l.Label, l.Currency)
	}
	unpriced := map[[2]string]int64{} // of a label, nodes that are static and nodes that are not
	for _, u := range c.WithoutPrice {
		unpriced[[2]string{u.Provider, u.Label}] += u.Now
	}
	for of, n := range unpriced {
		s.gauge("npctl_nodes_without_price", float64(n), of[0], of[1])
	}
}

// nodeGroup is the set of label values of npctl_nodes.
type nodeGroup struct{ provider, pool, label, state string }

func (s scrape) nodes() {
	counts := map[nodeGroup]int{}
	for _, of := range s.offered() { // so that a count of 0 is exported too
		for _, state := range []resources.State{resources.StateBuilding, resources.StateReady, resources.StateInUse} {
			of.state = string(state)
			counts[of] = 0
		}
	}
	for _, n := range s.Observed.Records.Nodes {
		counts[nodeGroup{n.Provider, n.Pool, strings.Join(n.Labels, ","), string(n.State)}]++
	}
	for at, n := range counts {
		s.gauge("npctl_nodes", float64(n), at.provider, at.pool, at.label, at.state)
	}
	for i := range s.Desired.Labels {
		s.gauge("npctl_label_min_ready", float64(s.Desired.Labels[i].MinReady), s.Desired.Labels[i].Name)
	}
}

// offered returns the groups of nodes that the configuration offers.
func (s scrape) offered() (places []nodeGroup) {
	for i := range s.Desired.Providers {
		p := &s.Desired.Providers[i]
		for j := range p.Pools {
			pool := &p.Pools[j]
			for k := range pool.Offers {
				places = append(places, nodeGroup{p.Name, pool.Name, pool.Offers[k].Label, ""})
			}
			for k := range pool.Nodes {
				places = append(places, nodeGroup{p.Name, pool.Name, strings.Join(pool.Nodes[k].Labels, ","), ""})
			}
		}
	}
	return places
}

func (s scrape) providers() {
	for i := range s.Desired.Providers {
		p := &s.Desired.Providers[i]
		view := s.Observed.Providers[p.Name]
		s.gauge("npctl_provider_up", number(view.Err == "" && !view.ListedAt.IsZero()), p.Name)
		s.gauge("npctl_provider_frozen", number(s.Observed.Frozen[p.Name]), p.Name)
		failures := 0
		if f := s.Observed.LaunchFailures[plan.ProviderAddress(p.Name)]; f != nil {
			failures = f.Count
		}
		s.gauge("npctl_provider_launch_failures", float64(failures), p.Name)
		if !view.ListedAt.IsZero() {
			s.gauge("npctl_provider_listed_timestamp_seconds", unix(view.ListedAt), p.Name)
			s.quota(p.Name, s.Observed.Quota(p.Name))
		}
		for j := range p.Pools {
			if most := p.Pools[j].MaxServers; most != nil {
				s.gauge("npctl_pool_max_servers", float64(*most), p.Name, p.Pools[j].Name)
			}
		}
	}
}

func (s scrape) quota(provider string, q resources.Quota) {
	if q.Limit.IsZero() {
		return // static machines have no quota
	}
	for i, name := range resources.Dimensions {
		limit := float64(q.Limit.Of(resources.Dimension(i)))
		if limit == resources.Unlimited {
			limit = math.Inf(1)
		}
		s.gauge("npctl_quota_limit", limit, provider, name)
		s.gauge("npctl_quota_used", float64(q.Used.Of(resources.Dimension(i))), provider, name)
	}
	for name, limit := range q.Limit.Other {
		s.gauge("npctl_quota_limit", float64(limit), provider, name)
		s.gauge("npctl_quota_used", float64(q.Used.Other[name]), provider, name)
	}
}

func (s scrape) leaks() {
	type leak struct{ provider, kind string }
	counts := map[leak]int{}
	for i := range s.Desired.Providers {
		counts[leak{s.Desired.Providers[i].Name, "server"}] = 0
	}
	for _, seen := range s.Observed.Records.Sightings {
		counts[leak{seen.Provider, seen.Type}]++
	}
	for of, n := range counts {
		s.gauge("npctl_leaks", float64(n), of.provider, of.kind)
	}
}

func (s scrape) plan() {
	s.actions("npctl_plan_changes", s.Plan.Steps)
	s.gauge("npctl_plan_problems", float64(len(s.Plan.Problems)))
	failing := 0
	for i := range s.Plan.Notes {
		failing += int(number(s.Plan.Notes[i].Code == plan.NoteFailing))
	}
	s.gauge("npctl_steps_failing", float64(failing))
	drift := map[plan.Reason]int{plan.ReasonLost: 0, plan.ReasonConfigChanged: 0, plan.ReasonInputsChanged: 0}
	for i := range s.Plan.Steps {
		if _, counts := drift[s.Plan.Steps[i].Reason]; counts {
			drift[s.Plan.Steps[i].Reason]++
		}
	}
	for reason, n := range drift {
		s.gauge("npctl_drift", float64(n), string(reason))
	}
}

// actions exports the number of steps by action.
func (s scrape) actions(name string, steps []plan.Step) {
	counts := map[plan.Action]int{plan.ActionBuild: 0, plan.ActionUpload: 0, plan.ActionLaunch: 0, plan.ActionServe: 0, plan.ActionDecline: 0,
		plan.ActionDelete: 0}
	for i := range steps {
		counts[steps[i].Action]++
	}
	for action, n := range counts {
		s.gauge(name, float64(n), string(action))
	}
}

func (s scrape) records() {
	r := &s.Observed.Records
	for kind, n := range map[resources.Kind]int{resources.KindProvider: len(r.Providers), resources.KindImage: len(r.Images), resources.KindBuild: len(r.Builds),
		resources.KindUpload: len(r.Uploads), resources.KindNode: len(r.Nodes), resources.KindRequest: len(r.Requests),
		resources.KindTemplate: len(r.Templates), resources.KindSighting: len(r.Sightings), resources.KindHistory: len(r.Histories), resources.KindTrial: len(r.Trials)} {
		s.gauge("npctl_state_records", float64(n), string(kind))
	}
}

func (s scrape) images() {
	newest := inspect.NewestReadyBuilds(s.Observed.Records)
	remembered := map[string]*resources.ImageRecord{}
	for _, r := range s.Observed.Records.Images {
		remembered[r.Name] = r
	}
	for i := range s.Desired.Images {
		img := &s.Desired.Images[i]
		failures, paused := 0, img.Pause
		if r := remembered[img.Name]; r != nil {
			paused = paused || r.Paused
			if r.Failure != nil {
				failures = r.Failure.Count
			}
		}
		s.gauge("npctl_image_failures", float64(failures), img.Name)
		s.gauge("npctl_image_paused", number(paused), img.Name)
		if b := newest[img.Name]; b != nil {
			s.gauge("npctl_image_age_seconds", s.Observed.Now.Sub(builtAt(b)).Seconds(), img.Name)
		}
	}
	s.uploads()
	var size int64
	for _, f := range s.Observed.Files {
		size += f.Size
	}
	s.gauge("npctl_image_files_bytes", float64(size))
}

// builds exports the newest ready build of each image, and the requests for another one.
func (s scrape) builds(running []plan.Step, exitCodes map[string]int) {
	newest := inspect.NewestReadyBuilds(s.Observed.Records)
	for i := range s.Desired.Images {
		name := s.Desired.Images[i].Name
		s.gauge("npctl_image_build_requests", number(inspect.HasBuildRequest(&s.Observed, running, name)), name)
		if code, built := exitCodes[name]; built {
			s.gauge("npctl_image_last_build_exit_code", float64(code), name)
		}
		b := newest[name]
		if b == nil {
			continue
		}
		s.gauge("npctl_image_last_build_timestamp_seconds", unix(b.StateTime), name)
		sizes := map[string]int64{}
		for _, f := range b.Files {
			sizes[f.Format] = f.Size
		}
		for format, size := range sizes {
			s.gauge("npctl_image_size_bytes", float64(size), name, format)
		}
	}
}

// tenants exports the limits of tenants and their use.
func (s scrape) tenants() {
	if len(s.Desired.Settings.TenantLimits) == 0 {
		return
	}
	use := plan.TenantUse(s.Desired, s.Observed)
	for i := range s.Desired.Settings.TenantLimits {
		t := &s.Desired.Settings.TenantLimits[i]
		used := use[t.Tenant]
		for i, name := range resources.Dimensions[:len(resources.Dimensions)-1] {
			if limit := t.Of(resources.Dimension(i)); limit != nil {
				s.gauge("npctl_tenant_limit", float64(*limit), t.Tenant, name)
			}
			s.gauge("npctl_tenant_used", float64(used.Of(resources.Dimension(i))), t.Tenant, name)
		}
	}
}

// builtAt returns the creation time of a build's content: the time of its version for an image from an external source,
// otherwise that of the build.
func builtAt(b *resources.Build) time.Time {
	if !b.VersionTime.IsZero() {
		return b.VersionTime
	}
	return b.Created
}

// uploads exports the age of the upload from which new nodes in each provider boot.
func (s scrape) uploads() {
	builds := inspect.BuildsByID(s.Observed.Records)
	for _, choice := range plan.BootChoices(s.Desired, s.Observed.Records) {
		u := cmp.Or(choice.Upload, choice.Untested)
		s.gauge("npctl_image_unvalidated", number(choice.Untested != nil), u.Image, u.Provider)
		if choice.Upload == nil {
			continue
		}
		share := 1.0
		if choice.Rollout != nil {
			share = float64(choice.Rollout.Share) / 100
		}
		s.gauge("npctl_image_rollout_share", share, u.Image, u.Provider)
		s.gauge("npctl_image_returned", number(choice.IsReturn()), u.Image, u.Provider)
		at := u.Created
		if b := builds[u.Build]; b != nil {
			at = builtAt(b)
		}
		s.gauge("npctl_image_upload_age_seconds", s.Observed.Now.Sub(at).Seconds(), u.Image, u.Provider)
	}
}
