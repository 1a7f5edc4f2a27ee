package httpapi

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/watch"
)

// requestRoutes answers the calls about requests.
type requestRoutes struct{ daemon *watch.Daemon }

func (q requestRoutes) list(_ context.Context, in *listRequests) (wire.Requests, error) {
	w := fleetOf(q.daemon)
	filter := wire.RequestFilter{States: in.State, Label: in.Label, Tenant: in.Tenant, Requestor: in.Requestor}
	chosen := slices.DeleteFunc(w.Observed.Records.Requests, func(r *resources.Request) bool { return !filter.Matches(r) })
	chosen, next := page(in.Page, chosen, func(r *resources.Request) string { return r.ID })
	view := w.RequestViews()
	list := wire.Requests{Requests: make([]wire.Request, len(chosen)), Next: next}
	for i, r := range chosen {
		list.Requests[i] = view(r)
		list.Requests[i].Data = nil
	}
	return list, nil
}

// page sorts a list by ID and returns the requested part, and the ID to continue from if more follow.
func page[T any](p Page, all []T, id func(T) string) (part []T, next string) {
	slices.SortFunc(all, func(a, b T) int { return cmp.Compare(id(a), id(b)) })
	if p.After != "" {
		i, found := slices.BinarySearchFunc(all, p.After, func(one T, key string) int { return cmp.Compare(id(one), key) })
		if found {
			i++
		}
		all = all[i:]
	}
	most := min(max(p.Limit, 1), pageAtMost)
	if len(all) > most {
		return all[:most], id(all[most-1])
	}
	return all, ""
}

// pageAtMost is the maximum length of a list.
const pageAtMost = 10000

func (q requestRoutes) create(ctx context.Context, in *createRequest) (wire.Request, error) {
	if err := checkLabels(q.daemon.Desired(), in.Body.Labels); err != nil {
		return wire.Request{}, err
	}
	r, err := q.daemon.Clients.CreateRequest(ctx, watch.NewRequest(in.Body))
	if err != nil {
		return wire.Request{}, err
	}
	callOf(ctx).w.Header().Set("Location", "/"+wire.Version+"/requests/"+r.ID)
	if in.Wait.Duration > 0 {
		return q.show(ctx, &showRequest{Named{r.ID}, in.Waiting})
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
			return invalid("add the label to a pool and reload the configuration", "no pool offers the label %s", text.Quote(label))
		}
		return invalid(didYouMean(label, offered, "GET /v1/labels lists all labels"), "there is no label %s", text.Quote(label))
	}
	return nil
}

// show returns a request once it is fulfilled or failed, or when the wait is over.
func (q requestRoutes) show(ctx context.Context, in *showRequest) (shown wire.Request, err error) {
	var r *resources.Request
	check := func() (done bool, err error) {
		r, err = q.daemon.Clients.Request(in.ID)
		return err == nil && r.IsDone(), notFoundError("request", in.ID, err)
	}
	if err := await(ctx, in.Wait.Duration, q.daemon.Journal, "request/"+in.ID, check); err != nil {
		return shown, err
	}
	shown.Request = *r
	if callOf(ctx).role < full {
		shown.Data = nil
	}
	if r.State == resources.StatePending {
		w := fleetOf(q.daemon)
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
	return notFound("it may have ended; npctl events -subject="+what+"/"+displayID(id)+" shows its events", "there is no %s %s", what, text.Quote(id))
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

func (q requestRoutes) cancel(ctx context.Context, in *Named) error {
	return notFoundError("request", in.ID, q.daemon.Clients.CancelRequest(ctx, in.ID))
}

func (q requestRoutes) take(ctx context.Context, in *with[wire.Take]) (wire.Nodes, error) {
	nodes, err := q.daemon.Clients.Take(ctx, in.ID, in.Body.Holder, time.Duration(in.Body.Lease)*time.Second)
	if err != nil {
		return wire.Nodes{}, notFoundError("request", in.ID, err)
	}
	list := wire.Nodes{Nodes: make([]wire.Node, len(nodes))}
	for i, n := range nodes {
		list.Nodes[i] = wire.Node{Node: *n}
	}
	return list, nil
}

// await returns when check reports done, the wait is over, or the daemon stops. It calls check after each event of the
// subject, and every pollEvery for changes that the journal does not report.
func await(ctx context.Context, wait time.Duration, journal *watch.Journal, subject string, check func() (done bool, err error)) error {
	hints, forget := journal.Wait()
	defer forget()
	seen := journal.Newest()
	if done, err := check(); done || err != nil || wait <= 0 {
		return err
	}
	c := callOf(ctx)
	c.allowAnswer(wait + answerTime)
	over := time.NewTimer(wait)
	defer over.Stop()
	again := time.NewTicker(pollEvery)
	defer again.Stop()
	for {
		select {
		case <-over.C:
			return nil
		case <-c.ending:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-again.C:
		case <-hints:
			newest := journal.Newest()
			news := journal.Since(seen, subject)
			if seen = newest; len(news) == 0 {
				continue
			}
		}
		if c.r.Method == http.MethodGet && c.revoked() { // a call that has changed something still gets its result
			return unauthorized(c.w)
		}
		if done, err := check(); done || err != nil {
			return err
		}
	}
}
