package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/google/uuid"

	"github.com/npctl/npctl/resources"
)

// contender is an entry of this process in the queue of a lock. The queue follows kazoo's recipe: each contender is a
// znode <32 hex digits>__lock__<sequence> in the lock directory, and the lowest number has the lock. The digits before
// __lock__ only let a process identify its own contenders.
type contender struct {
	dir    string
	prefix string
	lost   chan struct{}

	// guarded by Store.mu
	path       string // empty until known
	exists     bool   // its znode exists, as far as known
	lostClosed bool   // lost was closed
	released   bool   // this process no longer uses it
	releasing  bool   // a commit in progress deletes it
}

// markLost marks the lock as lost and reports whether it was held until then. Store.mu is held.
func (c *contender) markLost() bool {
	if c.lostClosed || c.released {
		return false
	}
	c.lostClosed = true
	close(c.lost)
	return true
}

var (
	// errQueued is returned when another contender is ahead in the queue.
	errQueued = errors.New("another contender is ahead in the queue")
	// errRetry is returned when the znodes have changed, so that another attempt may succeed.
	errRetry = errors.New("the znodes have changed")
)

const maxTries = 5

// enqueue creates a contender in each directory, all in one call. data describes the holder to operators.
func (s *Store) enqueue(ctx context.Context, dirs []string, data []byte) ([]*contender, error) {
	for range maxTries {
		contenders, err := s.tryEnqueue(ctx, dirs, data)
		if !errors.Is(err, errRetry) {
			return contenders, err
		}
		if err := s.Sync(ctx); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("lock %s: %w", strings.Join(dirs, ", "), errRetry)
}

func (s *Store) tryEnqueue(ctx context.Context, dirs []string, data []byte) ([]*contender, error) {
	contenders, ops, epoch := s.newContenders(dirs, data)
	results, _, err := s.multi(ctx, "lock "+strings.Join(dirs, ", "), ops)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNodeExists):
		s.forget(contenders)
		return nil, errors.Join(errRetry, err)
	default: // if they exist after all, the upkeep deletes them as soon as they appear
		for _, c := range contenders {
			s.orphan(c)
		}
		s.forget(contenders)
		return nil, err
	}
	for i, result := range results[len(results)-len(contenders):] {
		s.noteMade(contenders[i], result)
	}
	if err := s.checkFirst(contenders, epoch); err != nil {
		return contenders, err
	}
	return contenders, nil
}

// newContenders registers the contenders before they exist, so that their events are recognized as events of this
// process.
func (s *Store) newContenders(dirs []string, data []byte) ([]*contender, []any, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var contenders []*contender
	m := s.newMaker()
	var creates []any
	for _, dir := range dirs {
		m.dir(dir)
		c, create := s.newContender(dir, data)
		contenders = append(contenders, c)
		creates = append(creates, create)
	}
	return contenders, append(m.ops, creates...), s.connection.epoch
}

// newContender registers one contender. s.mu is held.
func (s *Store) newContender(dir string, data []byte) (*contender, *zk.CreateRequest) {
	c := &contender{dir: dir, prefix: strings.ReplaceAll(uuid.NewString(), "-", ""), lost: make(chan struct{})}
	s.ownContenders[c.prefix] = c
	return c, &zk.CreateRequest{Path: s.serverPath(dir + "/" + c.prefix + "__lock__"), Data: data, Acl: openACL,
		Flags: zk.FlagEphemeral | zk.FlagSequence}
}

// noteMade records the name that ZooKeeper gave to a contender. s.mu is held.
func (s *Store) noteMade(c *contender, result zk.MultiResponse) {
	c.path = strings.TrimPrefix(result.String, s.opts.Chroot)
	if z := s.cache.nodes[c.path]; z != nil {
		c.exists = true
	} else {
		c.markLost() // the event of its deletion arrived before its name
	}
}

