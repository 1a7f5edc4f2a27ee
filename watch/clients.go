package watch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// Limits of what clients may ask for.
const (
	labelsAtMost = 100
	dataAtMost   = 64 << 10
	textAtMost   = 1024
	leaseAtLeast = 5 * time.Second
	leaseAtMost  = 24 * time.Hour
)

// Errors that clients branch on, besides state.ErrNotFound and state.ErrConflict.
var (
	// ErrInvalid: what was asked for makes no sense, whatever the state of things.
	ErrInvalid = errors.New("invalid")
	// ErrState: a request or node is not in a state in which that can be done.
	ErrState = errors.New("not possible now")
	// ErrTooManyRequests: max_requests are open.
	ErrTooManyRequests = errors.New("too many requests are open")
)

// NewRequest is what a client asks for.
type NewRequest struct {
	Labels   []string        `json:"labels"`
	Priority *int64          `json:"priority,omitempty"` // nil means 200
	Relative int64           `json:"relative_priority,omitempty"`
	Who      string          `json:"requestor,omitempty"`
	Tenant   string          `json:"tenant,omitempty"`
	Event    string          `json:"event_id,omitempty"`
	Provider string          `json:"provider,omitempty"`
	Data     json.RawMessage `json:"data,omitempty"`
	Deadline time.Time       `json:"deadline,omitzero"`
	Fresh    bool            `json:"fresh,omitempty"`
}

// defaultPriority is that of a request which does not say.
const defaultPriority = 200

// CreateRequest asks for nodes.
func (d *Daemon) CreateRequest(ctx context.Context, n NewRequest) (*resources.Request, error) {
	now := d.Engine.Now()
	switch {
	case len(n.Labels) == 0:
		return nil, fmt.Errorf("%w: no label is asked for", ErrInvalid)
	case len(n.Labels) > labelsAtMost:
		return nil, fmt.Errorf("%w: %d labels are asked for, at most %d can be", ErrInvalid, len(n.Labels), labelsAtMost)
	case slices.Contains(n.Labels, ""):
		return nil, fmt.Errorf("%w: a label has no name", ErrInvalid)
	case len(n.Data) > dataAtMost:
		return nil, fmt.Errorf("%w: data has %d bytes, at most %d are kept", ErrInvalid, len(n.Data), dataAtMost)
	case len(n.Data) > 0 && !json.Valid(n.Data):
		return nil, fmt.Errorf("%w: data is not JSON", ErrInvalid)
	case n.Priority != nil && (*n.Priority < 1 || *n.Priority > 999):
		return nil, fmt.Errorf("%w: priority %d is not from 1 to 999", ErrInvalid, *n.Priority)
	case !n.Deadline.IsZero() && n.Deadline.Before(now):
		return nil, fmt.Errorf("%w: the deadline %s has passed", ErrInvalid, n.Deadline.Format(time.RFC3339))
	}
	for _, text := range append([]string{n.Who, n.Tenant, n.Event, n.Provider}, n.Labels...) {
		if count := utf8.RuneCountInString(text); count > textAtMost {
			return nil, fmt.Errorf("%w: a text has %d characters, at most %d are kept", ErrInvalid, count, textAtMost)
		}
	}
	if err := d.checkRequestLimit(); err != nil {
		return nil, err
	}
	priority := int64(defaultPriority)
	if n.Priority != nil {
		priority = *n.Priority
	}
	r := &resources.Request{State: resources.StateRequested, StateTime: now, Created: now, Labels: n.Labels, Priority: priority,
		Relative: n.Relative, Who: d.requestor(n.Who), Tenant: n.Tenant, Event: n.Event, Provider: n.Provider, Data: n.Data, Deadline: n.Deadline, Fresh: n.Fresh}
	entries, err := d.runner.Commit(ctx, state.Op{Record: r})
	if err != nil {
		return nil, err
	}
	created := entries[0].Record.(*resources.Request)
	d.Journal.Add(resources.Event{Time: now, Subject: created.Key().String(), EventID: created.Event, Code: "created", Related: labelSubjects(n.Labels),
		Text: fmt.Sprintf("request for %v by %s", n.Labels, orNobody(n.Who))})
	return created, nil
}

