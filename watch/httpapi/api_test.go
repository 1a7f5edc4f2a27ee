package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/watch/httpapi/client"
)

// fulfilled creates a request and waits until it is fulfilled.
func (l *lab) fulfilled(labels ...string) wire.Request {
	l.t.Helper()
	r, err := l.CreateRequest(l.t.Context(), wire.NewRequest{Labels: labels, Requestor: "tester"})
	testutil.Must(l.t, err)
	ctx, cancel := context.WithTimeout(l.t.Context(), time.Minute)
	defer cancel()
	if r, err = l.WaitRequest(ctx, r.ID); err != nil || r.State != resources.StateFulfilled {
		l.t.Fatalf("request is %s (%s): %v", r.State, r.Error, err)
	}
	return r
}

// taken creates a request and takes its nodes.
func (l *lab) taken(lease time.Duration, labels ...string) []wire.Node {
	l.t.Helper()
	nodes, err := l.TakeRequest(l.t.Context(), l.fulfilled(labels...).ID, "tester", lease)
	testutil.Must(l.t, err)
	return nodes
}

// refused checks that err is an error response with the given code and words.
func refused(t *testing.T, err error, code wire.Code, words string) {
	t.Helper()
	var no *client.Error
	if !errors.As(err, &no) || no.Code != code || !strings.Contains(no.Detail+no.Hint, words) {
		t.Errorf("error is %#v, want code %s and %q", err, code, words)
	}
}

func TestNodesAreRequestedTakenAndReturned(t *testing.T) {
	l := newLab(t, fleet, nil)
	r := l.fulfilled("metal", "metal")
	if len(r.Nodes) != 2 {
		t.Fatalf("request has nodes %v", r.Nodes)
	}
	nodes, err := l.TakeRequest(t.Context(), r.ID, "tester", time.Minute)
	testutil.Must(t, err)
	for _, n := range nodes {
		if n.State != resources.StateInUse || n.Lease == nil || n.Lease.Holder != "tester" {
			t.Errorf("node is %+v", n)
		}
		if _, err := l.RenewNode(t.Context(), n.ID, "tester"); err != nil {
			t.Error(err)
		}
		_, err := l.RenewNode(t.Context(), n.ID, "somebody else")
		refused(t, err, wire.CodeInvalidState, "held by")
		if _, err := l.ReturnNode(t.Context(), n.ID); err != nil {
			t.Error(err)
		}
		got, err := l.WaitNode(t.Context(), n.ID, resources.StateReady)
		if err != nil || got.State != resources.StateReady {
			t.Errorf("node is %s: %v", got.State, err)
		}
	}
	_, err = l.Request(t.Context(), r.ID)
	refused(t, err, wire.CodeNotFound, "npctl events")
	if !errors.Is(err, state.ErrNotFound) {
		t.Errorf("%v is not known as ErrNotFound", err)
	}
}

func TestUntakeableRequestHasReason(t *testing.T) {
	l := newLab(t, fleet, nil)
	l.taken(0, "metal", "metal") // no idle node remains
	r, err := l.CreateRequest(t.Context(), wire.NewRequest{Labels: []string{"metal"}})
	testutil.Must(t, err)
	_, err = l.TakeRequest(t.Context(), r.ID, "", 0)
	refused(t, err, wire.CodeInvalidState, "is requested")
	var why wire.Why
	l.await("the reason is known", func() bool {
		if why, err = l.Why(t.Context(), "request/"+r.ID); err != nil {
			t.Fatal(err)
		}
		return strings.Contains(why.Summary, "all machines with label metal are taken")
	})
	if len(why.Waits) == 0 || len(why.Events) == 0 || why.State != "requested" {
		t.Errorf("why is %+v", why)
	}
	testutil.Must(t, l.CancelRequest(t.Context(), r.ID))
	if why, err = l.Why(t.Context(), "request/"+r.ID); err != nil || why.State != "gone" || !strings.Contains(why.Summary, "cancelled") {
		t.Errorf("why of a cancelled request is %+v, %v", why, err)
	}
	refused(t, l.CancelRequest(t.Context(), r.ID), wire.CodeNotFound, "no request")
}

