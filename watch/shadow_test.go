package watch_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/bolt"
	"github.com/npctl/npctl/watch"
)

// stage is a shared store in which the test plays a launcher. A shadow may write only its own records there.
type stage struct {
	*bolt.Store

	mu      sync.Mutex // guards the fields below
	peers   []resources.RegisteredPool
	claimed map[resources.Key]bool
	known   map[resources.Key]state.Revision
	frozen  []string
	tries   []string // attempts to change records that are not the shadow's
}

var _ state.Shared = (*stage)(nil)

var errStage = errors.New("this is for looking on only")

func (s *stage) refuse(what string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tries = append(s.tries, what)
	return errStage
}

func (s *stage) Commit(ctx context.Context, ops ...state.Op) ([]state.Entry, error) {
	for _, op := range ops {
		key := op.Key
		if op.Record != nil {
			key = op.Record.Key()
		}
		if key.Kind != resources.KindJournal {
			return nil, s.refuse("write " + key.String())
		}
	}
	return s.Store.Commit(ctx, ops...)
}

func (s *stage) Lock(_ context.Context, name string, _ state.Holder) (state.Lock, error) {
	return nil, s.refuse("lock " + name)
}

func (s *stage) Claim(_ context.Context, key resources.Key) (state.Lock, state.Entry, error) {
	return nil, state.Entry{}, s.refuse("claim " + key.String())
}

func (s *stage) Register(context.Context, resources.Presence) error { return s.refuse("register") }

func (s *stage) RequestBuild(context.Context, string, bool) error { return s.refuse("wish") }

func (s *stage) Changes() (changed []state.Entry, gone []resources.Key) {
	entries, err := s.List(context.Background(), resources.KindRequest, resources.KindNode)
	if err != nil {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	there := map[resources.Key]state.Revision{}
	for _, e := range entries {
		key := e.Record.Key()
		if there[key] = e.Revision; s.known[key] != e.Revision {
			changed = append(changed, e)
		}
	}
	for key := range s.known {
		if _, still := there[key]; !still {
			gone = append(gone, key)
		}
	}
	s.known = there
	return changed, gone
}

func (s *stage) Claimed() map[resources.Key]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	claimed := map[resources.Key]bool{}
	for key := range s.claimed {
		claimed[key] = true
	}
	return claimed
}

func (s *stage) RegisteredPools() []resources.RegisteredPool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.peers)
}

func (s *stage) FreezeProvider(context.Context, string, bool) error { return s.refuse("freeze") }

func (s *stage) Sync(context.Context) error { return nil }
func (s *stage) NodepoolBuilders() []string { return nil }
func (s *stage) Builders() []string         { return nil }
func (s *stage) RequestedBuilds() []string  { return nil }
func (s *stage) Connected() bool            { return true }

func (s *stage) FrozenProviders() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.frozen)
}

// looked is a shadow of a launcher that the test plays.
type looked struct {
	*lab
	stage *stage
	d     *watch.Daemon
	h     *heard

	mu       sync.Mutex // guards verdicts
	verdicts []watch.Comparison
}

// yard has two machines in one rack and one in another; the launcher has them too.
const yard = `
npctl { images_dir = "images" }
label "metal" {}
label "big" {}
provider "static" "rack" {
  pool "main" {
    node "m1" {
      labels            = ["metal"]
      host_key_checking = false
    }
    node "m2" {
      labels            = ["metal"]
      host_key_checking = false
    }
  }
}
provider "static" "hall" {
  pool "main" {
    node "h1" {
      labels            = ["big"]
      host_key_checking = false
    }
  }
}
`

