package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/bolt"
	"github.com/npctl/npctl/state/location"
	"github.com/npctl/npctl/watch/httpapi/client"
)

// stateStore is the state as commands use it: a file, ZooKeeper, or the state of a running npctl watch.
type stateStore interface {
	state.Store
	state.Identified
	// Holder returns the holder of a lock, or nil if it is free.
	Holder(ctx context.Context, name string) (*state.Holder, error)
	// Worker returns the holder of a lock if it may be working. It returns nil if the lock is free or its holder is
	// dead.
	Worker(ctx context.Context, name string) (*state.Holder, error)
	// ForceUnlock releases the lock with this ID and returns its holder.
	ForceUnlock(ctx context.Context, id string) (state.Holder, error)
	// Export writes the whole state.
	Export(ctx context.Context, w io.Writer) error
}

var (
	_ stateStore = (*bolt.Store)(nil)
	_ stateStore = (*daemonStore)(nil)
)

// daemonTimeout limits the time in which npctl watch must report its state.
const daemonTimeout = 10 * time.Second

// openState opens the state through the npctl watch that uses it, or directly if there is none.
func (a *app) openState(ctx context.Context, p location.Location, readOnly bool) (stateStore, error) {
	store, err := a.daemonState(p)
	switch {
	case err != nil:
		return nil, err
	case store != nil:
		return store, nil
	}
	return a.openPlace(ctx, p, readOnly)
}

// daemonState returns the state through the npctl watch that uses it, or nil if there is none.
func (a *app) daemonState(p location.Location) (*daemonStore, error) {
	if _, err := os.Stat(p.File); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, hint(fmt.Errorf("open state: %w", err), "correct the path in the state block or -state, or become the user that owns the state")
	}
	named, usual := a.socketsOf(p.File)
	if err := client.CheckSocket(usual, p.File); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, hint(fmt.Errorf("socket of npctl watch: %w", err), "remove it if it is not needed, or become its owner")
	}
	if named != "" {
		if err := checkNamed(named); err != nil {
			return nil, err
		}
	}
	for _, socket := range []string{named, usual} {
		if socket == "" || !exists(socket) {
			continue
		}
		if store, err := a.stateAt(socket, p); store != nil || err != nil {
			return store, err
		}
	}
	return nil, nil
}

// stateAt returns the state of the npctl watch at a socket, or nil if it uses another state or does not run.
func (a *app) stateAt(socket string, p location.Location) (*daemonStore, error) {
	c, err := client.New(client.Options{Socket: socket, Agent: version()})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), daemonTimeout)
	defer cancel()
	store, err := client.OpenStore(ctx, c)
	switch {
	case errors.Is(err, client.ErrNoDaemon): // left by a killed daemon
		return nil, nil
	case errors.Is(err, os.ErrPermission):
		return nil, hint(fmt.Errorf("npctl watch uses this state, and you may not use its socket: %w", err),
			"become its user, or permit your group: npctl watch -socket-mode=0660")
	case errors.Is(err, client.ErrFormat):
		return nil, hint(err, "use the version of npctl that npctl watch runs, or restart npctl watch with this one")
	case err != nil:
		return nil, err
	case !sameFile(store.Path(), p.File):
		a.log.Debug("the daemon at the socket has another state", "socket", socket, "its", store.Path(), "ours", p.File)
		return nil, store.Close()
	}
	a.log.Debug("state opened through npctl watch", "socket", socket)
	return &daemonStore{Store: store, app: a, place: p}, nil
}

// socketsOf returns the sockets at which the npctl watch of a state may listen: that of NPCTL_SOCKET, if set, and the
// default.
func (a *app) socketsOf(statePath string) (named, usual string) {
	if at, ok := a.lookupEnv("NPCTL_SOCKET"); ok && !isURL(at) {
		named = at
	}
	return named, client.SocketPath(statePath, a.lookupEnv)
}

func isURL(at string) bool { return strings.Contains(at, "://") }

// sameFile reports whether two paths refer to the same file, or would if it existed.
func sameFile(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return filepath.Clean(a) == filepath.Clean(b)
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}

// daemonStore is the state of a running npctl watch.
type daemonStore struct {
	*client.Store
	app   *app
	place location.Location
}

// Worker implements stateStore. It omits the daemon that holds its own state, because the daemon reports its work
// itself.
func (s *daemonStore) Worker(ctx context.Context, name string) (*state.Holder, error) {
	holder, err := s.Holder(ctx, name)
	if err != nil || holder == nil || holder.Operation == watchOperation {
		return nil, err
	}
	return holder, nil
}

// Export reads the state directly, without the daemon.
func (s *daemonStore) Export(ctx context.Context, w io.Writer) error {
	file, err := s.app.openPlace(ctx, s.place, true)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // read-only file
	return file.Export(ctx, w)
}