func TestListsAreFilteredAndPaged(t *testing.T) {
	l := newLab(t, fleet, nil)
	l.taken(0, "metal", "metal")
	for _, who := range []string{"a", "a", "b"} {
		if _, err := l.CreateRequest(t.Context(), wire.NewRequest{Labels: []string{"metal"}, Requestor: who, Tenant: "t-" + who, Data: []byte(`{"build":1}`)}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		filter wire.RequestFilter
		want   int
	}{
		{wire.RequestFilter{}, 3}, {wire.RequestFilter{Requestor: "a"}, 2}, {wire.RequestFilter{Tenant: "t-b"}, 1}, {wire.RequestFilter{Label: "small"}, 0},
		{wire.RequestFilter{States: []string{"requested", "pending"}}, 3}, {wire.RequestFilter{States: []string{"failed"}}, 0},
	} {
		got, err := l.Requests(t.Context(), c.filter)
		if err != nil || len(got) != c.want {
			t.Errorf("%+v: %d requests, want %d: %v", c.filter, len(got), c.want, err)
		}
		for _, r := range got {
			if r.Data != nil {
				t.Errorf("a list has the data of request %s", r.ID)
			}
		}
	}
	for _, c := range []struct {
		filter wire.NodeFilter
		want   int
	}{
		{wire.NodeFilter{Provider: "rack"}, 2}, {wire.NodeFilter{Label: "metal", Pool: "main", States: []string{"in-use"}}, 2},
		{wire.NodeFilter{Tenant: "nobody's"}, 0}, {wire.NodeFilter{Request: "0000000099"}, 0},
	} {
		if got, err := l.Nodes(t.Context(), c.filter); err != nil || len(got) != c.want {
			t.Errorf("%+v: %d nodes, want %d: %v", c.filter, len(got), c.want, err)
		}
	}
	var ids []string
	for after := ""; ; {
		_, _, text := l.raw("GET", "/v1/requests?limit=1&after="+after, "")
		var page wire.Requests
		unmarshal(t, text, &page)
		for _, r := range page.Requests {
			ids = append(ids, r.ID)
		}
		if after = page.Next; after == "" {
			break
		}
	}
	if len(ids) != 3 || ids[0] >= ids[1] || ids[1] >= ids[2] {
		t.Errorf("pages of one have the requests %v", ids)
	}
}

func TestNodesAreHeldReleasedAndDeleted(t *testing.T) {
	t.Parallel()
	l := newLab(t, fleet, nil)
	n := l.taken(0, "metal")[0]
	_, err := l.DeleteNode(t.Context(), n.ID, "", false)
	refused(t, err, wire.CodeInvalidState, "in use")
	_, err = l.ReleaseNode(t.Context(), n.ID)
	refused(t, err, wire.CodeInvalidState, "not held")
	until := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	held, err := l.HoldNode(t.Context(), n.ID, "look at the disk", until)
	if err != nil || held.State != resources.StateHold || held.Comment != "look at the disk" || !held.HoldUntil.Equal(until) {
		t.Fatalf("held node is %+v: %v", held, err)
	}
	if held, err = l.HoldNode(t.Context(), n.ID, "", until); err != nil || held.Comment != "look at the disk" {
		t.Errorf("a second hold without a reason drops the first one: %+v: %v", held, err)
	}
	why, err := l.Why(t.Context(), "node/"+n.ID)
	if err != nil || why.State != "hold" || !strings.Contains(why.Summary, "look at the disk") || len(why.Waits) == 0 {
		t.Errorf("why is %+v: %v", why, err)
	}
	if got, err := l.ReleaseNode(t.Context(), n.ID); err != nil || got.State != resources.StateUsed {
		t.Errorf("released node is %+v: %v", got, err)
	}
	if _, err := l.WaitNode(t.Context(), n.ID, resources.StateReady); err != nil {
		t.Error(err)
	}
	small := l.taken(0, "small")[0]
	if _, err := l.DeleteNode(t.Context(), small.ID, "it is broken", true); err != nil {
		t.Fatal(err)
	}
	l.await("the node is gone", func() bool {
		_, err := l.Node(t.Context(), small.ID)
		return errors.Is(err, state.ErrNotFound)
	})
	if why, err := l.Why(t.Context(), "node/"+small.ID); err != nil || why.State != "gone" {
		t.Errorf("why of a node that is gone is %+v, %v", why, err)
	}
}

func TestInvalidCallsAreRejected(t *testing.T) {
	l := newLab(t, fleet, nil)
	l.await("the daemon is ready", func() bool { ready, err := l.Ready(t.Context()); return ready && err == nil })
	for _, c := range []struct {
		method, path, body string
		status             int
		code               wire.Code
		words              string
	}{
		{"POST", "/v1/requests", `{"labls":["metal"]}`, 400, wire.CodeInvalid, "did you mean \\\"labels\\\""},
		{"POST", "/v1/requests", `{"Labels":["metal"]}`, 400, wire.CodeInvalid, "unknown member"},
		{"POST", "/v1/requests", `{"labels":["metl"]}`, 400, wire.CodeInvalid, "did you mean \\\"metal\\\""},
		{"POST", "/v1/requests", `{"labels":[]}`, 400, wire.CodeInvalid, "body.labels: expected array length"},
		{"POST", "/v1/requests", `{"labels":"metal"}`, 400, wire.CodeInvalid, `body.labels is \"metal\": expected array`},
		{"POST", "/v1/requests", `{"labels":["metal"],"priority":"high"}`, 400, wire.CodeInvalid, `body.priority is \"high\": expected integer`},
		{"POST", "/v1/requests", `{"labels":["metal"],"labels":["small"]}`, 400, wire.CodeInvalid, "the body is invalid: duplicate"},
		{"POST", "/v1/requests", `{"labels":["metal"],"deadline":"tomorrow"}`, 400, wire.CodeInvalid, "body.deadline is"},
		{"POST", "/v1/requests", `{"labels":["metal"],"deadline":"2001-01-01T00:00:00Z"}`, 400, wire.CodeInvalid, "has passed"},
		{"POST", "/v1/requests", `{"labels":["metal"]} {}`, 400, wire.CodeInvalid, "the body is invalid"},
		{"POST", "/v1/requests", `not JSON`, 400, wire.CodeInvalid, "the body is invalid"},
		{"POST", "/v1/requests", "", 400, wire.CodeInvalid, "body is required"},
		{"POST", "/v1/requests", `{"labels":["metal"],"priority":0}`, 400, wire.CodeInvalid, "body.priority is 0"},
		{"POST", "/v1/requests", "null", 400, wire.CodeInvalid, "expected object"},
		{"POST", "/v1/reload", " null ", 400, wire.CodeInvalid, "expected object"},
		{"POST", "/v1/nodes/0000000001/hold", "null", 400, wire.CodeInvalid, "expected object"},
		{"GET", "/v1/nodes?state=ready,bogus", "", 400, wire.CodeInvalid, "building, deleting"},
		{"GET", "/v1/nodes/0000000001?state=fulfilled", "", 400, wire.CodeInvalid, "building, deleting"},
		{"GET", "/v1/requests?state=in-use", "", 400, wire.CodeInvalid, "failed, fulfilled, pending, requested"},
		{"POST", "/v1/requests/1/take", `{"lease_seconds":1}`, 400, wire.CodeInvalid, "body.lease_seconds is 1"},
		{"GET", "/v1/requests?stat=failed", "", 400, wire.CodeInvalid, "known parameters: state, label"},
		{"GET", "/v1/requests?limit=many", "", 400, wire.CodeInvalid, `query.limit is \"many\": invalid integer`},
		{"GET", "/v1/requests/1?wait=soon", "", 400, wire.CodeInvalid, "query.wait is"},
		{"GET", "/v1/requests?state=a&state=b", "", 400, wire.CodeInvalid, "2 times"},
		{"GET", "/v1/events?after=x", "", 400, wire.CodeInvalid, "not a position in the journal"},
		{"GET", "/v1/why?subject=moon/1", "", 400, wire.CodeInvalid, "node/ID"},
		{"GET", "/v1/why?subject=label/metl", "", 404, wire.CodeNotFound, "did you mean"},
		{"GET", "/v1/labels/metl", "", 404, wire.CodeNotFound, "did you mean"},
		{"GET", "/v1/nodes/0000009999", "", 404, wire.CodeNotFound, "npctl events"},
		{"POST", "/v1/providers/rak/freeze", "", 404, wire.CodeNotFound, "did you mean"},
		{"POST", "/v1/images/debain/pause", "", 404, wire.CodeNotFound, "did you mean"},
		{"PUT", "/v1/requests", "{}", 405, wire.CodeMethod, "use GET or POST"},
		{"DELETE", "/v1/labels", "", 405, wire.CodeMethod, "use GET"},
		{"GET", "/v1/nothing", "", 404, wire.CodeNotFound, "openapi.json"},
		{"GET", "/", "", 404, wire.CodeNotFound, "openapi.json"},
	} {
		status, header, text := l.raw(c.method, c.path, c.body)
		var p wire.Problem
		unmarshal(t, text, &p)
		if status != c.status || p.Code != c.code || p.Status != status || !strings.Contains(text, c.words) {
			t.Errorf("%s %s %s: %d %s, want %d with %q", c.method, c.path, c.body, status, text, c.status, c.words)
		}
		if got := header.Get("Content-Type"); got != wire.MediaProblem {
			t.Errorf("%s %s: Content-Type %q", c.method, c.path, got)
		}
	}
}

func TestProvidersAreFrozenAndThawed(t *testing.T) {
	l := newLab(t, fleet, nil)
	if p, err := l.FreezeProvider(t.Context(), "rack"); err != nil || !p.Frozen {
		t.Fatalf("provider is %+v: %v", p, err)
	}
	r, err := l.CreateRequest(t.Context(), wire.NewRequest{Labels: []string{"metal"}})
	testutil.Must(t, err)
	var why wire.Why
	l.await("it waits for the provider", func() bool {
		why, err = l.Why(t.Context(), "request/"+r.ID)
		return err == nil && strings.Contains(why.Summary+waits(why), "is frozen")
	})
	if _, err := l.ThawProvider(t.Context(), "rack"); err != nil {
		t.Fatal(err)
	}
	if got, err := l.WaitRequest(t.Context(), r.ID); err != nil || got.State != resources.StateFulfilled {
		t.Errorf("request is %s: %v", got.State, err)
	}
	events, err := l.Events(t.Context(), "", "provider/rack", 0)
	if err != nil || len(events.Events) < 2 {
		t.Errorf("events of the provider are %+v: %v", events, err)
	}
}

func waits(w wire.Why) (text string) {
	for _, one := range w.Waits {
		text += one.Text + "\n"
	}
	return text
}

func TestConfigurationIsReloadedOrRejected(t *testing.T) {
	l := newLab(t, fleet, nil)
	l.await("the image is there", func() bool { images, err := l.Images(t.Context()); return err == nil && len(images) == 1 })
	for i := range 20 { // a reload takes effect at once, even during a pass
		name := fmt.Sprintf("new%d", i)
		l.write(strings.Replace(fleet, `["metal"]`, fmt.Sprintf(`["metal", %q]`, name), 1) + fmt.Sprintf("\nlabel %q {}\n", name))
		if _, err := l.Reload(t.Context(), wire.Reload{}); err != nil {
			t.Fatal(err)
		}
		if _, err := l.CreateRequest(t.Context(), wire.NewRequest{Labels: []string{name}}); err != nil {
			t.Error(err)
		}
	}
	l.write(fleet + "\nlabel \"unserved\" {}\n")
	if _, err := l.Reload(t.Context(), wire.Reload{}); err != nil {
		t.Fatal(err)
	}
	_, err := l.CreateRequest(t.Context(), wire.NewRequest{Labels: []string{"small", "unserved"}})
	refused(t, err, wire.CodeInvalid, `no pool offers the label "unserved"`)
	l.write(strings.Replace(fleet, "max_servers", "max_serfers", 1))
	_, err = l.Reload(t.Context(), wire.Reload{})
	refused(t, err, wire.CodeInvalidConfiguration, "max_serfers")
}

func TestReloadOfAnotherConfigurationThanExpectedIsRejected(t *testing.T) {
	l := newLab(t, fleet, nil)
	before := string(l.daemon.Desired().Digests.Current())
	l.write(fleet + "\nlabel \"new\" {}\n")
	_, err := l.Reload(t.Context(), wire.Reload{From: "v1:other"})
	refused(t, err, wire.CodeInvalidState, "the configuration in force is not the one before the change")
	_, err = l.Reload(t.Context(), wire.Reload{From: before, To: before})
	refused(t, err, wire.CodeInvalidState, "the files of the daemon have another configuration than the expected one")
	if now := string(l.daemon.Desired().Digests.Current()); now != before {
		t.Fatal("the configuration has changed")
	}
	if _, err := l.Reload(t.Context(), wire.Reload{From: before}); err != nil {
		t.Fatal(err)
	}
	after := string(l.daemon.Desired().Digests.Current())
	if _, err := l.Reload(t.Context(), wire.Reload{From: after, To: after}); err != nil || after == before {
		t.Errorf("configuration %s after %s, error %v", after, before, err)
	}
}

func TestOnlyUsedNodesAreReturned(t *testing.T) {
	l := newLab(t, strings.Replace(fleet, `label "small" {}`, `label "small" { min_ready = 1 }`, 1), nil)
	var ready wire.Node
	l.await("a node is ready", func() bool {
		nodes, err := l.Nodes(t.Context(), wire.NodeFilter{Label: "small", States: []string{"ready"}})
		if err != nil || len(nodes) == 0 {
			return false
		}
		ready = nodes[0]
		return true
	})
	_, err := l.ReturnNode(t.Context(), ready.ID)
	refused(t, err, wire.CodeInvalidState, "was not used")
	if n, err := l.Node(t.Context(), ready.ID); err != nil || n.State != resources.StateReady {
		t.Errorf("the node is %s, %v", n.State, err)
	}
	metal := l.taken(0, "metal")[0]
	for range 2 { // a client repeats a call when its response was lost
		if _, err := l.ReturnNode(t.Context(), metal.ID); err != nil {
			t.Error(err)
		}
		if _, err := l.WaitNode(t.Context(), metal.ID, resources.StateReady); err != nil {
			t.Error(err)
		}
	}
}

func TestLabelWithASlashIsServed(t *testing.T) {
	l := newLab(t, fleet+"\nlabel \"debian/12\" {}\n", nil)
	l.await("the label is known", func() bool {
		status, _, text := l.raw("GET", "/v1/labels/debian%2F12", "")
		return status == http.StatusOK && strings.Contains(text, `"debian/12"`)
	})
	for _, path := range []string{"/v1/labels/a%2f..%2fb", "/v1/labels/%2fa", "/v1/images/debian%2f12"} {
		if status, _, text := l.raw("GET", path, ""); status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
}

func TestStatusNamesFailingBuilds(t *testing.T) {
	l := newLab(t, strings.Replace(fleet, "printf image", "exit 3; printf image", 1), nil)
	l.await("the status names the image", func() bool {
		status, err := l.Status(t.Context())
		testutil.Must(t, err)
		return slices.ContainsFunc(status.Problems, func(p string) bool {
			return strings.HasPrefix(p, "diskimage.debian: its build failed 1 time, last ") && strings.Contains(p, "exit code 3")
		})
	})
}