func newLooked(t *testing.T) *looked {
	t.Helper()
	l := &looked{lab: newLab(t, yard, emulator.Options{}), h: &heard{}}
	store, err := bolt.Open(bolt.Options{Path: filepath.Join(l.dir, "npctl.db")})
	testutil.Must(t, err)
	pool := func(provider string, labels ...string) resources.RegisteredPool {
		return resources.RegisteredPool{ID: "nodepool-" + provider, Host: "there", Provider: provider, Pool: "main", Labels: labels, Priority: 100}
	}
	l.stage = &stage{Store: store, claimed: map[resources.Key]bool{}, known: map[resources.Key]state.Revision{},
		peers: []resources.RegisteredPool{pool("rack", "metal", "new"), pool("hall", "big", "metal"), pool("far", "metal", "huge")}}
	for name, of := range map[string]string{"m1": "rack", "m2": "rack", "m3": "rack", "h1": "hall"} {
		label := map[string]string{"rack": "metal", "hall": "big"}[of]
		l.put(&resources.Node{State: resources.StateReady, StateTime: time.Now(), Created: time.Now(), Provider: of, Pool: "main", Hostname: name,
			Labels: []string{label}, Static: true})
	}
	desired, err := l.load(t.Context())
	testutil.Must(t, err)
	e := reconcile.New(reconcile.Options{Desired: desired, Store: l.stage, Drivers: l.drivers(), DataDir: filepath.Join(l.dir, "data")})
	if l.d, err = watch.New(t.Context(), watch.Options{Engine: e, Shadow: true, Compared: l.compared, Log: slog.New(slog.NewTextHandler(l.h, nil))}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.d.Run(ctx, time.Minute) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if len(l.stage.tries) > 0 {
			t.Errorf("the shadow tried to %v", l.stage.tries)
		}
		_ = e.Close()
		_ = store.Close()
	})
	testutil.Await(l.t, "the shadow has looked", func() bool { return l.d.NotReady() == "" })
	return l
}

func (l *looked) compared(v watch.Comparison) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.verdicts = append(l.verdicts, v)
}

// put writes a record as the launcher or Zuul does.
func (l *looked) put(r resources.Record) resources.Key {
	l.t.Helper()
	entries, err := l.stage.Store.Commit(context.Background(), state.Op{Record: r, Force: r.Key().ID != ""})
	testutil.Must(l.t, err)
	return entries[0].Record.Key()
}

func (l *looked) ask(labels ...string) *resources.Request {
	l.t.Helper()
	r := &resources.Request{State: resources.StateRequested, StateTime: time.Now(), Created: time.Now(), Labels: labels, Priority: 200, Requestor: "zuul"}
	r.ID = l.put(r).ID
	return r
}

// would waits until the shadow has decided about a request.
func (l *looked) would(r *resources.Request, do watch.DecisionKind) {
	l.t.Helper()
	testutil.Await(l.t, "npctl would "+string(do)+" request "+r.ID, func() bool {
		return l.d.ShadowDecision(r.ID).Do == do
	})
}

// serve assigns machines to a request as the launcher does.
func (l *looked) serve(r *resources.Request, machines ...string) {
	l.t.Helper()
	r.State = resources.StateFulfilled
	for _, name := range machines {
		n := l.machine(name)
		n.Request = r.ID
		r.Nodes = append(r.Nodes, l.put(n).ID)
	}
	l.put(r)
}

func (l *looked) machine(name string) *resources.Node {
	l.t.Helper()
	entries, err := l.stage.List(context.Background(), resources.KindNode)
	testutil.Must(l.t, err)
	for _, e := range entries {
		if n := e.Record.(*resources.Node); n.Hostname == name {
			return n
		}
	}
	l.t.Fatalf("there is no machine %s", name)
	return nil
}

func (l *looked) remove(r resources.Record) {
	l.t.Helper()
	if _, err := l.stage.Store.Commit(context.Background(), state.Op{Key: r.Key(), Force: true}); err != nil {
		l.t.Fatal(err)
	}
}

// ends waits for the comparison of a request.
func (l *looked) ends(r *resources.Request, want watch.Result) (found watch.Comparison) {
	l.t.Helper()
	testutil.Await(l.t, "request "+r.ID+" is compared", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, v := range l.verdicts {
			if v.Request.ID == r.ID {
				found = v
			}
		}
		return found.Result != ""
	})
	if found.Result != want {
		l.t.Errorf("request %s for %v: %s, want %s: %s", r.ID, r.Labels, found.Result, want, found)
	}
	return found
}

