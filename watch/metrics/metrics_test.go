package metrics_test

import (
	"context"
	"errors"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/watch"
	"github.com/npctl/npctl/watch/metrics"
)

var start = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }

func ptr[T any](v T) *T { return &v }

// fleet is a pass with at least one object of every kind.
func fleet() watch.Pass {
	return watch.Pass{
		Took: 3 * time.Millisecond,
		Desired: resources.Desired{
			Settings: resources.Settings{TenantLimits: []resources.TenantLimit{{Tenant: "one", Limits: resources.Limits{MaxServers: ptr(int64(3)), MaxRAM: ptr(int64(4096))}}}},
			Labels:   []resources.Label{{Name: "small", MinReady: 2}, {Name: "metal"}},
			Images:   []resources.Image{{Name: "debian", Pause: true}},
			Providers: []resources.Provider{
				{Name: "cloud", Prices: map[string]float64{"tiny": 0.05}, Currency: "EUR",
					Pools: []resources.Pool{{Name: "main", Limits: resources.Limits{MaxServers: ptr(int64(5))}, Offers: []resources.Offer{{Label: "small", Static: map[string]string{"flavor": `"tiny"`}}}}}},
				{Name: "rack", Pools: []resources.Pool{{Name: "main", Nodes: []resources.StaticNode{{Name: "m1", Labels: []string{"metal", "slow"}}}}}},
			},
		},
		Observed: plan.Observed{
			Now: at(100),
			Providers: map[string]plan.ProviderView{
				"cloud": {ListedAt: at(90), Quota: resources.Quota{Limit: resources.ResourceAmounts{Instances: 10, Cores: resources.Unlimited}, Used: resources.ResourceAmounts{Instances: 4, Cores: 8}}},
				"rack":  {Err: "no answer"},
			},
			RequestedBuilds: []string{"debian"},
			Frozen:          map[string]bool{"rack": true},
			LaunchFailures:  map[plan.Address]*resources.Failure{plan.ProviderAddress("cloud"): {Count: 3}},
			Files:           []plan.ImageFile{{Name: "debian.raw", Size: 1000}, {Name: "debian.qcow2", Size: 500}},
			Records: plan.Records{
				Nodes: []*resources.Node{
					{ID: "0000000001", Provider: "cloud", Pool: "main", Labels: []string{"small"}, State: resources.StateReady, Tenant: "one", ExternalID: "server", Resources: resources.ResourceAmounts{RAM: 1024}},
					{ID: "0000000002", Provider: "cloud", Pool: "main", Labels: []string{"small"}, State: resources.StateReady, Zone: "nova", Request: "0000000002"},
					{ID: "0000000003", Provider: "rack", Pool: "main", Labels: []string{"metal", "slow"}, State: resources.StateHold, Static: true},
				},
				Requests: []*resources.Request{
					{ID: "0000000001", State: resources.StateRequested, Created: at(40), Labels: []string{"small", "small", "anything"}},
					{ID: "0000000002", State: resources.StatePending, Created: at(70), Labels: []string{"small"}, Requestor: "zuul.example.com"},
				},
				Images: []*resources.ImageRecord{{Name: "debian", Failure: &resources.Failure{Count: 2}}},
				Builds: []*resources.Build{{ID: "b1", Image: "debian", State: resources.StateReady, Created: at(0), StateTime: at(20), Files: []resources.ImageFile{{Format: "qcow2", Size: 500}, {Format: "raw", Size: 1000}}},
					{ID: "b2", Image: "debian", State: resources.StateFailed, Created: at(50)}},
				Uploads:   []*resources.Upload{{ID: "u1", Image: "debian", Build: "b1", Provider: "cloud", State: resources.StateReady, Created: at(60)}},
				Sightings: []*resources.Sighting{{Provider: "cloud", Type: "port"}, {Provider: "cloud", Type: "port"}},
			},
		},
		Plan: plan.Plan{Steps: []plan.Step{{Kind: plan.KindLaunch}, {Kind: plan.KindForgetNode, Reason: plan.ReasonLost}}, Problems: []plan.Problem{{}},
			Notes: []plan.Note{{Code: plan.NoteFailing}, {Code: "paused"}}},
	}
}

