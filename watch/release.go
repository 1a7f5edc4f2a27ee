package watch

import (
	"context"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/npctl/npctl/resources"
)

// Release ends a hold. The node is then used: a static node becomes ready again, any other node is deleted.
func (d *Daemon) Release(ctx context.Context, id string) (*resources.Node, error) {
	return d.change(ctx, id, "released", func(n *resources.Node, now time.Time) error {
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
func (d *Daemon) DeleteNode(ctx context.Context, id, reason string, force bool) (*resources.Node, error) {
	if utf8.RuneCountInString(reason) > textAtMost {
		return nil, fmt.Errorf("%w: the reason is longer than %d characters", ErrInvalid, textAtMost)
	}
	return d.change(ctx, id, "let-go", func(n *resources.Node, now time.Time) error {
		switch n.State {
		case resources.StateUsed, resources.StateDeleting:
			return nil
		}
		if d.runner.Busy(n.Key()) {
			return fmt.Errorf("%w: a step is running on node %s, which is %s", ErrState, id, n.State)
		}
		if why := nodeUser(n); why != "" && !force {
			return fmt.Errorf("%w: node %s is %s", ErrState, id, why)
		}
		n.StateTime, n.Lease, n.Comment = now, nil, reason
		switch n.State {
		case resources.StateReady, resources.StateInUse, resources.StateHold:
			n.State = resources.StateUsed
		default:
			n.State = resources.StateDeleting
		}
		return nil
	})
}

// nodeUser describes the use that prevents the deletion of a node, or returns an empty string.
func nodeUser(n *resources.Node) string {
	switch {
	case n.State == resources.StateInUse:
		return "in use by " + orUnknown(n.Requestor)
	case n.State == resources.StateHold:
		return "held" + because(n.Comment)
	case n.Request != "":
		return "assigned to request " + n.Request
	default:
		return ""
	}
}

// Newest returns the number of the newest event, or 0 when the journal is empty.
func (j *Journal) Newest() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.next - 1
}
