package watch_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources/schema"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/bolt"
	"github.com/npctl/npctl/watch"
)

// quarter is a square with locks that another process may hold.
type quarter struct {
	*square
	lockMu sync.Mutex        // guards owners
	owners map[string]string // owners of locks, by name: "this" or "other"
}

func (q *quarter) Lock(_ context.Context, name string, _ state.Holder) (state.Lock, error) {
	q.lockMu.Lock()
	defer q.lockMu.Unlock()
	if q.owners[name] != "" {
		return nil, &state.LockedError{Name: name, Holder: state.Holder{ID: "1", UserHost: q.owners[name]}}
	}
	q.owners[name] = "this"
	return owned{held{q.over}, q, name}, nil
}

type owned struct {
	held
	at   *quarter
	name string
}

func (o owned) Unlock(context.Context) error {
	o.at.set(o.name, "")
	return nil
}

func (q *quarter) set(name, owner string) {
	q.lockMu.Lock()
	defer q.lockMu.Unlock()
	q.owners[name] = owner
}

func (q *quarter) owner(name string) string {
	q.lockMu.Lock()
	defer q.lockMu.Unlock()
	return q.owners[name]
}

// slowBuilder creates builds that end when the test permits it.
type slowBuilder struct {
	schema schema.Block
	begun  atomic.Int64
	finish chan struct{}
}

func (*slowBuilder) Kind() string           { return "exec" }
func (b *slowBuilder) Schema() schema.Block { return b.schema }
func (b *slowBuilder) Build(ctx context.Context, job builders.Job, _ io.Writer) (builders.Artifact, error) {
	b.begun.Add(1)
	select {
	case <-b.finish:
	case <-ctx.Done():
		return builders.Artifact{}, ctx.Err()
	}
	path := filepath.Join(job.Dir, job.Name+".raw")
	return builders.Artifact{Files: []builders.File{{Format: "raw", Path: path}}}, os.WriteFile(path, []byte("image"), 0o600)
}

// inQuarter starts a daemon while another process holds a lock.
func (l *lab) inQuarter(b *slowBuilder, locked string) (*watch.Daemon, *quarter) {
	l.t.Helper()
	store, err := bolt.Open(bolt.Options{Path: filepath.Join(l.dir, "npctl.db")})
	testutil.Must(l.t, err)
	q := &quarter{square: &square{Store: store, hints: make(chan struct{}, 1), over: make(chan struct{}), frozen: map[string]bool{}},
		owners: map[string]string{locked: "other"}}
	desired, err := l.load(l.t.Context())
	testutil.Must(l.t, err)
	e := reconcile.New(reconcile.Options{Desired: desired, Store: q, Drivers: l.drivers(), Builders: map[string]builders.Builder{"exec": b},
		DataDir: filepath.Join(l.dir, "data")})
	d, err := watch.New(l.t.Context(), watch.Options{Engine: e, Tasks: []watch.Task{watch.TaskImages}})
	testutil.Must(l.t, err)
	ctx, stop := context.WithCancel(l.t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx, time.Minute) }()
	l.t.Cleanup(func() {
		stop()
		if err := errors.Join(<-done, e.Close(), store.Close()); err != nil {
			l.t.Error(err)
		}
		close(q.over)
	})
	return d, q
}

func TestImageIsBuiltUnderItsLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, fleet, emulator.Options{})
		b := &slowBuilder{schema: l.builder.Schema(), finish: make(chan struct{})}
		lock := state.ImageLock("debian")
		d, q := l.inQuarter(b, lock)
		time.Sleep(time.Minute)
		if n := b.begun.Load(); n > 0 {
			t.Fatalf("%d builds while another process has the lock", n)
		}
		if _, err := d.DelegateLock(t.Context(), lock, state.Holder{}); !errors.Is(err, state.ErrLocked) {
			t.Errorf("lent while another process has it: %v", err)
		}
		q.set(lock, "")
		testutil.Await(l.t, "it is built", func() bool { return b.begun.Load() == 1 })
		if owner := q.owner(lock); owner != "this" {
			t.Errorf("it is built while the lock is of %q", owner)
		}

		lent, err := d.DelegateLock(t.Context(), lock, state.Holder{})
		testutil.Must(t, err)
		close(b.finish)
		testutil.Await(l.t, "it is uploaded", func() bool { return len(d.Last().Observed.Records.Uploads) == 1 && len(d.Runner().Running()) == 0 })
		time.Sleep(time.Minute)
		if owner := q.owner(lock); owner != "this" {
			t.Errorf("the lock is of %q while it is lent", owner)
		}
		testutil.Must(t, lent.Unlock(t.Context()))
		testutil.Await(l.t, "the lock is free", func() bool { return q.owner(lock) == "" })
		if again, err := d.DelegateLock(t.Context(), lock, state.Holder{}); err != nil || q.owner(lock) != "this" {
			t.Errorf("a lock that nobody has was not lent: %v", err)
		} else if err := again.Unlock(t.Context()); err != nil || q.owner(lock) != "" {
			t.Errorf("and not given back: %v", err)
		}
		if n := b.begun.Load(); n != 1 {
			t.Errorf("%d builds, want one", n)
		}
	})
}

// TestBusyBuilderDoesNotAcquireOtherImageLocks checks that a builder that has reached max_builds leaves them to idle
// builders.
func TestBusyBuilderDoesNotAcquireOtherImageLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, fleet+`
diskimage "fedora" {
  formats = ["raw"]
  builder "exec" {
    command = ["true"]
    formats = ["raw"]
  }
}
`, emulator.Options{})
		b := &slowBuilder{schema: l.builder.Schema(), finish: make(chan struct{})}
		_, q := l.inQuarter(b, "")
		testutil.Await(l.t, "a build runs", func() bool { return b.begun.Load() == 1 })
		time.Sleep(time.Minute)
		if b.begun.Load() != 1 || (q.owner(state.ImageLock("debian")) == "") == (q.owner(state.ImageLock("fedora")) == "") {
			t.Errorf("%d builds run, the locks are of %v, want one of each", b.begun.Load(), q.owners)
		}
		close(b.finish)
		testutil.Await(l.t, "both are built", func() bool { return b.begun.Load() == 2 })
	})
}