func TestLastPassIsExported(t *testing.T) {
	m := metrics.New(metrics.Options{Version: "1.2.3"})
	m.Pass(fleet())
	want := `
npctl_nodes{label="small",pool="main",provider="cloud",state="ready"} 2
npctl_nodes{label="small",pool="main",provider="cloud",state="in-use"} 0
npctl_nodes{label="metal,slow",pool="main",provider="rack",state="hold"} 1
npctl_nodes{label="metal,slow",pool="main",provider="rack",state="ready"} 0
npctl_label_min_ready{label="small"} 2
npctl_node_requests{state="requested"} 1
npctl_node_requests{state="pending"} 1
npctl_node_requests{state="failed"} 0
npctl_node_requests_oldest_seconds 60
npctl_request_nodes_waiting{label="small"} 3
npctl_request_nodes_waiting{label="metal"} 0
npctl_provider_up{provider="cloud"} 1
npctl_provider_up{provider="rack"} 0
npctl_provider_frozen{provider="rack"} 1
npctl_provider_launch_failures{provider="cloud"} 3
npctl_quota_limit{provider="cloud",resource="instances"} 10
npctl_quota_limit{provider="cloud",resource="cores"} +Inf
npctl_quota_used{provider="cloud",resource="instances"} 6
npctl_pool_max_servers{pool="main",provider="cloud"} 5
npctl_cost_per_hour{currency="EUR",label="small",provider="cloud"} 0.05
npctl_cost_min_ready_per_hour{currency="EUR",label="small",provider="cloud"} 0.1
npctl_nodes_without_price{label="metal",provider="rack"} 1
npctl_nodes_without_price{label="slow",provider="rack"} 0
npctl_leaks{provider="cloud",type="port"} 2
npctl_leaks{provider="rack",type="server"} 0
npctl_image_age_seconds{image="debian"} 100
npctl_image_upload_age_seconds{image="debian",provider="cloud"} 100
npctl_image_last_build_timestamp_seconds{image="debian"} 1.79525522e+09
npctl_image_size_bytes{format="qcow2",image="debian"} 500
npctl_image_size_bytes{format="raw",image="debian"} 1000
npctl_image_build_requests{image="debian"} 1
npctl_tenant_limit{resource="instances",tenant="one"} 3
npctl_tenant_limit{resource="ram_mib",tenant="one"} 4096
npctl_tenant_used{resource="instances",tenant="one"} 1
npctl_tenant_used{resource="ram_mib",tenant="one"} 1024
npctl_pool_addressable_requests{pool="main",provider="cloud"} 1
npctl_pool_addressable_requests{pool="main",provider="rack"} 0
npctl_image_failures{image="debian"} 2
npctl_image_paused{image="debian"} 1
npctl_image_files_bytes 1500
npctl_plan_changes{action="launch"} 1
npctl_plan_changes{action="build"} 0
npctl_plan_problems 1
npctl_steps_failing 1
npctl_drift{reason="lost"} 1
npctl_drift{reason="config-changed"} 0
npctl_state_records{kind="node"} 3
npctl_watch_passes_total 1
npctl_watch_last_pass_timestamp_seconds 1.7952553e+09
npctl_build_info{goversion="` + goVersion(t, m) + `",version="1.2.3"} 1`
	text := scrape(t, m)
	for line := range strings.SplitSeq(strings.TrimSpace(want), "\n") {
		if !strings.Contains(text, "\n"+line+"\n") {
			name, _, _ := strings.Cut(line, "{")
			t.Errorf("missing %s; there is\n%s", line, strings.Join(linesOf(text, name), "\n"))
		}
	}
	if strings.Contains(text, "anything") {
		t.Error("a label that somebody made up became one of a metric")
	}
	if strings.Contains(text, `npctl_tenant_limit{resource="cores"`) {
		t.Error("a tenant without a limit for cores has one")
	}
	if strings.Contains(text, "npctl_image_last_build_exit_code{") {
		t.Error("a build that did not run has an exit code")
	}
	if strings.Contains(text, `npctl_quota_limit{provider="rack"`) {
		t.Error("a provider without quota has one")
	}
}

func scrape(t *testing.T, m *metrics.Metrics) string {
	t.Helper()
	answer := httptest.NewRecorder()
	m.Handler().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	if answer.Code != 200 {
		t.Fatalf("scrape: %d %s", answer.Code, answer.Body)
	}
	return answer.Body.String()
}

func linesOf(text, name string) (lines []string) {
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, name) {
			lines = append(lines, line)
		}
	}
	return lines
}

func goVersion(t *testing.T, m *metrics.Metrics) string {
	t.Helper()
	for _, pair := range gather(t, m)["npctl_build_info"].GetMetric()[0].GetLabel() {
		if pair.GetName() == "goversion" {
			return pair.GetValue()
		}
	}
	return ""
}

func gather(t *testing.T, m *metrics.Metrics) map[string]*dto.MetricFamily {
	t.Helper()
	families, err := m.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]*dto.MetricFamily{}
	for _, f := range families {
		byName[f.GetName()] = f
	}
	return byName
}

// everything makes each metric appear at least once.
func everything(t *testing.T) *metrics.Metrics {
	t.Helper()
	m := metrics.New(metrics.Options{Classify: func(error) string { return "quota" }})
	m.Pass(fleet())
	m.Pass(withRequest(fleet(), fulfilled()))
	m.RequestTaken(fulfilled(), []*resources.Node{{ID: "0000000001", StateTime: at(40)}})
	for _, kind := range []plan.Kind{plan.KindBuild, plan.KindUpload, plan.KindLaunch} {
		m.Step(reconcile.Event{Kind: reconcile.EventDone, Step: plan.Step{Kind: kind, Image: "debian", Provider: "cloud"}, ID: "0000000001"})
	}
	m.Step(reconcile.Event{Kind: reconcile.EventDone, Step: plan.Step{Kind: plan.KindDeleteLeftover, Reason: plan.ReasonLeaked, Type: "port"}})
	m.Pass(fleet())
	m.Call("cloud", "list", time.Second, errors.New("no"))
	m.InvalidToken("unknown")
	m.Reload("invalid")
	m.Compared(watch.Comparison{Result: watch.ResultAgree})
	m.Timed(remoteStore{})
	store := m.Timed(brokenStore{})
	if _, err := store.Commit(t.Context()); err == nil {
		t.Fatal("the commit went well")
	}
	return m
}

