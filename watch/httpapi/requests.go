package httpapi

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/watch"
	"github.com/npctl/npctl/watch/httpapi/wire"
)

// requestRoutes answers the calls about requests.
type requestRoutes struct{ daemon *watch.Daemon }

// records returns the current records and the keys of the busy ones.
func (s *Server) records() (plan.Records, map[resources.Key]bool) { return s.daemon.Runner().Records() }

func (q requestRoutes) list(c *call) (any, error) {
	states, err := c.states(resources.KindRequest)
	if err != nil {
		return nil, err
	}
	w := nodeRoutes{q.daemon}.fleet()
	filter := wire.RequestFilter{States: states, Label: c.values.Get("label"), Tenant: c.values.Get("tenant"), Requestor: c.values.Get("requestor")}
	chosen := slices.DeleteFunc(w.Observed.Records.Requests, func(r *resources.Request) bool { return !filter.Matches(r) })
	chosen, next := page(c, chosen, func(r *resources.Request) string { return r.ID })
	view := w.RequestViews()
	list := wire.Requests{Requests: make([]wire.Request, len(chosen)), Next: next}
	for i, r := range chosen {
		list.Requests[i] = view(r)
		list.Requests[i].Data = nil
	}
	return list, nil
}

// page sorts a list by ID and returns the requested part, and the ID to continue from if more follow.
func page[T any](c *call, all []T, id func(T) string) (part []T, next string) {
	slices.SortFunc(all, func(a, b T) int { return cmp.Compare(id(a), id(b)) })
	if after := c.values.Get("after"); after != "" {
		i, found := slices.BinarySearchFunc(all, after, func(one T, key string) int { return cmp.Compare(id(one), key) })
		if found {
			i++
		}
		all = all[i:]
	}
	most := min(max(c.number("limit", pageSize), 1), pageAtMost)
	if len(all) > most {
		return all[:most], id(all[most-1])
	}
	return all, ""
}

const (
	pageSize   = 1000
	pageAtMost = 10000
)

func (q requestRoutes) create(c *call) (any, error) {
	asked, err := body[wire.NewRequest](c)
	if err != nil {
		return nil, err
	}
	if err := checkLabels(q.daemon.Desired(), asked.Labels); err != nil {
		return nil, err
	}
	r, err := q.daemon.Clients.CreateRequest(c.ctx(), watch.NewRequest(asked))
	if err != nil {
		return nil, err
	}
	c.w.Header().Set("Location", "/"+wire.Version+"/requests/"+r.ID)
	if c.wait() > 0 {
		return q.answered(c, r.ID)
	}
	return wire.Request{Request: *r}, nil
}

// checkLabels rejects labels that no pool offers, with the nearest offered label as a hint.
func checkLabels(want resources.Desired, labels []string) error {
	declared, offered := inspect.KnownLabels(want), inspect.OfferedLabels(want)
	for _, label := range labels {
		if label == "" || slices.Contains(offered, label) {
			continue
		}
		if slices.Contains(declared, label) {
			return withHint(invalid("no pool offers the label %s", quoted(label)), "add the label to a pool and reload the configuration")
		}
		f := invalid("there is no label %s", quoted(label))
		f.hint = "GET /v1/labels lists all labels"
		if near := text.Nearest(label, offered); near != "" {
			f.hint = "did you mean " + quoted(near) + "?"
		}
		return f
	}
	return nil
}

func (q requestRoutes) show(c *call) (any, error) { return q.answered(c, c.id()) }

// answered returns a request once it is fulfilled or failed, or when the wait is over.
func (q requestRoutes) answered(c *call, id string) (any, error) {
	var r *resources.Request
	check := func() (done bool, err error) {
		r, err = q.daemon.Clients.Request(id)
		return err == nil && r.IsDone(), notFoundError("request", id, err)
	}
	if err := c.await(q.daemon.Journal, "request/"+id, check); err != nil {
		return nil, err
	}
	shown := wire.Request{Request: *r}
	if c.role < full {
		shown.Data = nil
	}
	if r.State == resources.StatePending {
		w := nodeRoutes{q.daemon}.fleet()
		shown.Assigned = w.RequestViews()(r).Assigned
	}
	return shown, nil
}

// notFoundError converts state.ErrNotFound into an error that names the object as the caller did. It returns other
// errors unchanged.
func notFoundError(what, id string, err error) error {
	if !errors.Is(err, state.ErrNotFound) {
		return err
	}
	return withHint(notFound("there is no %s %s", what, quoted(id)), "it may have ended; npctl events -subject="+what+"/"+displayID(id)+" shows its events")
}

// displayID returns an ID for use in a command that people copy, or "ID" if it has characters that the shell could
// interpret.
func displayID(id string) string {
	for _, r := range id {
		if r != '-' && r != '_' && r != '.' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') {
			return "ID"
		}
	}
	return id[:min(len(id), reflectAtMost)]
}

func (q requestRoutes) cancel(c *call) (any, error) {
	return nil, notFoundError("request", c.id(), q.daemon.Clients.CancelRequest(c.ctx(), c.id()))
}

func (q requestRoutes) take(c *call) (any, error) {
	how, err := body[wire.Take](c)
	if err != nil {
		return nil, err
	}
	if how.Lease < 0 || how.Lease > int64(365*24*time.Hour/time.Second) {
		return nil, invalid("lease_seconds %d is out of range", how.Lease)
	}
	nodes, err := q.daemon.Clients.Take(c.ctx(), c.id(), how.Holder, time.Duration(how.Lease)*time.Second)
	if err != nil {
		return nil, notFoundError("request", c.id(), err)
	}
	list := wire.Nodes{Nodes: make([]wire.Node, len(nodes))}
	for i, n := range nodes {
		list.Nodes[i] = wire.Node{Node: *n}
	}
	return list, nil
}
