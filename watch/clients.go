package watch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// dataAtMost is the maximum size in bytes of the data of a request.
const dataAtMost = 64 << 10

// Errors that clients branch on, besides state.ErrNotFound and state.ErrConflict.
var (
	// ErrInvalid: the arguments are invalid in every state.
	ErrInvalid = errors.New("invalid")
	// ErrState: the request or node is in a state that does not permit the operation.
	ErrState = errors.New("not possible now")
	// ErrTooManyRequests: the limit max_requests is reached.
	ErrTooManyRequests = errors.New("too many requests are open")
)

// NewRequest holds the arguments of CreateRequest.
type NewRequest struct {
	Labels           []string        `json:"labels"`
	Priority         *int64          `json:"priority,omitempty"` // nil means 200
	RelativePriority int64           `json:"relative_priority,omitempty"`
	Requestor        string          `json:"requestor,omitempty"`
	Tenant           string          `json:"tenant,omitempty"`
	EventID          string          `json:"event_id,omitempty"`
	Provider         string          `json:"provider,omitempty"`
	Data             json.RawMessage `json:"data,omitempty"`
	Deadline         time.Time       `json:"deadline,omitzero"`
	Fresh            bool            `json:"fresh,omitempty"`
}

// defaultPriority is the priority of a request that specifies none.
const defaultPriority = 200

// Clients executes the calls of clients that create requests and use nodes. It changes records only; passes execute the
// consequences.
type Clients struct {
	runner          *reconcile.Runner
	journal         *Journal
	desired         func() resources.Desired
	now             func() time.Time
	requestorPrefix string                                      // added to the requestor of a new request
	taken           func(*resources.Request, []*resources.Node) // may be nil
	refused         func()                                      // may be nil
}

// CreateRequest creates a request for nodes, whose arguments are valid by the schema of the API. It returns ErrInvalid or ErrTooManyRequests when it refuses the request.
func (c *Clients) CreateRequest(ctx context.Context, n NewRequest) (*resources.Request, error) {
	now := c.now()
	switch {
	case len(n.Data) > dataAtMost:
		return nil, fmt.Errorf("%w: data has %d bytes; at most %d are allowed", ErrInvalid, len(n.Data), dataAtMost)
	case !n.Deadline.IsZero() && n.Deadline.Before(now):
		return nil, fmt.Errorf("%w: the deadline %s has passed", ErrInvalid, n.Deadline.Format(time.RFC3339))
	}
	if most := c.desired().Settings.MaxRequests; most != 0 && c.runner.OpenRequests() >= most { // concurrent calls may exceed the limit by their number
		if c.refused != nil {
			c.refused()
		}
		return nil, fmt.Errorf("%w: max_requests allows %d", ErrTooManyRequests, most)
	}
	priority := int64(defaultPriority)
	if n.Priority != nil {
		priority = *n.Priority
	}
	r := &resources.Request{State: resources.StateRequested, StateTime: now, Created: now, Labels: n.Labels, Priority: priority,
		RelativePriority: n.RelativePriority, Requestor: c.requestorPrefix + n.Requestor, Tenant: n.Tenant, EventID: n.EventID, Provider: n.Provider, Data: n.Data, Deadline: n.Deadline, Fresh: n.Fresh}
	entries, err := c.runner.Commit(ctx, state.Op{Record: r})
	if err != nil {
		return nil, err
	}
	created := entries[0].Record.(*resources.Request)
	c.journal.Add(resources.Event{Time: now, Subject: created.Key().String(), EventID: created.EventID, Code: "created", Related: labelSubjects(n.Labels),
		Text: fmt.Sprintf("request for %v by %s", n.Labels, cmp.Or(n.Requestor, unnamed))})
	return created, nil
}

func labelSubjects(labels []string) []string {
	var subjects []string
	for _, label := range labels {
		if subject := "label/" + label; !slices.Contains(subjects, subject) {
			subjects = append(subjects, subject)
		}
	}
	return subjects
}

// unnamed stands for a client without a name.
const unnamed = "an unnamed client"

// Request returns a request.
func (c *Clients) Request(id string) (*resources.Request, error) {
	r, _, err := reconcile.Lookup[resources.Request](c.runner, resources.KindRequest, id)
	return r, err
}

