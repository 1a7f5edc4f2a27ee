package metrics_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/internal/process"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/watch"
	"github.com/npctl/npctl/watch/metrics"
)

func fulfilled() *resources.Request {
	return &resources.Request{ID: "0000000007", State: resources.StateFulfilled, Labels: []string{"small", "small"}, Created: at(0), PendingSince: at(1),
		Ready: at(30), Nodes: []string{"0000000001"}}
}

func withRequest(p watch.Pass, requests ...*resources.Request) watch.Pass {
	p.Observed.Records.Requests = requests
	return p
}

// histogram returns the count and the sum of a histogram with that label.
func histogram(t *testing.T, m *metrics.Metrics, name, label string) string {
	t.Helper()
	for _, one := range gather(t, m)[name].GetMetric() {
		for _, pair := range one.GetLabel() {
			if pair.GetValue() == label {
				return fmt.Sprintf("%d: %g s", one.GetHistogram().GetSampleCount(), one.GetHistogram().GetSampleSum())
			}
		}
	}
	return "none"
}

func TestRequestIsCountedOnce(t *testing.T) {
	waiting := *fulfilled()
	waiting.State = resources.StatePending
	taken := func(m *metrics.Metrics) {
		m.RequestTaken(fulfilled(), []*resources.Node{{ID: "0000000001", StateTime: at(42)}})
	}
	pass := func(requests ...*resources.Request) func(*metrics.Metrics) {
		return func(m *metrics.Metrics) { m.Pass(withRequest(fleet(), requests...)) }
	}
	for _, test := range []struct {
		name    string
		happens []func(*metrics.Metrics)
	}{
		{"seen by passes, then taken", []func(*metrics.Metrics){pass(&waiting), pass(fulfilled()), pass(fulfilled()), taken, pass()}},
		{"gone when it is heard that it was taken", []func(*metrics.Metrics){pass(&waiting), pass(fulfilled()), pass(), taken, pass()}},
		{"taken between two passes", []func(*metrics.Metrics){pass(&waiting), taken, pass(), pass()}},
		{"taken while a pass is made that saw it wait", []func(*metrics.Metrics){pass(&waiting), taken, pass(&waiting), pass()}},
		{"taken while a pass is made that saw it fulfilled", []func(*metrics.Metrics){pass(&waiting), taken, pass(fulfilled()), pass()}},
	} {
		m := metrics.New(metrics.Options{})
		m.Pass(fleet())
		for _, happen := range test.happens {
			happen(m)
		}
		got := []string{histogram(t, m, "npctl_requests_finished_total", "fulfilled"), histogram(t, m, "npctl_request_ready_seconds", "small"),
			histogram(t, m, "npctl_request_phase_seconds", "accept")}
		got[0] = fmt.Sprint(gather(t, m)["npctl_requests_finished_total"].GetMetric()[1].GetCounter().GetValue())
		if diff := cmp.Diff([]string{"1", "1: 30 s", "1: 12 s"}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestRequestsOfEarlierDaemonsAreNotCounted(t *testing.T) {
	m := metrics.New(metrics.Options{})
	for range 2 {
		m.Pass(withRequest(fleet(), fulfilled()))
	}
	if got := histogram(t, m, "npctl_request_ready_seconds", "small"); got != "none" {
		t.Errorf("a request of before counts: %s", got)
	}
}

func TestRequestsServedByNodepoolAreNotTimed(t *testing.T) {
	m := metrics.New(metrics.Options{})
	m.Pass(fleet())
	theirs := *fulfilled()
	theirs.Ready, theirs.PendingSince, theirs.Placement = time.Time{}, time.Time{}, resources.Placement{}
	m.Pass(withRequest(fleet(), &theirs))
	got := []string{histogram(t, m, "npctl_request_ready_seconds", "small"), histogram(t, m, "npctl_request_phase_seconds", "queue"),
		fmt.Sprint(gather(t, m)["npctl_requests_finished_total"].GetMetric()[1].GetCounter().GetValue())}
	if diff := cmp.Diff([]string{"none", "none", "0"}, got); diff != "" {
		t.Errorf("ready, queue, fulfilled (-want +got):\n%s", diff)
	}
}

func TestShadowCountsComparisons(t *testing.T) {
	m := metrics.New(metrics.Options{})
	for _, result := range []watch.Result{watch.ResultAgree, watch.ResultAgree, watch.ResultWouldWait} {
		m.Compared(watch.Comparison{Result: result})
	}
	text := scrape(t, m)
	for _, line := range []string{`npctl_shadow_requests_total{result="agree"} 2`, `npctl_shadow_requests_total{result="would_wait"} 1`} {
		if lines := linesOf(text, line); len(lines) != 1 {
			t.Errorf("missing %s", line)
		}
	}
}

func TestRequestTimeIsSplitIntoPhases(t *testing.T) {
	launched := func(id string, created float64, p resources.Phases) *resources.Node {
		return &resources.Node{ID: id, Created: at(created), Phases: p}
	}
	for _, test := range []struct {
		name  string
		nodes []*resources.Node
		want  map[string]string
	}{
		{"one that waited for quota and was launched",
			[]*resources.Node{launched("0000000001", 11, resources.Phases{Create: 1, Boot: 12, Keyscan: 5})},
			map[string]string{"queue": "1: 0.5 s", "quota": "1: 10.5 s", "create": "1: 1 s", "boot": "1: 12 s", "keyscan": "1: 5 s", "other": "1: 1 s"}},
		{"nodes that were ready",
			[]*resources.Node{launched("0000000001", -50, resources.Phases{Create: 9, Boot: 9, Keyscan: 9})},
			map[string]string{"queue": "1: 0.5 s", "quota": "1: 29.5 s", "create": "none", "boot": "none", "keyscan": "none", "other": "none"}},
		{"the last one counts, and no more than the time there was",
			[]*resources.Node{launched("0000000001", 1, resources.Phases{Boot: 3}), launched("0000000002", 2, resources.Phases{Boot: 99})},
			map[string]string{"queue": "1: 0.5 s", "quota": "1: 1.5 s", "create": "1: 0 s", "boot": "1: 28 s", "keyscan": "1: 0 s", "other": "1: 0 s"}},
		{"machines that exist take no time",
			[]*resources.Node{{ID: "0000000001", Static: true, Created: at(2)}},
			map[string]string{"queue": "1: 0.5 s", "quota": "1: 29.5 s", "create": "none", "boot": "none", "keyscan": "none", "other": "none"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := metrics.New(metrics.Options{})
			m.Pass(watch.Pass{Observed: plan.Observed{Now: at(0)}})
			waiting := *fulfilled()
			waiting.State = resources.StateRequested
			for _, looked := range []float64{0.5, 0.9} { // the request is accepted at 1: before that no capacity was available
				m.Pass(watch.Pass{Observed: plan.Observed{Now: at(looked), Records: plan.Records{Requests: []*resources.Request{&waiting}}}})
			}
			r := fulfilled()
			r.Nodes = nil
			for _, n := range test.nodes {
				r.Nodes = append(r.Nodes, n.ID)
			}
			m.Pass(watch.Pass{Observed: plan.Observed{Now: at(31), Records: plan.Records{Nodes: test.nodes, Requests: []*resources.Request{r}}}})
			got := map[string]string{}
			for phase := range test.want {
				got[phase] = histogram(t, m, "npctl_request_phase_seconds", phase)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("phases (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLaunchesAreTimedByTheirRecord(t *testing.T) {
	m := metrics.New(metrics.Options{Classify: func(err error) string { return err.Error() }})
	launch := plan.Step{Kind: plan.KindLaunch, Provider: "cloud"}
	m.Step(reconcile.Event{Kind: reconcile.EventStart, Step: launch})
	m.Step(reconcile.Event{Kind: reconcile.EventDone, Step: launch, ID: "0000000002", Took: time.Hour})
	m.Step(reconcile.Event{Kind: reconcile.EventFailed, Step: launch, Err: errors.New("quota")})
	p := fleet()
	p.Observed.Records.Nodes[1].Seconds, p.Observed.Records.Nodes[1].Phases = 20, resources.Phases{Create: 2, Boot: 15, Keyscan: 3}
	m.Pass(p)
	m.Pass(p)
	got := map[string]string{}
	for _, phase := range []string{"total", "create", "boot", "keyscan"} {
		got[phase] = histogram(t, m, "npctl_node_launch_seconds", phase)
	}
	if diff := cmp.Diff(map[string]string{"total": "1: 20 s", "create": "1: 2 s", "boot": "1: 15 s", "keyscan": "1: 3 s"}, got); diff != "" {
		t.Errorf("launch (-want +got):\n%s", diff)
	}
	for _, line := range []string{`npctl_node_launches_total{provider="cloud",reason="",result="ready"} 1`,
		`npctl_node_launches_total{provider="cloud",reason="quota",result="failed"} 1`} {
		if lines := linesOf(scrape(t, m), line); len(lines) != 1 {
			t.Errorf("missing %s", line)
		}
	}
}

func TestLaunchesAreCountedByZoneAndRequestor(t *testing.T) {
	m := metrics.New(metrics.Options{})
	m.Pass(fleet())
	launch := plan.Step{Kind: plan.KindLaunch, Provider: "cloud", Request: "0000000002"}
	m.Step(reconcile.Event{Kind: reconcile.EventDone, Step: launch, ID: "0000000002"})
	m.Step(reconcile.Event{Kind: reconcile.EventFailed, Step: launch, ID: "0000000002", Err: errors.New("no")})
	m.Step(reconcile.Event{Kind: reconcile.EventFailed, Step: plan.Step{Kind: plan.KindLaunch, Provider: "cloud"}, Err: errors.New("no")})
	m.Step(reconcile.Event{Kind: reconcile.EventFailed, Step: plan.Step{Kind: plan.KindLaunch, Provider: "cloud", Request: "gone"}, Err: errors.New("no")})
	m.Pass(fleet())
	text := scrape(t, m)
	for _, line := range []string{`npctl_zone_launches_total{provider="cloud",result="ready",zone="nova"} 1`, `npctl_zone_launches_total{provider="cloud",result="failed",zone="nova"} 1`,
		`npctl_zone_launches_total{provider="cloud",result="failed",zone=""} 2`, `npctl_requestor_launches_total{requestor="zuul.example.com",result="ready"} 1`,
		`npctl_requestor_launches_total{requestor="zuul.example.com",result="failed"} 1`, `npctl_requestor_launches_total{requestor="NodePool:min-ready",result="failed"} 1`,
		`npctl_requestor_launches_total{requestor="other",result="failed"} 1`} {
		if lines := linesOf(text, line); len(lines) != 1 {
			t.Errorf("missing %s in\n%s", line, append(linesOf(text, "npctl_zone"), linesOf(text, "npctl_requestor")...))
		}
	}
}

func TestRequestorsAreBounded(t *testing.T) {
	m := metrics.New(metrics.Options{})
	var all []*resources.Request
	for i := range 80 {
		all = append(all, &resources.Request{ID: fmt.Sprintf("%010d", i), State: resources.StatePending, Created: at(0), Requestor: fmt.Sprint("client-", i)})
	}
	m.Pass(withRequest(fleet(), all...))
	for range 2 { // the known ones keep their series
		for _, r := range all {
			m.Step(reconcile.Event{Kind: reconcile.EventFailed, Step: plan.Step{Kind: plan.KindLaunch, Provider: "cloud", Request: r.ID}, Err: errors.New("no")})
		}
	}
	text := scrape(t, m)
	if n := len(linesOf(text, "npctl_requestor_launches_total{")); n != 51 {
		t.Errorf("%d requestors, want 50 and other", n)
	}
	for _, line := range []string{`npctl_requestor_launches_total{requestor="other",result="failed"} 60`, `npctl_requestor_launches_total{requestor="client-0",result="failed"} 2`} {
		if len(linesOf(text, line)) != 1 {
			t.Errorf("missing %s", line)
		}
	}
}

func TestResultOfLastBuildIsExported(t *testing.T) {
	m := metrics.New(metrics.Options{})
	m.Pass(fleet())
	failed := fmt.Errorf("build: %w", &process.ExitError{Program: "disk-image-create", Code: 7})
	for _, test := range []struct {
		event reconcile.Event
		want  string
	}{
		{reconcile.Event{Kind: reconcile.EventFailed, Err: failed}, "7"},
		{reconcile.Event{Kind: reconcile.EventFailed, Err: errors.New("no space")}, "1"},
		{reconcile.Event{Kind: reconcile.EventDone}, "0"},
	} {
		test.event.Step = plan.Step{Kind: plan.KindBuild, Image: "debian"}
		m.Step(test.event)
		if diff := cmp.Diff([]string{`npctl_image_last_build_exit_code{image="debian"} ` + test.want}, linesOf(scrape(t, m), "npctl_image_last_build_exit_code")); diff != "" {
			t.Errorf("exit code (-want +got):\n%s", diff)
		}
	}
}

func TestOneOfSeveralProcessesCountsARequest(t *testing.T) {
	failed := &resources.Request{ID: "200-0000000009", State: resources.StateFailed, Labels: []string{"moon"}, Created: at(0)}
	fails := func(kind reconcile.EventKind) reconcile.Event {
		return reconcile.Event{Time: at(99), Kind: kind, Step: plan.Step{Kind: plan.KindDecline, Reason: plan.ReasonAllDeclined, Record: failed.Key()}}
	}
	declines := fails(reconcile.EventDone)
	declines.Step.Reason = plan.ReasonDeclined
	for name, c := range map[string]struct {
		served map[string]bool
		steps  []reconcile.Event
		want   []string // fulfilled, failed, timed
	}{
		"who serves the provider":            {map[string]bool{"cloud": true}, nil, []string{"1", "0", "1: 30 s"}},
		"who serves another one":             {map[string]bool{"rack": true}, nil, []string{"0", "0", "none"}},
		"who serves none, such as a shadow":  {nil, nil, []string{"0", "0", "none"}},
		"who fails it":                       {nil, []reconcile.Event{fails(reconcile.EventStart), fails(reconcile.EventDone)}, []string{"0", "1", "none"}},
		"who is overtaken by others":         {nil, []reconcile.Event{fails(reconcile.EventStart)}, []string{"0", "0", "none"}},
		"who could not, since others did it": {nil, []reconcile.Event{fails(reconcile.EventStart), fails(reconcile.EventFailed)}, []string{"0", "0", "none"}},
		"who has only declined it":           {nil, []reconcile.Event{declines}, []string{"0", "0", "none"}},
	} {
		m := metrics.New(metrics.Options{})
		pass := func(requests ...*resources.Request) {
			p := withRequest(fleet(), requests...)
			p.Observed.Shared, p.Leads = true, c.served
			m.Pass(p)
		}
		served := fulfilled()
		served.Placement = resources.Placement{Provider: "cloud", Pool: "main"}
		pass()
		for _, step := range c.steps {
			m.Step(step)
		}
		pass(served, failed)
		pass(served, failed)
		m.RequestTaken(served, []*resources.Node{{ID: "0000000001", StateTime: at(42)}}) // from any process that the requestor asks
		pass()
		finished := map[string]string{}
		for _, one := range gather(t, m)["npctl_requests_finished_total"].GetMetric() {
			finished[one.GetLabel()[0].GetValue()] = fmt.Sprint(one.GetCounter().GetValue())
		}
		got := []string{finished["fulfilled"], finished["failed"], histogram(t, m, "npctl_request_ready_seconds", "small")}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: fulfilled, failed, timed (-want +got):\n%s", name, diff)
		}
	}
}
