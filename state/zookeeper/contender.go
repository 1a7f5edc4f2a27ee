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

// contender is this process in the queue of a lock: kazoo's recipe, in which each contender is a znode
// <32 hex digits>__lock__<sequence> in the lock's directory and the one with the lowest number holds the lock. What stands
// before __lock__ is only there to find one's own again.
type contender struct {
	dir    string
	prefix string
	lost   chan struct{}

	// guarded by Store.mu
	path     string // once it is known
	there    bool   // its znode, as far as is known
	over     bool   // lost was closed
	released bool   // we are done with it
	ending   bool   // a commit is on its way that removes it
}

// lose notes that the lock is held no longer. Store.mu is held.
func (c *contender) lose() bool {
	if c.over || c.released {
		return false
	}
	c.over = true
	close(c.lost)
	return true
}

var (
	// errQueued says that another contender is before us.
	errQueued = errors.New("another is before us")
	// errAgain says that what was known was not so any more, and that it may work now.
	errAgain = errors.New("the znodes have changed meanwhile")
)

const maxTries = 5

// ask for a lock means: a new contender in each directory, all in one call. data says who we are, for people.
func (s *Store) enqueue(ctx context.Context, dirs []string, data []byte) ([]*contender, error) {
	for range maxTries {
		contenders, err := s.tryEnqueue(ctx, dirs, data)
		if !errors.Is(err, errAgain) {
			return contenders, err
		}
		if err := s.Sync(ctx); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("lock %s: %w", strings.Join(dirs, ", "), errAgain)
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
		return nil, errors.Join(errAgain, err)
	default: // if they were made after all, they go as soon as they show
		for _, c := range contenders {
			s.abandon(c)
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

// newContenders notes the contenders before they exist, so that the events about them are known to be about us.
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
	return contenders, append(m.ops, creates...), s.link.epoch
}

// newContender notes one contender. s.mu is held.
func (s *Store) newContender(dir string, data []byte) (*contender, *zk.CreateRequest) {
	c := &contender{dir: dir, prefix: strings.ReplaceAll(uuid.NewString(), "-", ""), lost: make(chan struct{})}
	s.mine[c.prefix] = c
	return c, &zk.CreateRequest{Path: s.at(dir + "/" + c.prefix + "__lock__"), Data: data, Acl: openACL,
		Flags: zk.FlagEphemeral | zk.FlagSequence}
}

// noteMade notes the name that a contender got. s.mu is held.
func (s *Store) noteMade(c *contender, result zk.MultiResponse) {
	c.path = strings.TrimPrefix(result.String, s.opts.Chroot)
	if z := s.cache.nodes[c.path]; z != nil {
		c.there = true
	} else {
		c.lose() // the event of its end was here before its name
	}
}

// checkFirst finds out whether the contenders hold their locks. The events of all that were made before them have been
// here before the answer, so the cache knows. s.mu is held.
func (s *Store) checkFirst(contenders []*contender, epoch uint64) error {
	if s.link.epoch != epoch || !s.link.synced {
		return fmt.Errorf("the connection to ZooKeeper has changed: %w", errDown)
	}
	for _, c := range contenders {
		if c.over {
			return fmt.Errorf("lock %s: its znode was removed: %w", c.dir, errQueued)
		}
		if queue := s.cache.queue(c.dir); len(queue) == 0 || queue[0] != nameOf(c.path) {
			return fmt.Errorf("lock %s: %w", c.dir, errQueued)
		}
	}
	return nil
}

// release leaves the queues. What cannot be done now is done when it can.
func (s *Store) release(ctx context.Context, contenders ...*contender) error {
	var ops []any
	s.mu.Lock()
	for _, c := range contenders {
		c.released = true
		if c.there {
			ops = append(ops, &zk.DeleteRequest{Path: s.at(c.path), Version: -1})
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
			s.abandon(c)
		}
		delete(s.mine, c.prefix)
	}
	s.hintAll()
	return err
}

// deleteEach deletes in one call; when one of them is gone already, one by one.
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

// orphan is a contender that is of no use, and may show still.
type orphan struct {
	dir   string
	since time.Time
}

// abandon leaves a contender to the upkeep, which removes it as soon as it is seen. s.mu is held.
func (s *Store) abandon(c *contender) {
	s.orphans[c.prefix] = orphan{c.dir, time.Now()}
	hint(s.tend)
}

// forget drops contenders that are nobody's lock. s.mu is held.
func (s *Store) forget(contenders []*contender) {
	for _, c := range contenders {
		delete(s.mine, c.prefix)
	}
}

// ours says whether a contender is this process's. s.mu is held.
func (s *Store) ours(name string) bool {
	prefix := prefixOf(name)
	_, orphan := s.orphans[prefix]
	return s.mine[prefix] != nil || orphan
}

// takenByOthers says whether others are in the queue. s.mu is held.
func (s *Store) takenByOthers(dir string) bool {
	for name := range s.cache.queues[dir] {
		if !s.ours(name) {
			return true
		}
	}
	return false
}

// maker lists what has to be created on the way to something. Store.mu is held while it is in use.
type maker struct {
	store *Store
	made  map[string]bool
	ops   []any
	paths []string // of ops
}

func (s *Store) newMaker() *maker { return &maker{store: s, made: map[string]bool{}} }

// dir makes a directory and the ones above it. A node that is gone is not made again by its lock directory.
func (m *maker) dir(at string) {
	if at == "" || m.made[at] || m.store.cache.nodes[at] != nil {
		return
	}
	if p := placeOf(at); p.kind != resources.KindNode {
		m.dir(parentOf(at))
		m.add(at, nil)
	}
}

func (m *maker) add(at string, data []byte) {
	m.made[at] = true
	m.ops = append(m.ops, &zk.CreateRequest{Path: m.store.at(at), Data: data, Acl: openACL})
	m.paths = append(m.paths, at)
}
