package reconcile_test

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// servers returns the servers of npctl in cloud one: the node ID by the cloud's ID.
func (l *lab) servers(t *testing.T) map[string]string {
	t.Helper()
	things, err := l.driver.Clouds["one"].Inventory()
	testutil.Must(t, err)
	found := map[string]string{}
	for _, thing := range things {
		if id := thing.Metadata["npctl_node_id"]; thing.Type == "server" && id != "" {
			found[thing.ID] = id
		}
	}
	return found
}

// A restored backup lacks the records created since. Their objects are deleted only with consent and within leak_limit,
// and new records get other IDs.
func TestRestoredStateDeletesNothingBySurprise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, strings.Replace(twoClouds, `leak_age   = "30s"`, `leak_age = "10m"
  leak_limit = 4`, 1), emulator.Options{})
		l.mustRun(t, plan.Options{})
		file := filepath.Join(l.dir, "npctl.db")
		backup, err := os.ReadFile(file)
		testutil.Must(t, err)
		l.config = strings.Replace(l.config, "min_ready = 2", "min_ready = 8", 1)
		l.mustRun(t, plan.Options{})
		before := l.servers(t)
		if len(before) != 8 {
			t.Fatalf("there are %d servers, want 8", len(before))
		}
		testutil.Must(t, os.WriteFile(file, backup, 0o600))

		for range 6 {
			l.mustRun(t, plan.Options{})
			time.Sleep(5 * time.Minute)
		}
		after := l.servers(t)
		for id := range before {
			if after[id] == "" {
				t.Errorf("server %s of node %s was deleted", id, before[id])
			}
		}
		nodes := map[string]bool{}
		for id, node := range after {
			if nodes[node] {
				t.Errorf("server %s has the id of another one, node %s", id, node)
			}
			nodes[node] = true
		}
		if len(after) != 14 {
			t.Errorf("there are %d servers, want the 8 of before and 6 new ones", len(after))
		}
		if text := notes(l.plan(plan.Options{})); !strings.Contains(text, plan.NoteOldState+": the state is older than the clouds") {
			t.Errorf("the plan does not say that the state is old:\n%s", text)
		}

		for i := range 3 {
			had := len(l.servers(t))
			l.mustRun(t, plan.Options{AllowDestroy: plan.AllowAll})
			l.mustRun(t, plan.Options{AllowDestroy: plan.AllowAll}) // immediately: the limit applies over time
			if gone := had - len(l.servers(t)); gone > 4 {
				t.Errorf("apply %d with consent deleted %d servers, leak_limit is 4", i, gone)
			}
			time.Sleep(11 * time.Minute)
		}
		last := l.servers(t)
		for _, r := range l.records(resources.KindNode) {
			maps.DeleteFunc(last, func(_, node string) bool { return node == r.Key().ID })
		}
		if len(last) > 0 {
			t.Errorf("servers without a record after consent: %v", last)
		}
	})
}

func notes(p plan.Plan) string {
	var b strings.Builder
	for _, n := range p.Notes {
		b.WriteString(n.Code + ": " + n.Text + "\n")
	}
	return b.String()
}
