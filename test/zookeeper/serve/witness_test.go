//go:build integration

package serve

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// contender matches the names that kazoo recognizes as contenders of a lock.
var contender = regexp.MustCompile(`^[0-9a-f]{32}__lock__\d{10}$`)

// witness checks all nodes and requests continuously for violations of the invariants.
type witness struct {
	tree    *tree
	stop    context.CancelFunc
	done    chan struct{}
	orderly bool // no client loses a lock

	mu         sync.Mutex
	states     map[string][]string // guarded by mu: states of each node, in their order
	violations map[string]bool     // guarded by mu
}

// witness starts a witness.
func (s *site) witness() *witness { return s.begin(&witness{orderly: true}) }

// witnessWithoutLocks starts a witness for a test that loses sessions, and with them the locks of nodes that are building.
func (s *site) witnessWithoutLocks() *witness { return s.begin(&witness{}) }

func (s *site) begin(w *witness) *witness {
	ctx, stop := context.WithCancel(context.WithoutCancel(s.t.Context()))
	w.tree = &tree{t: s.t, conn: s.conn, chroot: s.chroot, aside: true}
	w.stop, w.done, w.states, w.violations = stop, make(chan struct{}), map[string][]string{}, map[string]bool{}
	go w.watch(ctx)
	t := s.t
	t.Cleanup(func() {
		w.stop()
		<-w.done
		for violation := range w.violations {
			t.Error(violation)
		}
	})
	return w
}

func (w *witness) watch(ctx context.Context) {
	defer close(w.done)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, id := range w.tree.children(nodes) {
			w.node(id)
		}
		for _, id := range w.tree.children(requests) {
			w.request(id)
		}
	}
}

var nodeStates = []string{"init", "building", "ready", "in-use", "used", "hold", "testing", "aborted", "failed", "deleting", "deleted"}

func (w *witness) node(id string) {
	z := w.tree.node(id)
	if z == nil {
		return
	}
	state := fmt.Sprint(z.doc["state"])
	locked := w.tree.locked(id)
	again := w.tree.node(id)
	w.mu.Lock()
	defer w.mu.Unlock()
	if seen := w.states[id]; len(seen) == 0 || seen[len(seen)-1] != state {
		w.states[id] = append(seen, state)
	}
	switch {
	case !slices.Contains(nodeStates, state):
		w.addViolation("node %s is %q: %s", id, state, z.text)
	case w.orderly && state == "building" && !locked && again != nil && again.stat.Mzxid == z.stat.Mzxid:
		w.addViolation("node %s is building and not locked: %s", id, z.text)
	}
	for key := range z.doc {
		if slices.Contains([]string{"lock", "label", "name", "aliases"}, key) || strings.HasPrefix(key, "_") {
			w.addViolation("node %s has the key %s: %s", id, key, z.text)
		}
	}
	_, keys := z.doc["host_keys"].([]any)
	_, labels := z.doc["type"].([]any)
	if !keys || !labels || z.doc["python_path"] == nil {
		w.addViolation("node %s is not as Zuul needs it: %s", id, z.text)
	}
}

func (w *witness) request(id string) {
	z := w.tree.request(id)
	if z == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch given, asked := z.list("nodes"), z.list("node_types"); {
	case z.is("state", "fulfilled") && len(given) != len(asked):
		w.addViolation("request %s is fulfilled by %d nodes: %s", id, len(given), z.text)
	case !z.is("state", "fulfilled") && len(given) > 0:
		w.addViolation("request %s names nodes: %s", id, z.text)
	}
}

func (w *witness) addViolation(format string, args ...any) {
	w.violations[fmt.Sprintf(format, args...)] = true
}

// checkStates checks that a node has passed through these states, in this order. The witness may have missed short states.
func (w *witness) checkStates(t *testing.T, id string, states ...string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := slices.DeleteFunc(slices.Clone(w.states[id]), func(state string) bool { return !slices.Contains(states, state) })
	if !slices.Equal(seen, states) {
		t.Errorf("node %s was %q, want %q", id, w.states[id], states)
	}
}