// checkRequestLimit refuses a request above max_requests. Calls at the same moment may exceed it by their number.
func (d *Daemon) checkRequestLimit() error {
	most := d.Desired().Settings.MaxRequests
	if most == 0 || d.runner.OpenRequests() < most {
		return nil
	}
	if d.RequestRefused != nil {
		d.RequestRefused()
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

func orNobody(who string) string {
	if who == "" {
		return "nobody named"
	}
	return who
}

// Request returns a request.
func (d *Daemon) Request(id string) (*resources.Request, error) {
	r, _, err := reconcile.Lookup[resources.Request](d.runner, resources.KindRequest, id)
	return r, err
}

// Node returns a node.
func (d *Daemon) Node(id string) (*resources.Node, error) {
	n, _, err := reconcile.Lookup[resources.Node](d.runner, resources.KindNode, id)
	return n, err
}

// CancelRequest withdraws a request. Its nodes are free again.
func (d *Daemon) CancelRequest(ctx context.Context, id string) error {
	return Again(ctx, func() error {
		r, revision, err := reconcile.Lookup[resources.Request](d.runner, resources.KindRequest, id)
		if err != nil {
			return err
		}
		_, err = d.runner.Commit(ctx, state.Op{Key: r.Key(), Revision: revision})
		if err == nil {
			d.Journal.Add(resources.Event{Time: d.Engine.Now(), Subject: r.Key().String(), EventID: r.Event, Code: "cancelled", Text: "cancelled while " + string(r.State)})
		}
		return err
	})
}

// Take hands the nodes of a fulfilled request to its requestor and ends the request. With a lease, which its holder has to
// renew, they come back by themselves when the holder vanishes.
func (d *Daemon) Take(ctx context.Context, id, holder string, lease time.Duration) (nodes []*resources.Node, err error) {
	if err := checkLease(holder, lease); err != nil {
		return nil, err
	}
	err = Again(ctx, func() error {
		nodes, err = d.take(ctx, id, holder, lease)
		return err
	})
	return nodes, err
}

func checkLease(holder string, lease time.Duration) error {
	switch {
	case utf8.RuneCountInString(holder) > textAtMost:
		return fmt.Errorf("%w: the holder's name is longer than %d characters", ErrInvalid, textAtMost)
	case lease != 0 && (lease < leaseAtLeast || lease > leaseAtMost):
		return fmt.Errorf("%w: a lease of %s is not between %s and %s", ErrInvalid, lease, leaseAtLeast, leaseAtMost)
	}
	return nil
}

func (d *Daemon) take(ctx context.Context, id, holder string, lease time.Duration) ([]*resources.Node, error) {
	r, revision, err := reconcile.Lookup[resources.Request](d.runner, resources.KindRequest, id)
	if err != nil {
		return nil, err
	}
	if r.State != resources.StateFulfilled {
		return nil, fmt.Errorf("%w: request %s is %s%s", ErrState, id, r.State, because(r.Error))
	}
	now := d.Engine.Now()
	ops := []state.Op{{Key: r.Key(), Revision: revision}}
	nodes := make([]*resources.Node, len(r.Nodes))
	for i, node := range r.Nodes {
		n, at, err := reconcile.Lookup[resources.Node](d.runner, resources.KindNode, node)
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
	if _, err := d.runner.Commit(ctx, ops...); err != nil {
		return nil, err
	}
	for _, n := range nodes {
		d.Journal.Add(resources.Event{Time: now, Subject: n.Key().String(), Related: []string{r.Key().String()}, EventID: r.Event, Code: "taken",
			Text: "taken by " + orNobody(holder)})
	}
	if d.Taken != nil {
		d.Taken(r, nodes)
	}
	return nodes, nil
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

// Renew prolongs the lease of a node in use.
func (d *Daemon) Renew(ctx context.Context, id, holder string) (*resources.Node, error) {
	return d.change(ctx, id, "", func(n *resources.Node, now time.Time) error {
		if n.State != resources.StateInUse || n.Lease == nil {
			return fmt.Errorf("%w: node %s is %s and under no lease", ErrState, id, n.State)
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

// Return gives a node back after use. A static node is ready again afterwards, any other is deleted. It may be repeated: a
// static node that is ready is checked once more. Another node that is ready was not used, and stays.
func (d *Daemon) Return(ctx context.Context, id string) (*resources.Node, error) {
	return d.change(ctx, id, "returned", func(n *resources.Node, now time.Time) error {
		switch {
		case n.State == resources.StateReady && !n.Static:
			return fmt.Errorf("%w: node %s is ready and was not used", ErrState, id)
		case n.State == resources.StateReady, n.State == resources.StateInUse, n.State == resources.StateHold:
			n.State, n.StateTime, n.Lease = resources.StateUsed, now, nil
			return nil
		case n.State == resources.StateUsed, n.State == resources.StateDeleting:
			return nil
		default:
			return fmt.Errorf("%w: node %s is %s", ErrState, id, n.State)
		}
	})
}

// Hold keeps a node for a person to look at, until a time or, when that is zero, for as long as max_hold_age allows.
func (d *Daemon) Hold(ctx context.Context, id, reason string, until time.Time) (*resources.Node, error) {
	if utf8.RuneCountInString(reason) > textAtMost {
		return nil, fmt.Errorf("%w: the reason is longer than %d characters", ErrInvalid, textAtMost)
	}
	return d.change(ctx, id, "held", func(n *resources.Node, now time.Time) error {
		if n.State != resources.StateReady && n.State != resources.StateInUse && n.State != resources.StateHold {
			return fmt.Errorf("%w: node %s is %s", ErrState, id, n.State)
		}
		if n.State == resources.StateReady && n.Request != "" {
			return fmt.Errorf("%w: node %s belongs to request %s", ErrState, id, n.Request)
		}
		if n.State != resources.StateHold {
			n.StateTime = now
		}
		n.State, n.Lease, n.Comment, n.HoldUntil = resources.StateHold, nil, reason, until
		return nil
	})
}

// change changes a node that no step works on.
func (d *Daemon) change(ctx context.Context, id, code string, change func(*resources.Node, time.Time) error) (node *resources.Node, err error) {
	err = Again(ctx, func() error {
		n, revision, err := reconcile.Lookup[resources.Node](d.runner, resources.KindNode, id)
		if err != nil {
			return err
		}
		now := d.Engine.Now()
		if err := change(n, now); err != nil {
			return err
		}
		entries, err := d.runner.Commit(ctx, state.Op{Record: n, Revision: revision})
		if err != nil {
			return err
		}
		node = entries[0].Record.(*resources.Node)
		if code != "" {
			text := code
			if n.Comment != "" && code == "held" {
				text += ": " + n.Comment
			}
			d.Journal.Add(resources.Event{Time: now, Subject: n.Key().String(), Code: code, Text: text, Related: labelSubjects(n.Labels)})
		}
		return nil
	})
	return node, err
}

// Again tries once more, a few times, when a record has changed meanwhile, with a pause for that change to be known here.
func Again(ctx context.Context, try func() error) (err error) {
	for pause := time.Millisecond; pause < time.Second; pause *= 2 {
		if err = try(); !errors.Is(err, state.ErrConflict) || !sleep(ctx, pause) {
			return err
		}
	}
	return err
}
