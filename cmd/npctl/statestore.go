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
	"github.com/npctl/npctl/watch/httpapi/client"
)

// stateStore is the state as commands use it: a file, ZooKeeper, or that of the npctl watch which works with it.
type stateStore interface {
	state.Store
	state.Identified
	// Holder returns who holds a lock, nil when nobody does.
	Holder(ctx context.Context, name string) (*state.Holder, error)
	// Worker returns the holder of a lock if it may be working: nil when nobody holds it, or a process that is dead.
	Worker(ctx context.Context, name string) (*state.Holder, error)
	// ForceUnlock takes a lock from its holder, who is returned.
	ForceUnlock(ctx context.Context, id string) (state.Holder, error)
	// Export writes the whole state.
	Export(ctx context.Context, w io.Writer) error
}

var (
	_ stateStore = (*bolt.Store)(nil)
	_ stateStore = (*daemonStore)(nil)
)

// daemonTimeout is how long npctl watch may take to say which state it has.
const daemonTimeout = 10 * time.Second

// openState opens the state to read or to write it: through the npctl watch that works with it, where there is one.
func (a *app) openState(ctx context.Context, p statePlace, readOnly bool) (stateStore, error) {
	store, err := a.daemonState(p)
	switch {
	case err != nil:
		return nil, err
	case store != nil:
		return store, nil
	}
	return a.openPlace(ctx, p, readOnly)
}

// daemonState is the state through the npctl watch that works with it; nil when there is none.
func (a *app) daemonState(p statePlace) (*daemonStore, error) {
	if _, err := os.Stat(p.file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, hint(fmt.Errorf("open state: %w", err), "correct the path in the state block or -state, or become the user that owns the state")
	}
	named, usual := a.socketsOf(p.file)
	if err := client.CheckSocket(usual, p.file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, hint(fmt.Errorf("socket of npctl watch: %w", err), "remove it if nobody needs it, or become its owner")
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

// stateAt is the state of the npctl watch at a socket, if it is the one at that place.
func (a *app) stateAt(socket string, p statePlace) (*daemonStore, error) {
	c, err := client.New(client.Options{Socket: socket, Agent: version()})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), daemonTimeout)
	defer cancel()
	store, err := client.OpenStore(ctx, c)
	switch {
	case errors.Is(err, client.ErrNoDaemon): // one that was killed
		return nil, nil
	case errors.Is(err, os.ErrPermission):
		return nil, hint(fmt.Errorf("npctl watch works with this state, and you may not use its socket: %w", err),
			"become the user that it runs as, or let your group in: npctl watch -socket-mode=0660")
	case errors.Is(err, client.ErrFormat):
		return nil, hint(err, "use the npctl that npctl watch is of, or start npctl watch again with this one")
	case err != nil:
		return nil, err
	case !sameFile(store.Path(), p.file):
		a.log.Debug("the daemon at the socket has another state", "socket", socket, "its", store.Path(), "ours", p.file)
		return nil, store.Close()
	}
	a.log.Debug("state opened through npctl watch", "socket", socket)
	return &daemonStore{Store: store, app: a, place: p}, nil
}

// socketsOf says where the npctl watch of a state is looked for: where somebody has said, if they have, and where it
// listens when nobody says otherwise.
func (a *app) socketsOf(statePath string) (named, usual string) {
	if at, ok := a.lookupEnv("NPCTL_SOCKET"); ok && !isURL(at) {
		named = at
	}
	return named, client.SocketPath(statePath, a.lookupEnv)
}

func isURL(at string) bool { return strings.Contains(at, "://") }

// sameFile reports whether two paths lead to the same file, or would if it were there.
func sameFile(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return filepath.Clean(a) == filepath.Clean(b)
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}

// daemonStore is the state of an npctl watch.
type daemonStore struct {
	*client.Store
	app   *app
	place statePlace
}

// Worker implements stateStore. The daemon that holds its own state says itself what it works on.
func (s *daemonStore) Worker(ctx context.Context, name string) (*state.Holder, error) {
	holder, err := s.Holder(ctx, name)
	if err != nil || holder == nil || holder.Operation == watchOperation {
		return nil, err
	}
	return holder, nil
}

// Export reads the state itself, which needs nothing of the daemon.
func (s *daemonStore) Export(ctx context.Context, w io.Writer) error {
	file, err := s.app.openPlace(ctx, s.place, true)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // only read
	return file.Export(ctx, w)
}
