package httpapi_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/bolt"
	"github.com/npctl/npctl/state/statetest"
	"github.com/npctl/npctl/watch"
	"github.com/npctl/npctl/watch/httpapi"
	"github.com/npctl/npctl/watch/httpapi/client"
)

// TestStoreOfADaemonFulfilsTheContract runs the contract suite over a socket. The daemon runs no passes, because the
// records of the suite mean nothing to it.
func TestStoreOfADaemonFulfilsTheContract(t *testing.T) {
	t.Parallel()
	statetest.Run(t, statetest.Harness{
		New: func(t *testing.T) func(*testing.T) state.Store {
			socket := serveStore(t)
			return func(t *testing.T) state.Store { return openStoreOf(t, socket) }
		},
		Steal: func(t *testing.T, s state.Store, _ string, lock state.Lock) {
			if _, err := s.(*client.Store).ForceUnlock(t.Context(), lock.ID()); err != nil {
				t.Fatal(err)
			}
		},
	})
}

func serveStore(t *testing.T) (socket string) {
	t.Helper()
	return serveStoreAs(t, func(own *bolt.Store) state.Store { return own }, httpapi.Options{})
}

// serveStoreAs serves a daemon that keeps its records in as(own), a wrapper of a new bolt store. It returns the socket.
func serveStoreAs(t *testing.T, as func(own *bolt.Store) state.Store, o httpapi.Options) (socket string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "npctl")
	testutil.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	store, err := bolt.Open(bolt.Options{Path: filepath.Join(dir, "npctl.db")})
	testutil.Must(t, err)
	d, err := watch.New(t.Context(), watch.Options{Engine: reconcile.New(reconcile.Options{Store: as(store)})})
	testutil.Must(t, err)
	socket = filepath.Join(dir, "sock")
	l, err := httpapi.ListenUnix(socket, 0o600)
	testutil.Must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	o.State = filepath.Join(dir, "npctl.db")
	go func() { served <- httpapi.New(d, o).Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
		_ = store.Close()
	})
	return socket
}

func openStoreOf(t testing.TB, socket string) *client.Store {
	t.Helper()
	c, err := client.New(client.Options{Socket: socket, Agent: "0.1.0"})
	testutil.Must(t, err)
	s, err := client.OpenStore(t.Context(), c)
	testutil.Must(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}
