package zookeeper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/npctl/npctl/state"
)

// first reads the first contender of a named lock. If upTo is not nil, it only considers contenders before upTo.
func (ls *locks) first(ctx context.Context, name string, upTo *contender) (at string, locked *state.LockedError, err error) {
	dir := namedLockDir(name)
	ls.mu.Lock()
	queue := ls.cache.queue(dir)
	ls.mu.Unlock()
	for _, contender := range queue {
		at = dir + "/" + contender
		if upTo != nil && at == upTo.path {
			break
		}
		h, err := ls.holderAt(ctx, at)
		if err != nil {
			return "", nil, err
		}
		if h != nil {
			return at, &state.LockedError{Name: name, Holder: *h}, nil
		}
	}
	return "", nil, nil
}

// holderAt reads the holder from a contender's data. It returns nil if the contender is gone.
func (ls *locks) holderAt(ctx context.Context, at string) (*state.Holder, error) {
	data, stat, err := ls.session.get(ctx, at)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	h := &state.Holder{}
	if json.Unmarshal(data, h) != nil || h.ID == "" {
		*h = state.Holder{ID: prefixOf(nameOf(at)), UserHost: fmt.Sprintf("session %#x", stat.EphemeralOwner), Operation: "an unknown reason"}
	}
	return h, nil
}

// forceUnlock takes the named lock with that ID from its holder and returns the holder. The holder's Lost channel
// closes at once, and it can write nothing from then on.
func (ls *locks) forceUnlock(ctx context.Context, id string) (state.Holder, error) {
	if ls.session.readOnly {
		return state.Holder{}, state.ErrReadOnly
	}
	if err := ls.mirror.sync(ctx); err != nil {
		return state.Holder{}, err
	}
	var others []error
	for _, name := range ls.lockNames() {
		at, locked, err := ls.first(ctx, name, nil)
		switch {
		case err != nil:
			return state.Holder{}, err
		case locked == nil:
		case locked.Holder.ID == id: // deletes only the contender: another process may be adding one to the directory
			return locked.Holder, ls.session.deleteEach(ctx, []any{&zk.DeleteRequest{Path: ls.session.serverPath(at), Version: -1}})
		default:
			others = append(others, locked)
		}
	}
	if len(others) == 0 {
		return state.Holder{}, fmt.Errorf("unlock %q: no lock is held: %w", id, state.ErrNotFound)
	}
	return state.Holder{}, fmt.Errorf("unlock %q: no lock has that id: %w", id, errors.Join(others...))
}

// lockNames returns the names of all named locks, held or not.
func (ls *locks) lockNames() []string {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.cache.names(namedDir)
}
