//go:build integration

package watch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/watch/httpapi/client"
)

// chaosLease is how long a node stays assigned without a renewal.
const chaosLease = 6 * time.Second

// chaosUser requests nodes repeatedly, as a CI system does while its daemon crashes: it repeats every call until the
// daemon answers, and queries the result of a call after its answer was lost.
type chaosUser struct {
	*chaos
	name   string
	random *rand.Rand
	asked  int
}

// retry repeats a call until a daemon answers. lost reports that an answer was lost, so that the call may have taken
// effect twice.
func (u *chaosUser) retry(call func(context.Context) error) (lost bool, err error) {
	for {
		ctx, cancel := context.WithTimeout(u.over, 10*time.Second)
		err := call(ctx)
		cancel()
		var no *client.Error
		if err == nil || errors.As(err, &no) && no.Status < http.StatusInternalServerError && no.Code != wire.CodeConflict || u.over.Err() != nil {
			return lost, err
		}
		lost = lost || !errors.Is(err, client.ErrNoDaemon) && no == nil
		u.pause(30 * time.Millisecond)
	}
}

func (u *chaosUser) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-u.over.Done():
	}
}

// upTo returns a random duration up to most.
func (u *chaosUser) upTo(most time.Duration) time.Duration {
	return time.Duration(u.random.Int64N(int64(most)))
}

// work makes requests until ctx is done, and completes its last request.
func (u *chaosUser) work(ctx context.Context) {
	for ctx.Err() == nil && u.over.Err() == nil {
		wanted := u.randomRequest()
		id := u.ask(wanted)
		if id == "" && wanted.Labels[0] != "nothing" {
			return
		}
		if id == "" { // the request was refused
			u.pause(u.upTo(300 * time.Millisecond))
			continue
		}
		var patience time.Duration
		if u.random.IntN(5) == 0 {
			patience = u.upTo(3 * time.Second)
		}
		u.follow(id, wanted, patience)
		u.pause(u.upTo(300 * time.Millisecond))
	}
}

// randomRequest returns a random request.
func (u *chaosUser) randomRequest() wire.NewRequest {
	shapes := [][]string{{"small"}, {"small"}, {"small"}, {"small", "small"}, {"large"}, {"large", "small"}, {"small", "small", "small", "small"},
		{"volume"}, {"volume", "small"}, {"small", "small", "small"}, {"metal"}, {"metal", "metal"}, {"nothing"}}
	u.asked++
	w := wire.NewRequest{Labels: shapes[u.random.IntN(len(shapes))], Requestor: u.name, EventID: fmt.Sprintf("%s-%d", u.name, u.asked),
		Priority: new(int64(100 * (1 + u.random.IntN(3)))), RelativePriority: int64(u.random.IntN(3)), Fresh: u.random.IntN(8) == 0}
	if u.random.IntN(3) == 0 && len(w.Labels) <= 2 {
		w.Tenant = chaosTenant
	}
	if w.Labels[0] == "metal" {
		w.Fresh = false // static machines are never fresh
	}
	return w
}

// ask creates one request, even if the answer is lost, and returns its ID.
func (u *chaosUser) ask(wanted wire.NewRequest) (id string) {
	for {
		var made wire.Request
		lost := false
		_, err := u.retry(func(ctx context.Context) (err error) {
			if lost {
				return nil
			}
			made, err = u.CreateRequest(ctx, wanted)
			var no *client.Error
			lost = err != nil && !errors.As(err, &no) && !errors.Is(err, client.ErrNoDaemon)
			return err
		})
		switch {
		case wanted.Labels[0] == "nothing" && client.IsCode(err, wire.CodeInvalid):
			u.count("refused") // no pool offers the label
			return ""
		case err != nil:
			u.reportOnce("%s could not ask for %v: %v", u.name, wanted.Labels, err)
			return ""
		case !lost:
			u.count("asked")
			return made.ID
		}
		if id := u.findRequest(wanted.EventID); id != "" {
			u.count("asked")
			u.count("requested, answer lost")
			return id
		}
	}
}

