package zookeeper

import (
	"context"
	"errors"
	"fmt"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// claim is this process's lock on one record.
type claim struct {
	*contender
	locks *locks
	key   resources.Key
}

var _ state.Lock = (*claim)(nil)

// claimDir returns the lock directory that guards a record in its present state. All builds of an image in progress
// share one lock across all build hosts, and so do all uploads in progress of one build to one provider. Any other
// record has its own lock.
func claimDir(at string, p znodeRef, in resources.State) string {
	switch {
	case p.kind == resources.KindRequest:
		return requestLocks + "/" + p.id
	case p.kind == resources.KindBuild && in == resources.StateBuilding, p.kind == resources.KindUpload && in == resources.StateUploading:
		return parentOf(at) + "/" + lockName
	default:
		return at + "/" + lockName
	}
}

// claim claims a record; see state.Shared.Claim.
func (ls *locks) claim(ctx context.Context, key resources.Key) (*claim, state.Entry, error) {
	dir, err := ls.claimable(ctx, key)
	if errors.Is(err, state.ErrNotFound) { // the record may be new
		if err = ls.mirror.sync(ctx); err == nil {
			dir, err = ls.claimable(ctx, key)
		}
	}
	if err != nil {
		return nil, state.Entry{}, err
	}
	contenders, err := ls.enqueue(ctx, []string{dir}, nil)
	if errors.Is(err, errRetry) { // the lock directory cannot be created
		err = ls.notFoundOr(key, err)
	}
	if err != nil {
		ls.releaseContenders(ctx, contenders)
		return nil, state.Entry{}, queuedIsLocked(err)
	}
	c := &claim{contender: contenders[0], locks: ls, key: key}
	entry, err := ls.mirror.settledEntry(ctx, key)
	if err == nil {
		err = ls.keep(c, entry)
	}
	if err != nil {
		ls.releaseContenders(ctx, contenders)
		return nil, state.Entry{}, err
	}
	return c, entry, nil
}

// notFoundOr returns err, or state.ErrNotFound if the record is gone.
func (ls *locks) notFoundOr(key resources.Key, err error) error {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if _, z := ls.cache.find(key); z == nil {
		return state.ErrNotFound
	}
	return err
}

// queuedIsLocked wraps errQueued in state.ErrLocked for callers outside the package.
func queuedIsLocked(err error) error {
	if errors.Is(err, errQueued) {
		return fmt.Errorf("%w: %w", state.ErrLocked, err)
	}
	return err
}

// releaseContenders releases contenders even after ctx is done. If that fails, the upkeep deletes them later.
func (ls *locks) releaseContenders(ctx context.Context, contenders []*contender) {
	if len(contenders) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ls.session.callLimit())
	defer cancel()
	if err := ls.release(ctx, contenders...); err != nil {
		ls.log.Debug("lock in ZooKeeper will be released later", "error", err)
	}
}

// claimable returns the lock directory of a record, or an error if the cache shows that a claim must fail.
func (ls *locks) claimable(ctx context.Context, key resources.Key) (string, error) {
	if err := ls.writable(ctx, key.Kind); err != nil {
		return "", err
	}
	if err := ls.session.waitSynced(ctx); err != nil {
		return "", err
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	at, z := ls.cache.find(key)
	if z == nil {
		return "", state.ErrNotFound
	}
	dir := claimDir(at, z.ref, resources.StateOf(z.record))
	if len(ls.cache.queues[dir]) > 0 || ls.claims[key] != nil {
		return "", state.ErrLocked
	}
	return dir, nil
}

func (ls *locks) writable(ctx context.Context, kind resources.Kind) error {
	switch {
	case !shared(kind):
		return state.Invalidf("a %s cannot be claimed: it is private to this process", kind)
	case ls.session.readOnly:
		return state.ErrReadOnly
	}
	return ls.session.usable(ctx)
}

// keep registers a claim, unless the record has entered a state that another lock guards.
func (ls *locks) keep(c *claim, entry state.Entry) error {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	at, z := ls.cache.find(c.key)
	if z == nil {
		return state.ErrNotFound
	}
	if claimDir(at, z.ref, resources.StateOf(entry.Record)) != c.dir {
		return fmt.Errorf("its state has changed to %s: %w", resources.StateOf(entry.Record), state.ErrLocked)
	}
	if c.lostClosed {
		return state.ErrLost
	}
	ls.claims[c.key] = c
	return nil
}

// ID implements state.Lock.
func (c *claim) ID() string { return c.prefix }

// Unlock implements state.Lock.
func (c *claim) Unlock(ctx context.Context) error {
	ls := c.locks
	ls.mu.Lock()
	known := ls.claims[c.key] == c
	if known {
		delete(ls.claims, c.key)
	}
	ls.mu.Unlock()
	if !known || ls.session.isClosed() {
		return nil
	}
	if err := ls.release(ctx, c.contender); err != nil {
		return fmt.Errorf("release %s: %w", c.key, err)
	}
	return nil
}

// claimed returns the records that others have claimed.
func (ls *locks) claimed() map[resources.Key]bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	claimed := map[resources.Key]bool{}
	for dir := range ls.cache.queues {
		if ls.takenByOthers(dir) {
			ls.cache.guards(dir, func(key resources.Key) { claimed[key] = true })
		}
	}
	return claimed
}