func TestShadowReportsItsDecisions(t *testing.T) {
	l := newLooked(t)

	same := l.ask("metal")
	l.would(same, watch.DecideServe)
	l.serve(same, "m1")
	if v := l.ends(same, watch.ResultAgree); v.Would.Place.Provider != "rack" || v.Live.Place.Provider != "rack" || !strings.Contains(v.Would.Why, "1 ready") {
		t.Errorf("verdict: %s", v)
	}

	unknown := l.ask("new")
	l.would(unknown, watch.DecideDecline)
	unknown.State = resources.StatePending
	l.stage.mu.Lock()
	l.stage.claimed[unknown.Key()] = true
	l.stage.mu.Unlock()
	l.put(unknown)
	l.serve(unknown, "m3")
	if v := l.ends(unknown, watch.ResultWouldDecline); !strings.Contains(v.Would.Why, "no label new") {
		t.Errorf("verdict: %s", v)
	}
	if l.h.logged("level=WARN msg=\"shadow: npctl would have decided differently\" request="+unknown.ID) != 1 {
		t.Errorf("the log does not warn once:\n%s", l.h.log.String())
	}

	three := l.ask("metal", "metal", "metal")
	l.would(three, watch.DecideDecline)
	three.State, three.Declined = resources.StateFailed, []resources.Decline{{PoolID: "nodepool-rack"}, {PoolID: "nodepool-hall"}, {PoolID: "nodepool-far"}}
	l.put(three)
	l.ends(three, watch.ResultAgree)

	left := l.ask("huge")
	l.would(left, watch.DecideYield)
	l.put(&resources.Node{State: resources.StateReady, Provider: "far", Pool: "main", Labels: left.Labels, Request: left.ID})
	l.remove(left) // before any process observed it as fulfilled
	l.ends(left, watch.ResultAgree)

	other := l.ask("metal")
	l.would(other, watch.DecideServe)
	l.serve(other, "h1")
	l.ends(other, watch.ResultOtherPool)

	cancelled := l.ask("metal")
	l.would(cancelled, watch.DecideServe)
	l.remove(cancelled)
	l.ends(cancelled, watch.ResultWithdrawn)

	m2 := l.machine("m2")
	m2.State = resources.StateInUse
	l.stage.mu.Lock()
	l.stage.claimed[m2.Key()] = true
	l.stage.mu.Unlock()
	l.put(m2)
	full := l.ask("metal")
	l.would(full, watch.DecideWait)
	full.State, full.Declined = resources.StateFailed, []resources.Decline{{PoolID: "nodepool-rack", Reason: "a launch failed"}}
	l.put(full)
	l.ends(full, watch.ResultWouldWait)

	want := map[watch.Result]int{watch.ResultAgree: 3, watch.ResultWouldDecline: 1, watch.ResultOtherPool: 1, watch.ResultWithdrawn: 1, watch.ResultWouldWait: 1}
	if diff := cmp.Diff(want, l.d.Comparisons()); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
	events := l.d.Journal.Since(0, "request/"+other.ID)
	if len(events) != 1 || events[0].Code != "shadow-other_pool" || !strings.Contains(events[0].Text, "rack/main") || !strings.Contains(events[0].Text, "hall/main") {
		t.Errorf("the journal has %+v", events)
	}
}

func TestShadowDecidesAboutAcceptedRequests(t *testing.T) {
	l := newLooked(t)
	l.stage.mu.Lock()
	l.stage.claimed[resources.Key{Kind: resources.KindRequest, ID: "0000000001"}] = true
	l.stage.mu.Unlock()
	r := l.ask("metal")
	r.State = resources.StatePending
	l.put(r)
	l.would(r, watch.DecideServe)
	l.serve(r, "m1")
	l.ends(r, watch.ResultAgree)

	quick := l.ask("metal")
	quick.State = resources.StateFailed
	l.put(quick)
	l.ends(quick, watch.ResultWouldServe)
	testutil.Await(l.t, "nothing is planned any more about what was answered, nor begun", func() bool {
		pass := l.d.Last()
		return len(pass.Started) == 0 && !slices.ContainsFunc(pass.Plan.Steps, func(s plan.Step) bool { return s.Thing == plan.ThingRequest })
	})
}

func TestShadowNeedsSharedStore(t *testing.T) {
	l := newLab(t, yard, emulator.Options{})
	store, err := bolt.Open(bolt.Options{Path: filepath.Join(l.dir, "npctl.db")})
	testutil.Must(t, err)
	defer store.Close() //nolint:errcheck // only read
	e := reconcile.New(reconcile.Options{Store: store})
	if _, err := watch.New(t.Context(), watch.Options{Engine: e, Shadow: true}); err == nil {
		t.Error("a shadow began in a state that is this process's alone")
	}
}
