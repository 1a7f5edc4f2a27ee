package watch_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/watch"
)

// budgetWitness records, at each commit, the least number of ready nodes and the largest number of nodes that are being replaced.
type budgetWitness struct {
	mu       sync.Mutex // guards the fields below
	counts   bool
	ready    int
	replaced int
	first    time.Time // when the first deletion of a node in a budget was recorded
}

func (w *budgetWitness) start(ready int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts, w.ready = true, ready
}

// life returns a daemon's life that ends at the commit dieAt.
func (w *budgetWitness) life(t *testing.T, l *lab, dieAt int64) *life {
	return &life{dieAt: dieAt, told: func([]state.Op) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !w.counts {
			return
		}
		entries, err := l.store.List(t.Context(), resources.KindNode)
		testutil.Must(t, err)
		ready, replaced := 0, 0
		for _, entry := range entries {
			switch n := entry.Record.(*resources.Node); {
			case n.Static:
			case n.State == resources.StateReady:
				ready++
			case n.DeletedFor != "":
				replaced++
			}
		}
		if replaced > 0 && w.first.IsZero() {
			w.first = l.now()
		}
		w.ready, w.replaced = min(w.ready, ready), max(w.replaced, replaced)
	}}
}

// replacedAll waits until none of the earlier nodes is left.
func (l *lab) replacedAll(t *testing.T, before map[string]bool) {
	t.Helper()
	testutil.Await(t, "only successors are left", func() bool {
		now := l.stock(t, "small")
		for id := range now {
			if before[id] {
				return false
			}
		}
		return len(now) == len(before)
	})
}

// TestDaemonReplacesNodesWithinBudget: ten nodes are replaced one by one, with and without capacity for one more.
func TestDaemonReplacesNodesWithinBudget(t *testing.T) {
	for _, servers := range []int{10, 11, 20} {
		t.Run(fmt.Sprintf("max_servers=%d", servers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				config := strings.NewReplacer(`label "small" { min_ready = 1 }`, "label \"small\" {\n  min_ready = 10\n  disruption {\n    max = \"10%\"\n  }\n}",
					"max_servers       = 5", fmt.Sprint("max_servers = ", servers)).Replace(fleet)
				l := newLab(t, config, emulator.Options{BuildTime: 20 * time.Second, DeleteTime: 5 * time.Second})
				var witness budgetWitness
				d, end := l.daemonWith(witness.life(t, l, 0))
				defer end(true)
				testutil.Await(t, "ten nodes are ready", func() bool { return len(l.stock(t, "small")) == 10 })
				before := l.stock(t, "small")
				witness.start(10)
				l.write(strings.Replace(config, `flavor = "small"`, `flavor = "large"`, 1))
				if _, err := d.Reload(t.Context(), watch.ReloadOptions{}); err != nil {
					t.Fatal(err)
				}
				l.replacedAll(t, before)
				witness.mu.Lock()
				defer witness.mu.Unlock()
				least := map[bool]int{false: 10, true: 9}[servers == 10]
				if witness.replaced != 1 || witness.ready < least {
					t.Errorf("%d nodes were replaced at a time, and %d were ready; want 1 and at least %d", witness.replaced, witness.ready, least)
				}
			})
		})
	}
}

// TestKilledDaemonKeepsBudget kills daemons at commits of a rollout and starts others.
func TestKilledDaemonKeepsBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := strings.NewReplacer(`label "small" { min_ready = 1 }`, "label \"small\" {\n  min_ready = 5\n  disruption {\n    max = 2\n  }\n}",
			"max_servers       = 5", "max_servers = 6").Replace(fleet)
		l := newLab(t, config, emulator.Options{BuildTime: 20 * time.Second, DeleteTime: 5 * time.Second})
		var witness budgetWitness
		_, end := l.daemonWith(witness.life(t, l, 0))
		testutil.Await(t, "five nodes are ready", func() bool { return len(l.stock(t, "small")) == 5 })
		before := l.stock(t, "small")
		end(true)
		witness.start(5)
		l.write(strings.Replace(config, `flavor = "small"`, `flavor = "large"`, 1))
		for dieAt := int64(3); dieAt < 15; dieAt += 2 {
			life := witness.life(t, l, dieAt)
			life.late = dieAt%4 == 1
			_, end := l.daemonWith(life)
			for range 120 {
				time.Sleep(time.Second)
				if life.over.Load() {
					break
				}
			}
			end(false)
		}
		_, end = l.daemonWith(witness.life(t, l, 0))
		defer end(true)
		l.replacedAll(t, before)
		witness.mu.Lock()
		defer witness.mu.Unlock()
		if witness.replaced > 2 || witness.ready < 3 {
			t.Errorf("%d nodes were replaced at a time, and %d were ready", witness.replaced, witness.ready)
		}
	})
}

// TestDaemonWaitsForWindowOfBudget: nothing wakes the daemon when the window opens, except its own passes.
func TestDaemonWaitsForWindowOfBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := strings.Replace(fleet, `label "small" { min_ready = 1 }`,
			"label \"small\" {\n  min_ready = 1\n  disruption {\n    max = 1\n    schedule = \"0 5 * * *\"\n    duration = \"1h\"\n  }\n}", 1)
		l := newLab(t, config, emulator.Options{BuildTime: 20 * time.Second, DeleteTime: 5 * time.Second})
		var witness budgetWitness
		d, end := l.daemonWith(witness.life(t, l, 0))
		defer end(true)
		testutil.Await(t, "a node is ready", func() bool { return len(l.stock(t, "small")) == 1 })
		before := l.stock(t, "small")
		witness.start(1)
		l.write(strings.Replace(config, `flavor = "small"`, `flavor = "large"`, 1))
		if _, err := d.Reload(t.Context(), watch.ReloadOptions{}); err != nil {
			t.Fatal(err)
		}
		opens := l.now().UTC().Truncate(24 * time.Hour).Add(5 * time.Hour)
		time.Sleep(opens.Sub(l.now()) - 5*time.Second)
		if now := l.stock(t, "small"); len(now) != 1 || !before[keyOf(now)] {
			t.Fatalf("the node was replaced before the window: %v", now)
		}
		l.replacedAll(t, before)
		witness.mu.Lock()
		defer witness.mu.Unlock()
		if late := witness.first.Sub(opens); witness.first.Before(opens) || late > 2*time.Minute {
			t.Errorf("the node was deleted %s after the window opened", late)
		}
	})
}

func keyOf(set map[string]bool) string {
	for id := range set {
		return id
	}
	return ""
}