// checkFirst returns an error unless the contenders hold their locks. The cache can decide that, because the events of
// all contenders that were created earlier arrive before the answer. s.mu is held.
func (s *Store) checkFirst(contenders []*contender, epoch uint64) error {
	if s.connection.epoch != epoch || !s.connection.synced {
		return fmt.Errorf("the connection to ZooKeeper has changed: %w", errDisconnected)
	}
	for _, c := range contenders {
		if c.lostClosed {
			return fmt.Errorf("lock %s: its znode was removed: %w", c.dir, errQueued)
		}
		if queue := s.cache.queue(c.dir); len(queue) == 0 || queue[0] != nameOf(c.path) {
			return fmt.Errorf("lock %s: %w", c.dir, errQueued)
		}
	}
	return nil
}

// release removes contenders from their queues. If that fails, the upkeep deletes them later.
func (s *Store) release(ctx context.Context, contenders ...*contender) error {
	var ops []any
	s.mu.Lock()
	for _, c := range contenders {
		c.released = true
		if c.exists {
			ops = append(ops, &zk.DeleteRequest{Path: s.serverPath(c.path), Version: -1})
		}
	}
	s.mu.Unlock()
	var err error
	if len(ops) > 0 {
		err = s.deleteEach(ctx, ops)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range contenders {
		if err != nil {
			s.orphan(c)
		}
		delete(s.ownContenders, c.prefix)
	}
	s.hintAll()
	return err
}

// deleteEach deletes all znodes in one call, or one by one if one of them is already gone.
func (s *Store) deleteEach(ctx context.Context, ops []any) error {
	_, _, err := s.multi(ctx, "unlock", ops)
	if !errors.Is(err, zk.ErrNoNode) || len(ops) == 1 {
		return ignore(err, zk.ErrNoNode)
	}
	for _, op := range ops {
		_, _, one := s.multi(ctx, "unlock", []any{op})
		err = errors.Join(ignore(err, zk.ErrNoNode), ignore(one, zk.ErrNoNode))
	}
	return err
}

func ignore(err error, kinds ...error) error {
	if slices.ContainsFunc(kinds, func(kind error) bool { return errors.Is(err, kind) }) {
		return nil
	}
	return err
}

// orphan is a contender that is no longer used but may still appear.
type orphan struct {
	dir   string
	since time.Time
}

// orphan hands a contender to the upkeep, which deletes it as soon as it appears. s.mu is held.
func (s *Store) orphan(c *contender) {
	s.orphans[c.prefix] = orphan{c.dir, time.Now()}
	hint(s.upkeepWake)
}

// forget drops contenders that hold no lock. s.mu is held.
func (s *Store) forget(contenders []*contender) {
	for _, c := range contenders {
		delete(s.ownContenders, c.prefix)
	}
}

// ours reports whether a contender belongs to this process. s.mu is held.
func (s *Store) ours(name string) bool {
	prefix := prefixOf(name)
	_, orphan := s.orphans[prefix]
	return s.ownContenders[prefix] != nil || orphan
}

// takenByOthers reports whether another process is in the queue. s.mu is held.
func (s *Store) takenByOthers(dir string) bool {
	for name := range s.cache.queues[dir] {
		if !s.ours(name) {
			return true
		}
	}
	return false
}

// dirCreator collects the requests that create missing directories. Store.mu is held while it is in use.
type dirCreator struct {
	store *Store
	made  map[string]bool
	ops   []any
	paths []string // of ops
}

func (s *Store) newMaker() *dirCreator { return &dirCreator{store: s, made: map[string]bool{}} }

// dir adds the creation of a directory and its parents. It never creates the znode of a node, so a lock directory
// cannot recreate a deleted node.
func (m *dirCreator) dir(at string) {
	if at == "" || m.made[at] || m.store.cache.nodes[at] != nil {
		return
	}
	if p := parsePath(at); p.kind != resources.KindNode {
		m.dir(parentOf(at))
		m.add(at, nil)
	}
}

func (m *dirCreator) add(at string, data []byte) {
	m.made[at] = true
	m.ops = append(m.ops, &zk.CreateRequest{Path: m.store.serverPath(at), Data: data, Acl: openACL})
	m.paths = append(m.paths, at)
}
