package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/bolt"
	"github.com/npctl/npctl/state/location"
	"github.com/npctl/npctl/state/zookeeper"
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

// access states how a command may use the state.
type access int

const (
	readState access = iota
	writeState
	exclusiveState // writeState without a daemon in between: for the processes that serve the state themselves
	shadowState    // read-only access to a shared state; notes go to a private file
)

// statePlace is the location of a state. It opens the state.
type statePlace struct {
	location.Location
	app *app
}

// stateOf returns the location of the state: that of -state, or that of the state block relative to the configuration,
// or the default beside the configuration.
func (a *app) stateOf(s resources.Settings) (statePlace, error) {
	if a.global.state != "" {
		path, err := filepath.Abs(a.global.state)
		return statePlace{location.InFile(path), a}, err
	}
	at, err := location.From(s.State, s.Dir)
	return statePlace{at, a}, err
}

// findState returns the location of the state for commands that need nothing else of the configuration. Such a command
// is fast and works even if other parts of the configuration have errors.
func (a *app) findState() (statePlace, error) {
	if at, ok := location.Plain(a.global.config); ok && a.global.state == "" {
		var err error
		at.File, err = filepath.Abs(at.File)
		return statePlace{at, a}, err
	}
	var settings resources.Settings
	if a.global.state == "" {
		c, err := a.load(variableOptions{})
		if err != nil {
			return statePlace{}, err
		}
		settings = c.Desired.Settings
	}
	return a.stateOf(settings)
}

// openFound finds and opens the state. It returns an error if the state does not exist.
func (a *app) openFound(ctx context.Context, may access) (stateStore, statePlace, error) {
	p, err := a.findState()
	if err != nil {
		return nil, p, err
	}
	none := p.missing()
	if p.IsEmpty() {
		return nil, p, none
	}
	store, err := p.open(ctx, may)
	if err != nil || p.Shared == nil {
		return store, p, err
	}
	if there, err := store.Identity(ctx); err != nil || there.Lineage == "" {
		return nil, p, errors.Join(cmp.Or(err, none), store.Close())
	}
	return store, p, nil
}

// missing returns the error for a state that does not exist.
func (p statePlace) missing() error {
	return hint(fmt.Errorf("there is no state %s", p.Phrase()), "npctl apply creates it; -state or -config name another location")
}

// storedRecords finds the state and reads its records of these kinds.
func (a *app) storedRecords(ctx context.Context, kinds ...resources.Kind) (plan.Records, error) {
	store, _, err := a.openFound(ctx, readState)
	if err != nil {
		return plan.Records{}, err
	}
	defer store.Close() //nolint:errcheck // read-only file
	return listRecords(ctx, store, kinds...)
}

// listRecords reads the records of these kinds, or all records.
func listRecords(ctx context.Context, store state.Store, kinds ...resources.Kind) (r plan.Records, err error) {
	entries, err := store.List(ctx, kinds...)
	for _, e := range entries {
		r.Put(e.Record, uint64(e.Revision))
	}
	return r, err
}

// open opens the state through the npctl watch that uses it, or directly if there is none.
func (p statePlace) open(ctx context.Context, may access) (stateStore, error) {
	if may == readState || may == writeState {
		store, err := p.daemon()
		if err != nil {
			return nil, err
		}
		if store != nil {
			return store, nil
		}
	}
	return p.direct(ctx, may)
}

// direct opens the state directly, even if npctl watch uses it. Beside a shared state it opens a file that holds the
// lineage of the state; a shadow has a file that belongs to no state.
func (p statePlace) direct(ctx context.Context, may access) (stateStore, error) {
	role := bolt.RoleState
	switch {
	case may == shadowState:
		role = bolt.RoleShadow
	case p.Shared != nil:
		role = bolt.RolePrivate
	}
	file, err := bolt.Open(bolt.Options{Path: p.File, Version: version(), ReadOnly: may == readState, Role: role, Log: p.app.log})
	if err != nil {
		return nil, location.Explain(err, p.Location)
	}
	if p.Shared == nil {
		return file, nil
	}
	shared, err := p.join(ctx, file, may)
	if err != nil {
		return nil, errors.Join(location.Explain(err, p.Location), file.Close())
	}
	return &sharedStore{shared, file}, nil
}

// openTimeout is the time after which npctl reports that ZooKeeper is unreachable.
const openTimeout = 10 * time.Second

// join opens the shared state with its private file.
func (p statePlace) join(ctx context.Context, private *bolt.Store, may access) (*zookeeper.Store, error) {
	opts := *p.Shared
	opts.Private, opts.ReadOnly, opts.Version, opts.Log, opts.OpenTimeout = private, may == readState || may == shadowState, version(), p.app.log, openTimeout
	if may == shadowState {
		return zookeeper.Open(ctx, opts)
	}
	own, err := private.Identity(ctx)
	if err != nil {
		return nil, err
	}
	if own.Serial > 0 {
		opts.Lineage = own.Lineage
	}
	shared, err := zookeeper.Open(ctx, opts)
	if err != nil || own.Serial > 0 || opts.ReadOnly {
		return shared, err
	}
	there, err := shared.Identity(ctx)
	if err == nil {
		err = private.ConvertRole(ctx, bolt.RoleChange{Role: bolt.RolePrivate, Location: p.String(), Lineage: there.Lineage})
	}
	if err != nil {
		return nil, errors.Join(err, shared.Close())
	}
	return shared, nil
}

// daemon returns the state through the npctl watch that uses it, or nil if there is none. Its socket is that of
// NPCTL_SOCKET, if set, or the default.
func (p statePlace) daemon() (*daemonStore, error) {
	if _, err := os.Stat(p.File); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, hint(fmt.Errorf("open state: %w", err), "correct the path in the state block or -state, or become the user that owns the state")
	}
	usual := client.SocketPath(p.File, p.app.lookupEnv)
	if err := client.CheckSocket(usual, p.File); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, hint(fmt.Errorf("socket of npctl watch: %w", err), "remove it if it is not needed, or become its owner")
	}
	sockets := []string{usual}
	if named, _ := p.app.lookupEnv("NPCTL_SOCKET"); named != "" && !isURL(named) {
		if err := checkNamed(named); err != nil {
			return nil, err
		}
		sockets = []string{named, usual}
	}
	for _, socket := range sockets {
		if !exists(socket) {
			continue
		}
		if store, err := p.through(socket); store != nil || err != nil {
			return store, err
		}
	}
	return nil, nil
}

// through returns the state of the npctl watch at a socket, or nil if it uses another state or does not run.
func (p statePlace) through(socket string) (*daemonStore, error) {
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
		p.app.log.Debug("the daemon at the socket has another state", "socket", socket, "its", store.Path(), "ours", p.File)
		return nil, store.Close()
	}
	p.app.log.Debug("state opened through npctl watch", "socket", socket)
	return &daemonStore{Store: store, place: p}, nil
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
	place statePlace
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
	file, err := s.place.direct(ctx, readState)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // read-only file
	return file.Export(ctx, w)
}
