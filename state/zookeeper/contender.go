package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/google/uuid"
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

// Lost implements state.Lock for claims and named locks.
func (c *contender) Lost() <-chan struct{} { return c.lost }

// markLost marks the lock as lost and reports whether it was held until then. mu is held.
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
func (ls *locks) enqueue(ctx context.Context, dirs []string, data []byte) ([]*contender, error) {
	for range maxTries {
		contenders, err := ls.tryEnqueue(ctx, dirs, data)
		if !errors.Is(err, errRetry) {
			return contenders, err
		}
		if err := ls.mirror.sync(ctx); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("lock %s: %w", strings.Join(dirs, ", "), errRetry)
}

func (ls *locks) tryEnqueue(ctx context.Context, dirs []string, data []byte) ([]*contender, error) {
	contenders, ops, epoch := ls.newContenders(dirs, data)
	results, _, err := ls.session.multi(ctx, "lock "+strings.Join(dirs, ", "), ops)
	ls.mu.Lock()
	defer ls.mu.Unlock()
	switch {
	case err == nil:
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNodeExists):
		ls.forget(contenders)
		return nil, errors.Join(errRetry, err)
	default: // if they exist after all, the upkeep deletes them as soon as they appear
		for _, c := range contenders {
			ls.orphan(c)
		}
		ls.forget(contenders)
		return nil, err
	}
	for i, result := range results[len(results)-len(contenders):] {
		ls.noteMade(contenders[i], result)
	}
	if err := ls.checkFirst(contenders, epoch); err != nil {
		return contenders, err
	}
	return contenders, nil
}

// newContenders registers the contenders before they exist, so that their events are recognized as events of this
// process.
func (ls *locks) newContenders(dirs []string, data []byte) ([]*contender, []any, uint64) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	var contenders []*contender
	m := newDirCreator(ls.cache, ls.session)
	var creates []any
	for _, dir := range dirs {
		m.dir(dir)
		c, create := ls.newContender(dir, data)
		contenders = append(contenders, c)
		creates = append(creates, create)
	}
	return contenders, append(m.ops, creates...), ls.session.connection.epoch
}

// newContender registers one contender. mu is held.
func (ls *locks) newContender(dir string, data []byte) (*contender, *zk.CreateRequest) {
	c := &contender{dir: dir, prefix: strings.ReplaceAll(uuid.NewString(), "-", ""), lost: make(chan struct{})}
	ls.ownContenders[c.prefix] = c
	return c, &zk.CreateRequest{Path: ls.session.serverPath(dir + "/" + c.prefix + "__lock__"), Data: data, Acl: openACL,
		Flags: zk.FlagEphemeral | zk.FlagSequence}
}

// noteMade records the name that ZooKeeper gave to a contender. mu is held.
func (ls *locks) noteMade(c *contender, result zk.MultiResponse) {
	c.path = ls.session.localPath(result.String)
	if z := ls.cache.node(c.path); z != nil {
		c.exists = true
	} else {
		c.markLost() // the event of its deletion arrived before its name
	}
}

// checkFirst returns an error unless the contenders hold their locks. The cache can decide that, because the events of
// all contenders that were created earlier arrive before the answer. mu is held.
func (ls *locks) checkFirst(contenders []*contender, epoch uint64) error {
	if ls.session.connection.epoch != epoch || !ls.session.connection.synced {
		return fmt.Errorf("the connection to ZooKeeper has changed: %w", errDisconnected)
	}
	for _, c := range contenders {
		if c.lostClosed {
			return fmt.Errorf("lock %s: its znode was removed: %w", c.dir, errQueued)
		}
		if queue := ls.cache.queue(c.dir); len(queue) == 0 || queue[0] != nameOf(c.path) {
			return fmt.Errorf("lock %s: %w", c.dir, errQueued)
		}
	}
	return nil
}

// release removes contenders from their queues. If that fails, the upkeep deletes them later.
func (ls *locks) release(ctx context.Context, contenders ...*contender) error {
	var ops []any
	ls.mu.Lock()
	for _, c := range contenders {
		c.released = true
		if c.exists {
			ops = append(ops, &zk.DeleteRequest{Path: ls.session.serverPath(c.path), Version: -1})
		}
	}
	ls.mu.Unlock()
	var err error
	if len(ops) > 0 {
		err = ls.session.deleteEach(ctx, ops)
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, c := range contenders {
		if err != nil {
			ls.orphan(c)
		}
		delete(ls.ownContenders, c.prefix)
	}
	ls.mirror.hintAll()
	return err
}

// orphan is a contender that is no longer used but may still appear.
type orphan struct {
	dir   string
	since time.Time
}

// orphan hands a contender to the upkeep, which deletes it as soon as it appears. mu is held.
func (ls *locks) orphan(c *contender) {
	ls.orphans[c.prefix] = orphan{c.dir, time.Now()}
	hint(ls.upkeepWake)
}

// forget drops contenders that hold no lock. mu is held.
func (ls *locks) forget(contenders []*contender) {
	for _, c := range contenders {
		delete(ls.ownContenders, c.prefix)
	}
}

// ours reports whether a contender belongs to this process. mu is held.
func (ls *locks) ours(name string) bool {
	prefix := prefixOf(name)
	_, orphan := ls.orphans[prefix]
	return ls.ownContenders[prefix] != nil || orphan
}

// takenByOthers reports whether another process is in the queue. mu is held.
func (ls *locks) takenByOthers(dir string) bool {
	for name := range ls.cache.queues[dir] {
		if !ls.ours(name) {
			return true
		}
	}
	return false
}
