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
	// roomTimeout is how long the next launch attempt waits for the room that the failed server takes.
	roomTimeout = time.Minute
	// roomPoll is the time between two checks.
	roomPoll = time.Second
	// cleanupGrace is how long Execute waits, after its steps, for the deletion of failed servers.
	cleanupGrace = 30 * time.Second
	// cleanupPause is the first pause of a clean-up after a refused deletion.
	cleanupPause = 2 * time.Second
)

// succeed hands the record of a failed attempt to clean-up and continues the launch with a new one, so that the next
// attempt does not wait for the deletion. Both are written in one commit: the request is never without a node.
func (l *launching) succeed(ctx context.Context, cause error) error {
	now := l.Now()
	left, next := *l.node, *l.node
	left.State, left.StateTime, left.Error = resources.StateDeleting, now, cause.Error()
	left.Request, left.Tenant, left.Requestor = "", "", ""
	next.ID, next.StateTime, next.Created, next.Error = "", now, now, cause.Error()
	next.ExternalID, next.Phases = "", resources.Phases{}
	l.made = resources.Instance{}
	if l.ledger.claims.store != nil {
		next.State = resources.StateInit // create claims it; other processes leave it alone until then
	}
	if err := l.ledger.putFor(ctx, l.step.ID, &left, &next); err != nil {
		return err
	}
	l.node = &next
	l.ledger.leave(ctx, left.Key())
	l.cleanUp(&left)
	l.successor = true
	return nil
}

// awaitRoom waits, before an attempt that follows a failed one, until the limits of the pool and the quota have room for the
// node beside what is being deleted. An earlier run may have ended during this wait.
func (l *launching) awaitRoom(ctx context.Context) error {
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
		l.progress(l.step)("waiting for room for the next attempt", 0, 0)
		select {
		case <-time.After(roomPoll):
		case <-limit.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("%w: no room for the next attempt while failed servers are being deleted: %s", drivers.ErrQuota, why)
		}
	}
}

// lacksRoom returns the limit that leaves no room for the node, or "".
func (l *launching) lacksRoom(ctx context.Context) string {
	var use resources.Amounts
	for _, n := range all[resources.Node](l.ledger) {
		if n.Provider == l.node.Provider && n.Pool == l.node.Pool && n.ID != l.node.ID && !n.Static {
			use = plan.Plus(use, plan.Amounts(n))
		}
	}
	if why := plan.OverLimits(l.pool, use, plan.Amounts(l.node)); why != "" || l.pool.IgnoreProviderQuota || !l.successor {
		return why // without successor, an earlier run may have created the server, and the quota counts it
	}
	quota, err := l.cloud.Quota(ctx)
	if err != nil {
		return "" // the cloud itself refuses what does not fit
	}
	return plan.OverQuota(quota, plan.Amounts(l.node))
}

// leave ends a step's work on one of its records, which others may plan for from now on.
func (l *ledger) leave(ctx context.Context, key resources.Key) {
	l.claims.letGo(ctx, key)
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.busy, key)
	l.hint()
}

// Left is what a failed launch attempt left in a cloud and was not deleted when the run ended.
type Left struct {
	Node, Provider string
	Server         string // the cloud's id; empty when it is not known whether there is one
	Err            error  // of the newest try to delete it, when there was one
}

// cleaner deletes what failed launch attempts leave, beside the steps of a plan that is executed once. A daemon has none:
// its next plan deletes them.
type cleaner struct {
	x    *execution // reports nothing: deletions are no steps of the plan
	ctx  context.Context
	stop context.CancelFunc
	work sync.WaitGroup

	mu   sync.Mutex // guards left
	left map[string]Left
}

func (x *execution) newCleaner(ctx context.Context) *cleaner {
	silent := *x.Engine
	silent.Report = nil
	c := &cleaner{x: silent.execution(x.run, x.seen), left: map[string]Left{}}
	c.ctx, c.stop = context.WithCancel(ctx)
	return c
}

// cleanUp deletes the server of a node that a failed attempt left, and then its record.
func (x *execution) cleanUp(n *resources.Node) {
	c := x.cleaner
	if c == nil {
		return
	}
	s := plan.Step{ID: "clean up node " + n.ID, Action: plan.ActionDelete, Thing: plan.ThingNode, Provider: n.Provider, Pool: n.Pool,
		Record: n.Key(), External: n.ExternalID}
	c.x.ledger.leave(c.ctx, n.Key())
	c.note(Left{Node: n.ID, Provider: n.Provider, Server: n.ExternalID}, false)
	c.work.Go(func() {
		for pause := cleanupPause; ; pause *= 2 {
			err := c.delete(s)
			c.note(Left{Node: n.ID, Provider: n.Provider, Server: n.ExternalID, Err: err}, err == nil || errors.Is(err, errChanged))
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
	ctx := c.x.ledger.claims.begin(c.ctx, s.ID)
	defer c.x.ledger.claims.end(c.ctx, s.ID)
	if c.x.ledger.claims.store != nil {
		entry, err := c.x.ledger.claims.take(ctx, s.ID, s.Record)
		if err != nil {
			return err
		}
		c.x.ledger.know(ctx, entry)
	}
	node, at := find[resources.Node](c.x.ledger, s.Record)
	switch {
	case node == nil:
		return nil
	case node.Request == "":
		return c.x.removeNode(ctx, s, node, at)
	}
	cloud, release, err := c.x.cloud(ctx, s.Provider, c.x.rememberedProvider(s.Provider))
	defer release()
	if err != nil {
		return err
	}
	return c.x.removeInstances(ctx, s, cloud, c.x.machineOf(node)) // the record tells the next plan which pool cannot serve the request
}

// note keeps what is left, or forgets it once it is gone.
func (c *cleaner) note(l Left, gone bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if gone {
		delete(c.left, l.Node)
		return
	}
	if l.Err != nil && c.ctx.Err() != nil {
		l.Err = c.left[l.Node].Err // that the run has ended is no reason
	}
	c.left[l.Node] = l
}

// end waits a moment for the deletions, stops them, and lists what is left, by node.
func (c *cleaner) end() []Left {
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
	var left []Left
	for _, l := range c.left {
		left = append(left, l)
	}
	slices.SortFunc(left, func(a, b Left) int { return cmp.Compare(a.Node, b.Node) })
	return left
}
