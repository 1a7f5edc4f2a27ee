package reconcile_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// hooked returns a configuration with one node, for which each hook runs the shell script.
func hooked(launched, ready, deleted string) string {
	quoted := func(script string) string {
		text, _ := json.Marshal(script)
		return `["sh", "-c", ` + string(text) + `]`
	}
	const two = `provider "lab" "two"`
	settings, _, _ := strings.Cut(twoClouds, `label "small"`)
	_, provider, _ := strings.Cut(twoClouds, two)
	alone := settings + "label \"large\" { min_ready = 1 }\n\n" + two + provider
	return strings.Replace(alone, "provider \"lab\" \"two\" {\n", "provider \"lab\" \"two\" {\n  node_launched_hook = "+quoted(launched)+
		"\n  node_ready_hook = "+quoted(ready)+"\n  node_deleted_hook = "+quoted(deleted)+"\n", 1)
}

// note is a hook that records its event and its node.
const note = `echo "$NPCTL_EVENT $NPCTL_NODE_ID $NPCTL_PROVIDER/$NPCTL_POOL/$NPCTL_LABEL" >>events; cat >>nodes; echo noted`

// hookEvents returns the events that hooks have recorded, each with its node.
func (l *lab) hookEvents(t *testing.T) (events []string, nodes []resources.Node) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(l.dir, "events"))
	if err != nil {
		return nil, nil
	}
	decoder := json.NewDecoder(strings.NewReader(testutil.ReadFile(t, filepath.Join(l.dir, "nodes"))))
	for line := range strings.Lines(string(text)) {
		event, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		var n resources.Node
		testutil.Must(t, decoder.Decode(&n))
		if want := n.ID + " two/main/large"; rest != want {
			t.Errorf("event %s is about %q, want %q", event, rest, want)
		}
		events, nodes = append(events, event), append(nodes, n)
	}
	return events, nodes
}

func TestHooksOfNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, hooked(note, note+"; exit 3", note+"; exit 4"), emulator.Options{BuildTime: 20 * time.Second,
			Foreign: []emulator.ForeignServer{{Name: "np0000000001"}}})
		l.plan(plan.Options{})
		if events, _ := l.hookEvents(t); len(events) > 0 {
			t.Errorf("a plan ran %v", events)
		}
		l.mustRun(t, plan.Options{})
		events, nodes := l.hookEvents(t)
		if !slices.Equal(events, []string{"launched", "ready"}) {
			t.Fatalf("hooks ran for %v", events)
		}
		for i, want := range []resources.State{resources.StateBuilding, resources.StateReady} {
			if n := nodes[i]; n.State != want || n.Addresses.Interface == "" || n.ExternalID == "" {
				t.Errorf("%s: the hook reads state %s, address %q, server %q", events[i], n.State, n.Addresses.Interface, n.ExternalID)
			}
		}
		l.mustRun(t, plan.Options{Destroy: true})
		if events, _ := l.hookEvents(t); !slices.Equal(events, []string{"launched", "ready", "deleted"}) {
			t.Errorf("hooks ran for %v", events)
		}
		l.empty(t)
	})
}

func TestFailingHookFailsTheLaunchAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, hooked(note+"; mkdir refused 2>/dev/null && { echo no DNS; exit 1; }; true", note, note), emulator.Options{BuildTime: 20 * time.Second})
		l.mustRun(t, plan.Options{})
		events, nodes := l.hookEvents(t)
		slices.Sort(events)
		if !slices.Equal(events, []string{"deleted", "launched", "launched", "ready"}) {
			t.Errorf("hooks ran for %v", events)
		}
		ready := l.nodes()
		if len(ready) != 1 || ready[0].State != resources.StateReady || ready[0].ID == nodes[0].ID {
			t.Errorf("nodes are %+v, want a ready one other than %s", ready, nodes[0].ID)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, hooked("echo no DNS; exit 1", note, note), emulator.Options{BuildTime: 20 * time.Second})
		_, result, _ := l.run(t.Context(), plan.Options{})
		if len(result.Failed) != 1 || !strings.Contains(result.Failed[0].Err.Error(), "attempt 3 of 3: node_launched_hook: ") || !strings.Contains(result.Failed[0].Err.Error(), "no DNS") {
			t.Errorf("failed steps are %+v", result.Failed)
		}
	})
}

// TestHooksAndKills kills an apply and a destroy at every commit and every changing call. The hooks of launched and
// deleted run at least once for each node that was ready, and the hook of ready at most once.
func TestHooksAndKills(t *testing.T) {
	for at := 1; ; at++ {
		struck := false
		synctest.Test(t, func(t *testing.T) {
			l := newLab(t, hooked(note, note, note), emulator.Options{BuildTime: 20 * time.Second, DeleteTime: 5 * time.Second})
			l.kill.Revive(at)
			_, _, _ = l.run(t.Context(), plan.Options{})
			where, died := l.kill.Died()
			if !died {
				_, _, _ = l.run(t.Context(), plan.Options{Destroy: true})
				where, died = l.kill.Died()
			}
			struck = died
			l.kill.Revive(0)
			l.mustRun(t, plan.Options{})
			ready := l.nodes()
			l.mustRun(t, plan.Options{Destroy: true})
			count := map[string]int{}
			events, nodes := l.hookEvents(t)
			for i, event := range events {
				count[event+" "+nodes[i].ID]++
			}
			for _, n := range ready {
				if count["launched "+n.ID] == 0 || count["deleted "+n.ID] == 0 || count["ready "+n.ID] > 1 {
					t.Errorf("killed at point %d %s: hooks of node %s ran as %v", at, where, n.ID, count)
				}
			}
		})
		if !struck || t.Failed() {
			if at < 20 {
				t.Errorf("only %d points were passed", at-1)
			}
			return
		}
	}
}
