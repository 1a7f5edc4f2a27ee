package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

const (
	// roomTimeout is how long the next launch attempt waits for the capacity that the failed instance uses.
	roomTimeout = time.Minute
	// roomPoll is the time between two checks.
	roomPoll = time.Second
	// cleanupGrace is how long Execute waits, after its steps, for the deletion of failed instances.
	cleanupGrace = 30 * time.Second
	// cleanupPause is the first pause of a clean-up after a refused deletion. It doubles with each further one.
	cleanupPause = 2 * time.Second
)

// continueWithNewNode passes the record of a failed attempt to cleanUp and continues the launch with a new record, so
// that the next attempt does not wait for the deletion. One commit writes both: the request always has a node.
func (l *nodeLaunch) continueWithNewNode(ctx context.Context, cause error) error {
	now := l.x.Now()
	left, next := *l.node, *l.node
	left.State, left.StateTime, left.Error = resources.StateDeleting, now, cause.Error()
	left.Request, left.Tenant, left.Requestor = "", "", ""
	next.ID, next.StateTime, next.Created, next.Error = "", now, now, cause.Error()
	next.ExternalID, next.Phases = "", resources.Phases{}
	l.created = resources.Instance{}
	if l.x.cache.claims.store != nil {
		next.State = resources.StateInit // create claims it; other processes ignore it until then
	}
	if err := l.x.cache.putFor(ctx, l.step.ID, &left, &next); err != nil {
		return err
	}
	l.node = &next
	l.x.cache.clearRecordBusy(ctx, left.Key())
	l.x.cleaner.cleanUp(&left)
	l.isReplacement = true
	return nil
}

// awaitRoom waits, before an attempt that follows a failed one, until the limits of the pool and the quota have
// capacity for the node in addition to the instances being deleted. An earlier run may have ended during this wait.
func (l *nodeLaunch) awaitRoom(ctx context.Context) error {
	if l.node.Attempt == 0 || l.node.ExternalID != "" {
		return nil
	}
	limit, cancel := context.WithTimeout(ctx, roomTimeout)
	defer cancel()
	for {
		why := l.lacksRoom(limit)
		if why == "" {
			return nil
		}
		l.x.progress(l.step)("waiting for capacity for the next attempt", 0, 0)
		select {
		case <-time.After(roomPoll):
		case <-limit.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("%w: no capacity for the next attempt while failed instances are being deleted: %s", drivers.ErrQuota, why)
		}
	}
}

// lacksRoom returns the limit that leaves no capacity for the node, or "".
func (l *nodeLaunch) lacksRoom(ctx context.Context) string {
	var use resources.ResourceAmounts
	for _, n := range all[resources.Node](l.x.cache) {
		if n.Provider == l.node.Provider && n.Pool == l.node.Pool && n.ID != l.node.ID && !n.Static {
			use = plan.Plus(use, plan.Amounts(n))
		}
	}
	if why := plan.OverLimits(l.pool, use, plan.Amounts(l.node)); why != "" || l.pool.IgnoreProviderQuota || !l.isReplacement {
		return why // unless this run has replaced the node, an earlier run may have created the instance, and the quota counts it
	}
	quota, err := l.cloud.Quota(ctx)
	if err != nil {
		return "" // the cloud itself rejects a node that exceeds the quota
	}
	return plan.OverQuota(quota, plan.Amounts(l.node))
}

// clearRecordBusy ends a step's work on one of its records. The next plan may contain other steps for it.
func (l *recordCache) clearRecordBusy(ctx context.Context, key resources.Key) {
	l.claims.release(ctx, key)
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.busy, key)
	l.notify()
}

// Undeleted is the instance of a failed launch attempt that was not deleted when the run ended.
type Undeleted struct {
	Node, Provider string
	Server         string // the cloud's ID; empty if it is unknown whether the instance exists
	Err            error  // of the newest attempt to delete it, if any
}

// cleaner deletes the instances of failed launch attempts while a plan that is executed once runs. A daemon has none:
// its next plan deletes them.
type cleaner struct {
	x    *execution // reports no events: deletions are not steps of the plan
	ctx  context.Context
	stop context.CancelFunc
	work sync.WaitGroup

	mu   sync.Mutex // guards left
	left map[string]Undeleted
}

func newCleaner(ctx context.Context, x *execution) *cleaner {
	silent := *x.Engine
	silent.Report = nil
	c := &cleaner{x: &execution{Engine: &silent, run: x.run, seen: x.seen}, left: map[string]Undeleted{}}
	c.ctx, c.stop = context.WithCancel(ctx)
	return c
}

// cleanUp deletes the instance of a failed attempt and then its record, unless the record belongs to a request.
func (c *cleaner) cleanUp(n *resources.Node) {
	if c == nil {
		return
	}
	s := plan.Step{ID: "clean up node " + n.ID, Action: plan.ActionDelete, Thing: plan.ThingNode, Provider: n.Provider, Pool: n.Pool,
		Record: n.Key(), External: n.ExternalID}
	c.x.cache.clearRecordBusy(c.ctx, n.Key())
	c.note(Undeleted{Node: n.ID, Provider: n.Provider, Server: n.ExternalID}, false)
	c.work.Go(func() {
		for pause := cleanupPause; ; pause *= 2 {
			err := c.delete(s)
			c.note(Undeleted{Node: n.ID, Provider: n.Provider, Server: n.ExternalID, Err: err}, err == nil || errors.Is(err, errChanged))
			if err == nil || errors.Is(err, errChanged) {
				return
			}
			select {
			case <-time.After(pause):
			case <-c.ctx.Done():
				return
			}
		}
	})
}

func (c *cleaner) delete(s plan.Step) error {
	ctx := c.x.cache.claims.begin(c.ctx, s.ID)
	defer c.x.cache.claims.end(c.ctx, s.ID)
	if c.x.cache.claims.store != nil {
		entry, err := c.x.cache.claims.acquire(ctx, s.ID, s.Record)
		if err != nil {
			return err
		}
		c.x.cache.refreshEntry(ctx, entry)
	}
	node, at := find[resources.Node](c.x.cache, s.Record)
	switch {
	case node == nil:
		return nil
	case node.Request == "":
		return c.x.removeNode(ctx, s, node, at)
	}
	cloud, release, err := c.x.cloud(ctx, s.Provider, c.x.cache.provider(s.Provider))
	defer release()
	if err != nil {
		return err
	}
	return c.x.instanceRemover(s, cloud).remove(ctx, c.x.machineOf(node)) // the record shows the next plan which pool cannot serve the request
}

// note records that an instance is left, or removes it once it is deleted.
func (c *cleaner) note(l Undeleted, gone bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if gone {
		delete(c.left, l.Node)
		return
	}
	if l.Err != nil && c.ctx.Err() != nil {
		l.Err = c.left[l.Node].Err // the end of the run is not the cause
	}
	c.left[l.Node] = l
}

// end waits up to cleanupGrace for the deletions, stops them, and returns the remaining instances in the order of their
// nodes.
func (c *cleaner) end() []Undeleted {
	done := make(chan struct{})
	go func() { c.work.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(cleanupGrace):
	case <-c.ctx.Done():
	}
	c.stop()
	<-done
	c.mu.Lock()
	defer c.mu.Unlock()
	var left []Undeleted
	for _, l := range c.left {
		left = append(left, l)
	}
	slices.SortFunc(left, func(a, b Undeleted) int { return cmp.Compare(a.Node, b.Node) })
	return left
}