type brokenStore struct{ metrics.Store }

// remoteStore is a shared store whose connection was lost and is back.
type remoteStore struct {
	state.Shared
	state.Identified
}

func (remoteStore) Connected() bool { return true }

func (remoteStore) Observe(o *state.Observer) {
	o.Reconnected()
	o.Called(time.Second, true)
	o.Called(2*time.Second, false)
}

func TestConnectionOfStoreIsExported(t *testing.T) {
	m := metrics.New(metrics.Options{})
	if text := scrape(t, m); strings.Contains(text, "npctl_state_connected ") {
		t.Error("a local state has a connection")
	}
	m.Timed(remoteStore{})
	text := scrape(t, m)
	for _, want := range []string{"npctl_state_connected 1", "npctl_state_reconnects_total 1", `npctl_state_call_seconds_sum{result="done"} 1`, `npctl_state_call_seconds_sum{result="failed"} 2`} {
		if !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("missing %s", want)
		}
	}
}

func (brokenStore) Commit(context.Context, ...state.Op) ([]state.Entry, error) {
	return nil, state.ErrConflict
}

// notWithoutDaemon lists the metrics that need a daemon; TestADaemonIsShown checks them.
var notWithoutDaemon = []string{"npctl_steps_running", "npctl_watch_stalled_seconds"}

func TestMetricsMatchTheirTable(t *testing.T) {
	got := gather(t, everything(t))
	kinds := map[metrics.Kind]dto.MetricType{metrics.Counter: dto.MetricType_COUNTER, metrics.Gauge: dto.MetricType_GAUGE, metrics.Histogram: dto.MetricType_HISTOGRAM}
	known := map[string]bool{}
	for _, f := range metrics.Families() {
		known[f.Name] = true
		family := got[f.Name]
		if slices.Contains(notWithoutDaemon, f.Name) {
			continue
		}
		if family == nil {
			t.Errorf("%s never appears", f.Name)
			continue
		}
		var labels []string
		for _, pair := range family.GetMetric()[0].GetLabel() {
			labels = append(labels, pair.GetName())
		}
		if diff := cmp.Diff(slices.Sorted(slices.Values(f.Labels)), labels); diff != "" || family.GetType() != kinds[f.Kind] {
			t.Errorf("%s is a %s with labels (-want +got):\n%s", f.Name, family.GetType(), diff)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if strings.HasPrefix(name, "npctl_") && !known[name] {
			t.Errorf("%s is in no table", name)
		}
	}
}

func TestMetricNamesFollowPrometheusRules(t *testing.T) {
	problems, err := testutil.GatherAndLint(everything(t).Registry())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestNoIDIsALabel(t *testing.T) {
	for name, family := range gather(t, everything(t)) {
		for _, one := range family.GetMetric() {
			for _, pair := range one.GetLabel() {
				if strings.HasPrefix(pair.GetValue(), "00000") || slices.Contains([]string{"node", "request", "build", "upload", "id"}, pair.GetName()) {
					t.Errorf("%s has the label %s=%q", name, pair.GetName(), pair.GetValue())
				}
			}
		}
	}
}

func TestProvidersAreNotQueriedBeforeTheirFirstListing(t *testing.T) {
	text := scrape(t, metrics.New(metrics.Options{}))
	if lines := linesOf(text, "npctl_nodes"); len(lines) > 0 {
		t.Errorf("nodes are counted before the first pass: %s", lines)
	}
	if diff := cmp.Diff([]string{"npctl_watch_config_stale 0"}, linesOf(text, "npctl_watch_config_stale")); diff != "" {
		t.Errorf("config_stale (-want +got):\n%s", diff)
	}
}

func TestCountersStartAtZero(t *testing.T) {
	m := metrics.New(metrics.Options{})
	m.Pass(fleet())
	text := scrape(t, m)
	for _, want := range []string{
		`npctl_api_invalid_tokens_total{result="throttled"} 0`, `npctl_watch_reloads_total{result="invalid"} 0`, `npctl_leaks_deleted_total{type="server"} 0`,
		`npctl_image_builds_total{image="debian",result="failed"} 0`, `npctl_image_uploads_total{provider="cloud",result="ready"} 0`,
		`npctl_node_launches_total{provider="cloud",reason="quota",result="failed"} 0`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("there is no %s", want)
		}
	}
	if strings.Contains(text, `npctl_node_launches_total{provider="rack"`) {
		t.Error("launches are counted where nothing is launched")
	}
}
