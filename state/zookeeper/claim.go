package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// claim is this process's lock on one record.
type claim struct {
	*contender
	store *Store
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

// Claim implements state.Shared.
func (s *Store) Claim(ctx context.Context, key resources.Key) (state.Lock, state.Entry, error) {
	c, entry, err := s.claim(ctx, key)
	if err != nil {
		return nil, state.Entry{}, fmt.Errorf("claim %s: %w", key, err)
	}
	return c, entry, nil
}

func (s *Store) claim(ctx context.Context, key resources.Key) (*claim, state.Entry, error) {
	dir, err := s.claimable(ctx, key)
	if errors.Is(err, state.ErrNotFound) { // the record may be new
		if err = s.Sync(ctx); err == nil {
			dir, err = s.claimable(ctx, key)
		}
	}
	if err != nil {
		return nil, state.Entry{}, err
	}
	contenders, err := s.enqueue(ctx, []string{dir}, nil)
	if errors.Is(err, errRetry) { // the lock directory cannot be created
		err = s.notFoundOr(key, err)
	}
	if err != nil {
		return nil, state.Entry{}, errors.Join(queuedIsLocked(err), s.releaseContenders(ctx, contenders))
	}
	c := &claim{contender: contenders[0], store: s, key: key}
	entry, err := s.settledEntry(ctx, key)
	if err == nil {
		err = s.keep(c, entry)
	}
	if err != nil {
		return nil, state.Entry{}, errors.Join(err, s.releaseContenders(ctx, contenders))
	}
	return c, entry, nil
}

// notFoundOr returns err, or state.ErrNotFound if the record is gone.
func (s *Store) notFoundOr(key resources.Key, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, z := s.cache.find(key); z == nil {
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

// releaseContenders releases contenders even after ctx is done.
func (s *Store) releaseContenders(ctx context.Context, contenders []*contender) error {
	if len(contenders) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.callLimit())
	defer cancel()
	if err := s.release(ctx, contenders...); err != nil {
		s.log.Debug("lock in ZooKeeper will be released later", "error", err)
	}
	return nil
}

// claimable returns the lock directory of a record, or an error if the cache shows that a claim must fail.
func (s *Store) claimable(ctx context.Context, key resources.Key) (string, error) {
	if err := s.writable(ctx, key.Kind); err != nil {
		return "", err
	}
	if err := s.waitSynced(ctx); err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at, z := s.cache.find(key)
	if z == nil {
		return "", state.ErrNotFound
	}
	dir := claimDir(at, z.ref, resources.StateOf(z.record))
	if len(s.cache.queues[dir]) > 0 || s.claims[key] != nil {
		return "", state.ErrLocked
	}
	return dir, nil
}

func (s *Store) writable(ctx context.Context, kind resources.Kind) error {
	switch {
	case !shared(kind):
		return state.Invalidf("a %s cannot be claimed: it is private to this process", kind)
	case s.opts.ReadOnly:
		return errReadOnly
	}
	return s.usable(ctx)
}

var errReadOnly = errors.New("the state is open in read-only mode")

// settledEntry returns the current record after this process has locked it. The events of all changes that precede the
// lock have arrived; settledEntry waits until the feed has read them.
func (s *Store) settledEntry(ctx context.Context, key resources.Key) (state.Entry, error) {
	var entry state.Entry
	err := s.settle(ctx, func() bool {
		at, z := s.cache.find(key)
		if entry = (state.Entry{}); z == nil {
			return true
		}
		_, dirty := s.cache.dirty[at]
		entry = s.entryOf(z)
		return !dirty || s.inOwnWrite(at)
	})
	if err == nil && entry.Record == nil {
		err = state.ErrNotFound
	}
	return entry, err
}

// keep registers a claim, unless the record has entered a state that another lock guards.
func (s *Store) keep(c *claim, entry state.Entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, z := s.cache.find(c.key)
	if z == nil {
		return state.ErrNotFound
	}
	if claimDir(at, z.ref, resources.StateOf(entry.Record)) != c.dir {
		return fmt.Errorf("its state has changed to %s: %w", resources.StateOf(entry.Record), state.ErrLocked)
	}
	if c.lostClosed {
		return state.ErrLost
	}
	s.claims[c.key] = c
	return nil
}

// ID implements state.Lock.
func (c *claim) ID() string { return c.prefix }

// Lost implements state.Lock.
func (c *claim) Lost() <-chan struct{} { return c.lost }

// Unlock implements state.Lock.
func (c *claim) Unlock(ctx context.Context) error {
	s := c.store
	s.mu.Lock()
	known := s.claims[c.key] == c
	if known {
		delete(s.claims, c.key)
	}
	s.mu.Unlock()
	if !known || s.isClosed() {
		return nil
	}
	if err := s.release(ctx, c.contender); err != nil {
		return fmt.Errorf("release %s: %w", c.key, err)
	}
	return nil
}

// Claimed implements state.Shared.
func (s *Store) Claimed() map[resources.Key]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	claimed := map[resources.Key]bool{}
	for dir := range s.cache.queues {
		if s.takenByOthers(dir) {
			s.guards(dir, func(key resources.Key) { claimed[key] = true })
		}
	}
	return claimed
}

// guards calls f for each record that the lock in dir guards. s.mu is held.
func (s *Store) guards(dir string, f func(resources.Key)) {
	if strings.HasPrefix(dir, requestLocks+"/") {
		f(resources.Key{Kind: resources.KindRequest, ID: nameOf(dir)})
		return
	}
	above := parentOf(dir)
	if p := parsePath(above); p.role == roleRecord {
		if z := s.cache.nodes[above]; z != nil && z.record != nil {
			f(z.record.Key())
		}
		return
	}
	beside := s.cache.nodes[above]
	if beside == nil {
		return
	}
	for name := range beside.children {
		z := s.cache.nodes[above+"/"+name]
		if z != nil && z.record != nil && claimDir(above+"/"+name, z.ref, resources.StateOf(z.record)) == dir {
			f(z.record.Key())
		}
	}
}
