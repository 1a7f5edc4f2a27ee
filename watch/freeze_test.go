package watch_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/bolt"
	"github.com/npctl/npctl/watch"
)

// square is a shared store in which the test plays another npctl process. That process only freezes and thaws.
type square struct {
	*bolt.Store
	hints chan struct{}
	over  chan struct{} // closed at the end, when all locks are lost

	mu     sync.Mutex // guards frozen
	frozen map[string]bool
}

var _ state.Shared = (*square)(nil)

func (s *square) Lock(context.Context, string, state.Holder) (state.Lock, error) {
	return held{s.over}, nil
}

func (s *square) Claim(ctx context.Context, key resources.Key) (state.Lock, state.Entry, error) {
	entry, err := s.Get(ctx, key)
	return held{s.over}, entry, err
}

func (s *square) Watch(ctx context.Context) (<-chan struct{}, error) {
	hints := make(chan struct{})
	go func() {
		defer close(hints)
		for {
			select {
			case <-s.hints:
				hints <- struct{}{}
			case <-ctx.Done():
				return
			}
		}
	}()
	return hints, nil
}

func (s *square) FreezeProvider(_ context.Context, provider string, frozen bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if delete(s.frozen, provider); frozen {
		s.frozen[provider] = true
	}
	return nil
}

func (s *square) FrozenProviders() (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.frozen {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (*square) Changes() (changed []state.Entry, gone []resources.Key) { return nil, nil }
func (*square) Claimed() map[resources.Key]bool                        { return nil }
func (*square) Register(context.Context, resources.Presence) error     { return nil }
func (*square) RegisteredPools() []resources.RegisteredPool            { return nil }
func (*square) NodepoolBuilders() []string                             { return nil }
func (*square) Builders() []string                                     { return nil }
func (*square) Sync(context.Context) error                             { return nil }
func (*square) RequestedBuilds() []string                              { return nil }
func (*square) RequestBuild(context.Context, string, bool) error       { return nil }
func (*square) Connected() bool                                        { return true }

// held is a lock without competition.
type held struct{ over chan struct{} }

func (held) ID() string                   { return "1" }
func (h held) Lost() <-chan struct{}      { return h.over }
func (held) Unlock(context.Context) error { return nil }

const racks = `
npctl { images_dir = "images" }
label "metal" {}
provider "static" "rack" {
  pool "main" {
    node "127.2.0.1" {
      labels            = ["metal"]
      host_key_checking = false
    }
  }
}
provider "static" "hall" {
  pool "main" {
    node "127.2.0.2" {
      labels            = ["metal"]
      host_key_checking = false
    }
  }
}
`

// machines returns the machines that a daemon manages.
func machines(d *watch.Daemon) (names []string) {
	for _, n := range d.Last().Observed.Records.Nodes {
		names = append(names, n.Hostname)
	}
	slices.Sort(names)
	return names
}

// onSquare starts a daemon with a square in which other processes have frozen providers.
func (l *lab) onSquare(o watch.Options, frozen ...string) (*watch.Daemon, *square) {
	l.t.Helper()
	store, err := bolt.Open(bolt.Options{Path: filepath.Join(l.dir, "npctl.db")})
	testutil.Must(l.t, err)
	s := &square{Store: store, hints: make(chan struct{}, 1), over: make(chan struct{}), frozen: map[string]bool{}}
	for _, name := range frozen {
		s.frozen[name] = true
	}
	desired, err := l.load(l.t.Context())
	testutil.Must(l.t, err)
	o.Engine = reconcile.New(reconcile.Options{Desired: desired, Store: s, Drivers: l.drivers(), DataDir: filepath.Join(l.dir, "data")})
	d, err := watch.New(l.t.Context(), o)
	testutil.Must(l.t, err)
	ctx, stop := context.WithCancel(l.t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx, time.Minute) }()
	l.t.Cleanup(func() {
		stop()
		if err := errors.Join(<-done, o.Engine.Close(), store.Close()); err != nil {
			l.t.Error(err)
		}
		close(s.over)
	})
	return d, s
}

func TestProviderFrozenByAnotherProcessIsSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, racks, emulator.Options{})
		var passes atomic.Int64
		d, s := l.onSquare(watch.Options{OnPass: func(watch.Pass) { passes.Add(1) }}, "rack")
		testutil.Await(l.t, "the other provider is taken care of", func() bool { return slices.Equal(machines(d), []string{"127.2.0.2"}) })
		time.Sleep(time.Minute)
		if got := machines(d); !slices.Equal(got, []string{"127.2.0.2"}) || !slices.Equal(d.Frozen(), []string{"rack"}) {
			t.Errorf("frozen are %q, and there are %q", d.Frozen(), got)
		}

		for before := passes.Load(); passes.Load() == before; { // no pass is due in the next moment then
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(100 * time.Millisecond)
		before := passes.Load()
		testutil.Must(t, s.FreezeProvider(t.Context(), "rack", false))
		s.hints <- struct{}{}
		time.Sleep(100 * time.Millisecond)
		if passes.Load() == before {
			t.Error("no pass follows when another process thaws a provider")
		}
		testutil.Await(l.t, "it is taken care of", func() bool { return slices.Equal(machines(d), []string{"127.2.0.1", "127.2.0.2"}) })
	})
}

func TestFreezeIsRecordedOnlyInTheSharedStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, racks, emulator.Options{})
		d, s := l.onSquare(watch.Options{})
		testutil.Await(l.t, "both are taken care of", func() bool { return len(machines(d)) == 2 })
		testutil.Must(t, d.Freeze(t.Context(), "hall", true))
		if got := s.FrozenProviders(); !slices.Equal(got, []string{"hall"}) || !slices.Equal(d.Frozen(), got) {
			t.Errorf("after it was asked to freeze hall, the store knows %q, and the daemon %q", got, d.Frozen())
		}
		for _, r := range d.Runner().ProviderRecords() {
			if r.Frozen {
				t.Errorf("the record of %s, which one process has for itself, says it too", r.Name)
			}
		}
		if err := d.Freeze(t.Context(), "hall", false); err != nil || len(d.Frozen()) > 0 || len(s.FrozenProviders()) > 0 {
			t.Errorf("thawed: %v; frozen are %q", err, d.Frozen())
		}
	})
}

func TestUnservedProvidersCannotBeFrozen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, racks, emulator.Options{})
		d, s := l.onSquare(watch.Options{Providers: []string{"rack"}})
		testutil.Await(l.t, "the one that it was told to serve is taken care of", func() bool { return len(machines(d)) > 0 })
		if got := machines(d); !slices.Equal(got, []string{"127.2.0.1"}) || !slices.Equal(d.Frozen(), []string{"hall"}) || len(s.FrozenProviders()) > 0 {
			t.Errorf("taken care of are %q; left alone are %q, and %q by all", got, d.Frozen(), s.FrozenProviders())
		}
	})
}