// Node returns a node.
func (c *Clients) Node(id string) (*resources.Node, error) {
	n, _, err := reconcile.Lookup[resources.Node](c.runner, resources.KindNode, id)
	return n, err
}

// CancelRequest deletes a request. Its nodes become unassigned.
func (c *Clients) CancelRequest(ctx context.Context, id string) error {
	return RetryConflict(ctx, func() error {
		r, revision, err := reconcile.Lookup[resources.Request](c.runner, resources.KindRequest, id)
		if err != nil {
			return err
		}
		_, err = c.runner.Commit(ctx, state.Op{Key: r.Key(), Revision: revision})
		if err == nil {
			c.journal.Add(resources.Event{Time: c.now(), Subject: r.Key().String(), EventID: r.EventID, Code: "cancelled", Text: "cancelled while " + string(r.State)})
		}
		return err
	})
}

// Take hands the nodes of a fulfilled request to its requestor and deletes the request. With a lease, the nodes return
// automatically when the holder stops renewing it.
func (c *Clients) Take(ctx context.Context, id, holder string, lease time.Duration) (nodes []*resources.Node, err error) {
	var r *resources.Request
	var now time.Time
	err = RetryConflict(ctx, func() error {
		var revision state.Revision
		if r, revision, err = reconcile.Lookup[resources.Request](c.runner, resources.KindRequest, id); err != nil {
			return err
		}
		if r.State != resources.StateFulfilled {
			return fmt.Errorf("%w: request %s is %s%s", ErrState, id, r.State, because(r.Error))
		}
		now = c.now()
		ops := []state.Op{{Key: r.Key(), Revision: revision}}
		nodes = make([]*resources.Node, len(r.Nodes))
		for i, node := range r.Nodes {
			n, at, err := reconcile.Lookup[resources.Node](c.runner, resources.KindNode, node)
			if err != nil {
				return fmt.Errorf("node %s of request %s: %w", node, id, err)
			}
			n.State, n.StateTime = resources.StateInUse, now
			n.Lease = nil
			if lease > 0 {
				n.Lease = &resources.Lease{Holder: holder, Until: now.Add(lease), Seconds: int64(lease / time.Second)}
			}
			ops, nodes[i] = append(ops, state.Op{Record: n, Revision: at}), n
		}
		_, err := c.runner.Commit(ctx, ops...)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, n := range nodes {
		c.journal.Add(resources.Event{Time: now, Subject: n.Key().String(), Related: []string{r.Key().String()}, EventID: r.EventID, Code: "taken",
			Text: "taken by " + cmp.Or(holder, unnamed)})
	}
	if c.taken != nil {
		c.taken(r, nodes)
	}
	return nodes, nil
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

// Access returns the credentials with which jobs connect to a node in use or on hold, as JSON. With a lease, only its
// holder gets them.
func (c *Clients) Access(ctx context.Context, id, holder string) (*resources.Node, string, error) {
	n, _, err := reconcile.Lookup[resources.Node](c.runner, resources.KindNode, id)
	switch {
	case err != nil:
		return nil, "", err
	case !n.State.IsInService():
		return nil, "", fmt.Errorf("%w: node %s is %s; take it first", ErrState, id, n.State)
	case n.Lease != nil && n.Lease.Holder != holder:
		return nil, "", fmt.Errorf("%w: the lease of node %s is held by %q", ErrState, id, n.Lease.Holder)
	}
	credentials, err := c.runner.Access(ctx, n)
	if err != nil {
		return nil, "", fmt.Errorf("%w: %w", ErrState, err)
	}
	return n, credentials, nil
}

// RetryConflict calls try again, up to ten times in total, while a record has changed concurrently. The growing pauses
// let that change reach this process.
func RetryConflict(ctx context.Context, try func() error) (err error) {
	for pause := time.Millisecond; pause < time.Second; pause *= 2 {
		if err = try(); !errors.Is(err, state.ErrConflict) || !sleep(ctx, pause) {
			return err
		}
	}
	return err
}

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
		if n.State == resources.StateHold && reason == "" { // a hold with another end
			reason = n.Comment
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