// findRequest finds the request of an event ID.
func (u *chaosUser) findRequest(event string) string {
	var known []wire.Request
	if _, err := u.retry(func(ctx context.Context) (err error) {
		known, err = u.Requests(ctx, wire.RequestFilter{Requestor: u.name})
		return err
	}); err != nil {
		u.reportOnce("%s cannot list its requests: %v", u.name, err)
	}
	i := slices.IndexFunc(known, func(r wire.Request) bool { return r.EventID == event })
	if i < 0 {
		return ""
	}
	return known[i].ID
}

var errImpatient = errors.New("it takes too long")

// wait waits for the answer to a request, indefinitely unless patience is limited.
func (u *chaosUser) wait(id string, patience time.Duration) (r wire.Request, err error) {
	for asked := time.Now(); ; u.pause(30 * time.Millisecond) {
		limit := 5 * time.Second
		if patience > 0 {
			if limit = min(limit, patience-time.Since(asked)); limit <= 0 {
				return r, errImpatient
			}
		}
		ctx, cancel := context.WithTimeout(u.over, limit)
		r, err = u.WaitRequest(ctx, id)
		cancel()
		var no *client.Error
		if err == nil || errors.As(err, &no) && no.Status < http.StatusInternalServerError || u.over.Err() != nil {
			return r, err
		}
	}
}

// follow handles a request until its end.
func (u *chaosUser) follow(id string, wanted wire.NewRequest, patience time.Duration) {
	began := time.Now()
	r, err := u.wait(id, patience)
	switch {
	case errors.Is(err, errImpatient):
		u.cancel(id)
	case u.over.Err() != nil:
		u.reportOnce("request %s for %v has no answer after %s%s", id, wanted.Labels, time.Since(began).Round(time.Second), u.why("request/"+id))
	case err != nil:
		u.reportOnce("request %s for %v: %v", id, wanted.Labels, err)
	case r.State == resources.StateFailed:
		u.checkFailure(r)
	default:
		u.waited(time.Since(began))
		u.take(r)
	}
}

func (u *chaosUser) cancel(id string) {
	lost, err := u.retry(func(ctx context.Context) error { return u.CancelRequest(ctx, id) })
	if err != nil && (!lost || !errors.Is(err, state.ErrNotFound)) {
		u.reportOnce("request %s cannot be cancelled: %v", id, err)
	}
	u.count("cancelled")
}

// take takes the nodes of a request.
func (u *chaosUser) take(r wire.Request) {
	lease := chaosLease * time.Duration(u.random.IntN(2))
	var nodes []wire.Node
	lost, err := u.retry(func(ctx context.Context) (err error) {
		nodes, err = u.TakeRequest(ctx, r.ID, u.name, lease)
		return err
	})
	if lost && errors.Is(err, state.ErrNotFound) { // the call took effect and its answer was lost
		if nodes = u.takenNodes(r); nodes == nil && lease > 0 {
			u.count("taken, lease expired before the answer was found")
			return
		}
		err = nil
	}
	if err != nil || len(nodes) != len(r.Labels) {
		u.reportOnce("nodes of request %s for %v cannot be taken: %v, %v", r.ID, r.Labels, nodes, err)
		return
	}
	u.count("served")
	u.checkNodes(r, nodes)
	uses := make([]*nodeUse, len(nodes))
	for i, n := range nodes {
		uses[i] = u.recordStart(n, u.name)
	}
	u.use(uses, lease)
}

// takenNodes returns the nodes of a take call when its answer was lost, in the order of the request.
func (u *chaosUser) takenNodes(r wire.Request) (nodes []wire.Node) {
	for _, id := range r.Nodes {
		var n wire.Node
		if _, err := u.retry(func(ctx context.Context) (err error) { n, err = u.Node(ctx, id); return err }); err != nil ||
			n.State != resources.StateInUse || n.Request != r.ID {
			return nil
		}
		nodes = append(nodes, n)
	}
	u.count("taken, answer lost")
	return nodes
}

