package watch

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// Renew extends the lease of a node in use.
func (c *Clients) Renew(ctx context.Context, id, holder string) (*resources.Node, error) {
	return c.change(ctx, id, "", func(n *resources.Node, now time.Time) error {
		if n.State != resources.StateInUse || n.Lease == nil {
			return fmt.Errorf("%w: node %s is %s and has no lease", ErrState, id, n.State)
		}
		if n.Lease.Holder != holder {
			return fmt.Errorf("%w: the lease of node %s is held by %q", ErrState, id, n.Lease.Holder)
		}
		lease := *n.Lease
		lease.Until = now.Add(time.Duration(lease.Seconds) * time.Second)
		n.Lease = &lease
		return nil
	})
}

// Return gives a node back after use. A static node becomes ready again, any other node is deleted. Return may be
// repeated: a static node that is ready is checked again. Any other ready node was not used, and Return refuses it with
// ErrState.
func (c *Clients) Return(ctx context.Context, id string) (*resources.Node, error) {
	return c.change(ctx, id, "returned", func(n *resources.Node, now time.Time) error {
		switch {
		case n.State == resources.StateReady && !n.Static:
			return fmt.Errorf("%w: node %s is ready and was not used", ErrState, id)
		case n.State == resources.StateReady, n.State.IsInService():
			n.State, n.StateTime, n.Lease = resources.StateUsed, now, nil
			return nil
		case n.State == resources.StateUsed, n.State == resources.StateDeleting:
			return nil
		default:
			return fmt.Errorf("%w: node %s is %s", ErrState, id, n.State)
		}
	})
}

// Hold keeps a node for debugging until the given time. The zero time means until max_hold_age has passed.
func (c *Clients) Hold(ctx context.Context, id, reason string, until time.Time) (*resources.Node, error) {
	return c.change(ctx, id, "held", func(n *resources.Node, now time.Time) error {
		if n.State != resources.StateReady && !n.State.IsInService() {
			return fmt.Errorf("%w: node %s is %s", ErrState, id, n.State)
		}
		if n.State == resources.StateReady && n.Request != "" {
			return fmt.Errorf("%w: node %s is assigned to request %s", ErrState, id, n.Request)
		}
		if n.State != resources.StateHold {
			n.StateTime = now
		}
		n.State, n.Lease, n.Comment, n.HoldUntil = resources.StateHold, nil, reason, until
		return nil
	})
}

// deletedCode is the code of the event of DeleteNode.
const deletedCode = "let-go"

// change applies a change to a node record. The callback refuses the states in which a step works on the node.
func (c *Clients) change(ctx context.Context, id, code string, change func(*resources.Node, time.Time) error) (node *resources.Node, err error) {
	err = RetryConflict(ctx, func() error {
		n, revision, err := reconcile.Lookup[resources.Node](c.runner, resources.KindNode, id)
		if err != nil {
			return err
		}
		now := c.now()
		if err := change(n, now); err != nil {
			return err
		}
		entries, err := c.runner.Commit(ctx, state.Op{Record: n, Revision: revision})
		if err != nil {
			return err
		}
		node = entries[0].Record.(*resources.Node)
		if code != "" {
			text := code
			switch {
			case code == deletedCode:
				text = "deleted by a client"
			case n.Comment != "" && code == "held":
				text += ": " + n.Comment
			}
			c.journal.Add(resources.Event{Time: now, Subject: n.Key().String(), Code: code, Text: text, Related: labelSubjects(n.Labels)})
		}
		return nil
	})
	return node, err
}

// Release ends a hold. The node is then used: a static node becomes ready again, any other node is deleted.
func (c *Clients) Release(ctx context.Context, id string) (*resources.Node, error) {
	return c.change(ctx, id, "released", func(n *resources.Node, now time.Time) error {
		if n.State != resources.StateHold {
			return fmt.Errorf("%w: node %s is %s and not held", ErrState, id, n.State)
		}
		n.State, n.StateTime, n.HoldUntil = resources.StateUsed, now, time.Time{}
		return nil
	})
}

// DeleteNode marks a node for deletion; a static node is checked and becomes ready again. A node that is in use, held
// or assigned to a request requires force. DeleteNode refuses a node that a step works on, because the step would
// continue.
func (c *Clients) DeleteNode(ctx context.Context, id, reason string, force bool) (*resources.Node, error) {
	return c.change(ctx, id, deletedCode, func(n *resources.Node, now time.Time) error {
		switch n.State {
		case resources.StateUsed, resources.StateDeleting:
			return nil
		}
		if c.runner.Busy(n.Key()) {
			return fmt.Errorf("%w: a step is running on node %s, which is %s", ErrState, id, n.State)
		}
		if why := nodeUser(n); why != "" && !force {
			return fmt.Errorf("%w: node %s is %s", ErrState, id, why)
		}
		n.StateTime, n.Lease, n.Comment = now, nil, reason
		if n.State == resources.StateReady || n.State.IsInService() {
			n.State = resources.StateUsed
		} else {
			n.State = resources.StateDeleting
		}
		return nil
	})
}

// nodeUser describes the use that prevents the deletion of a node, or returns an empty string.
func nodeUser(n *resources.Node) string {
	switch {
	case n.State == resources.StateInUse:
		return "in use by " + cmp.Or(n.Requestor, unnamed)
	case n.State == resources.StateHold:
		return "held" + because(n.Comment)
	case n.Request != "":
		return "assigned to request " + n.Request
	default:
		return ""
	}
}
