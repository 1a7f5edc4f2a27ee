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
	if err := c.checkRequestLimit(); err != nil {
		return nil, err
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

// checkRequestLimit returns ErrTooManyRequests when max_requests are open. Concurrent calls may exceed the limit by
// their number.
func (c *Clients) checkRequestLimit() error {
	most := c.desired().Settings.MaxRequests
	if most == 0 || c.runner.OpenRequests() < most {
		return nil
	}
	if c.refused != nil {
		c.refused()
	}
	return fmt.Errorf("%w: max_requests allows %d", ErrTooManyRequests, most)
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
	err = RetryConflict(ctx, func() error {
		nodes, err = c.take(ctx, id, holder, lease)
		return err
	})
	return nodes, err
}

func (c *Clients) take(ctx context.Context, id, holder string, lease time.Duration) ([]*resources.Node, error) {
	r, revision, err := reconcile.Lookup[resources.Request](c.runner, resources.KindRequest, id)
	if err != nil {
		return nil, err
	}
	if r.State != resources.StateFulfilled {
		return nil, fmt.Errorf("%w: request %s is %s%s", ErrState, id, r.State, because(r.Error))
	}
	now := c.now()
	ops := []state.Op{{Key: r.Key(), Revision: revision}}
	nodes := make([]*resources.Node, len(r.Nodes))
	for i, node := range r.Nodes {
		n, at, err := reconcile.Lookup[resources.Node](c.runner, resources.KindNode, node)
		if err != nil {
			return nil, fmt.Errorf("node %s of request %s: %w", node, id, err)
		}
		n.State, n.StateTime = resources.StateInUse, now
		n.Lease = nil
		if lease > 0 {
			n.Lease = &resources.Lease{Holder: holder, Until: now.Add(lease), Seconds: int64(lease / time.Second)}
		}
		ops, nodes[i] = append(ops, state.Op{Record: n, Revision: at}), n
	}
	if _, err := c.runner.Commit(ctx, ops...); err != nil {
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