// checkNodes checks that the nodes match the request.
func (u *chaosUser) checkNodes(r wire.Request, nodes []wire.Node) {
	for i, n := range nodes {
		first := nodes[0]
		switch {
		case !slices.Contains(n.Labels, r.Labels[i]):
			u.reportOnce("request %s: node %s has the labels %v and is assigned for %s", r.ID, n.ID, n.Labels, r.Labels[i])
		case n.Provider != first.Provider || n.Pool != first.Pool || n.Zone != first.Zone:
			u.reportOnce("request %s: nodes %s (%s/%s/%s) and %s (%s/%s/%s) are not in one place", r.ID, first.ID, first.Provider, first.Pool, first.Zone,
				n.ID, n.Provider, n.Pool, n.Zone)
		case n.State != resources.StateInUse:
			u.reportOnce("request %s: node %s is %s when it is assigned", r.ID, n.ID, n.State)
		}
	}
}

// use uses nodes for a while, and ends the use as users do.
func (u *chaosUser) use(uses []*nodeUse, lease time.Duration) {
	sure := make([]time.Time, len(uses)) // until then each node belongs to the user, unless the user returns it
	for i, use := range uses {
		if sure[i] = u.over.deadline(); lease > 0 {
			sure[i] = use.node.Lease.Until
		}
	}
	for end := time.Now().Add(u.upTo(time.Second)); time.Now().Before(end); u.pause(400 * time.Millisecond) {
		for i, use := range uses {
			if lease > 0 {
				sure[i] = u.renew(use, sure[i])
			}
		}
	}
	for i, use := range uses {
		u.checkServer(use, sure[i])
		u.end(use, sure[i], lease)
	}
}

// renew extends a lease and returns the time until which it is valid.
func (u *chaosUser) renew(use *nodeUse, sure time.Time) time.Time {
	var n wire.Node
	_, err := u.retry(func(ctx context.Context) (err error) { n, err = u.RenewNode(ctx, use.node.ID, u.name); return err })
	switch {
	case err == nil:
		return n.Lease.Until
	case time.Now().Before(sure):
		u.reportOnce("the lease of node %s, which holds until %s, cannot be renewed: %v", use.node.ID, sure, err)
	}
	return sure
}

// end returns a node, or lets its lease expire.
func (u *chaosUser) end(use *nodeUse, sure time.Time, lease time.Duration) {
	id, now := use.node.ID, time.Now()
	u.recordEnd(use, earlier(now, sure))
	var do func(context.Context) error
	switch choice := u.random.IntN(20); {
	case choice < 3 && lease > 0:
		u.recordEnd(use, sure)
		u.count("vanished with a lease")
		return
	case choice < 5:
		u.count("held for a while")
		until := now.Add(u.upTo(2 * time.Second))
		do = func(ctx context.Context) error { _, err := u.HoldNode(ctx, id, "look at it", until); return err }
	case choice < 7:
		u.count("held and released")
		do = func(ctx context.Context) error {
			if _, err := u.HoldNode(ctx, id, "look at it", time.Time{}); err != nil && ctx.Err() == nil && !client.IsCode(err, wire.CodeInvalidState) {
				return err // held or used already: the answer was lost
			}
			_, err := u.ReleaseNode(ctx, id)
			return err
		}
	case choice < 8:
		u.count("deleted by force")
		do = func(ctx context.Context) error { _, err := u.DeleteNode(ctx, id, "no good", true); return err }
	default:
		u.count("returned")
		do = func(ctx context.Context) error { _, err := u.ReturnNode(ctx, id); return err }
	}
	lost, err := u.retry(do)
	if err != nil && !lost && time.Now().Before(sure) {
		u.reportOnce("node %s could not be returned: %v", id, err)
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
