package metastatic_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/drivertest"
	"github.com/npctl/npctl/drivers/metastatic"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

// source is a drivers.NodeSource in memory.
type source struct {
	mu       sync.Mutex
	requests map[string]*resources.Request
	nodes    map[string]*resources.Node
	own      []*resources.Node
	last     int
	wait     time.Duration // from a request until it is fulfilled
	fail     string        // error of requests
	once     bool          // requests are not served
	made     int
}

func newSource() *source {
	return &source{requests: map[string]*resources.Request{}, nodes: map[string]*resources.Node{}}
}

func (s *source) Labels(ctx context.Context) (map[string][]string, error) {
	return map[string][]string{"host": {"lab"}, "slot": {"metastatic"}}, ctx.Err()
}

func (s *source) Serving() bool { return !s.once }

func (s *source) Request(ctx context.Context, label string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	s.made++
	id := fmt.Sprintf("100-%010d", s.last)
	s.requests[id] = &resources.Request{ID: id, Labels: []string{label}, State: resources.StateRequested, Created: time.Now(), StateTime: time.Now()}
	return id, ctx.Err()
}

// serve fulfills the requests that are old enough.
func (s *source) serve() {
	for _, r := range s.requests {
		switch {
		case r.State != resources.StateRequested || time.Since(r.Created) < s.wait:
		case s.fail != "":
			r.State, r.Error = resources.StateFailed, s.fail
		default:
			s.last++
			n := &resources.Node{ID: fmt.Sprint(s.last), Request: r.ID, Labels: r.Labels, State: resources.StateReady, Created: time.Now(), Provider: "lab",
				Addresses: resources.Addresses{Interface: "192.0.2.1"}, HostKeys: []string{"ssh-ed25519 AAAA"}, Login: resources.Login{Username: "zuul", ConnectionPort: 2222},
				Zone: "az1", Cloud: "cloud", Region: "region", HostID: "host", Attributes: map[string]string{"executor": "a"}}
			s.nodes[n.ID] = n
			r.State, r.Nodes = resources.StateFulfilled, []string{n.ID}
		}
	}
}

func (s *source) List(ctx context.Context) (drivers.SourcedNodes, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serve()
	var found drivers.SourcedNodes
	for _, r := range s.requests {
		if c := *r; r.Requestor == "" {
			found.Requests = append(found.Requests, &c)
		}
	}
	for _, n := range s.nodes {
		if c := *n; n.State.IsInService() && n.Requestor == "" {
			found.InUse = append(found.InUse, &c)
		}
	}
	found.Own = slices.Clone(s.own)
	return found, ctx.Err()
}

func (s *source) Take(ctx context.Context, request string) error {
	return s.end(ctx, request, resources.StateInUse)
}

func (s *source) end(ctx context.Context, request string, becomes resources.State) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.requests[request]; r != nil {
		for _, id := range r.Nodes {
			s.nodes[id].State, s.nodes[id].StateTime = becomes, time.Now()
		}
		delete(s.requests, request)
	}
	return ctx.Err()
}

// change changes the backing node of a request, as others do. Readers have the old one.
func (s *source) change(request string, how func(*resources.Node)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, n := range s.nodes {
		if n.Request == request {
			changed := *n
			how(&changed)
			s.nodes[id] = &changed
		}
	}
}

func (s *source) MarkIdle(ctx context.Context, request string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.nodes {
		if n.Request == request {
			n.IdleSince = time.Now()
		}
	}
	return ctx.Err()
}

func (s *source) Retire(ctx context.Context, request string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.nodes {
		n.Retired = n.Retired || n.Request == request
	}
	return ctx.Err()
}

func (s *source) Return(ctx context.Context, request string) error {
	if err := s.end(ctx, request, resources.StateUsed); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.nodes, func(_ string, n *resources.Node) bool { return n.Request == request })
	return nil
}

func offer(attributes map[string]cty.Value) cty.Value {
	values := metastatic.New().Schema().Label.Null().AsValueMap()
	values["backing_label"], values["max_parallel_jobs"] = cty.StringVal("host"), cty.NumberIntVal(2)
	values["grace_time"] = cty.StringVal("60s")
	for name, value := range attributes {
		values[name] = value
	}
	return cty.ObjectVal(values)
}

func open(t *testing.T, s drivers.NodeSource) *metastatic.Cloud {
	t.Helper()
	c, err := metastatic.New().Open(t.Context(), drivers.Env{Provider: "slots", Installation: "here", Nodes: s}, cty.EmptyObjectVal)
	testutil.Must(t, err)
	return c.(*metastatic.Cloud)
}

func spec(id int) drivers.Spec {
	return drivers.Spec{Config: offer(nil), Hostname: fmt.Sprintf("np%d", id),
		Marks: resources.OwnerTags{Installation: "here", Kind: resources.KindNode, ID: fmt.Sprint(id), Provider: "slots", Pool: "main", Label: "slot"}}
}

func create(t *testing.T, c drivers.Cloud, spec drivers.Spec) resources.Instance {
	t.Helper()
	i, err := c.Create(t.Context(), spec)
	testutil.Must(t, err)
	return i
}

// ready creates an instance and advances it until it is ready.
func ready(t *testing.T, c drivers.Cloud, s drivers.Spec) resources.Instance {
	t.Helper()
	i := create(t, c, s)
	list, err := c.List(t.Context())
	testutil.Must(t, err)
	at := slices.IndexFunc(list, func(other resources.Instance) bool { return other.ID == i.ID })
	i, err = c.Advance(t.Context(), s, list[at])
	testutil.Must(t, err)
	if i.Status != resources.StatusReady {
		t.Fatalf("instance %s is %s: %s", i.ID, i.Status, i.Fault)
	}
	return i
}

func TestSchema(t *testing.T) { drivertest.Schema(t, metastatic.New().Schema()) }

func TestContract(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) drivertest.Setup { return setup(t, newSource(), nil) })
}

// Slots of one backing node are unusable together, so each one has a node of its own here.
func TestContractOfUnusableBackingNodes(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) drivertest.Setup {
		s := newSource()
		one := setup(t, s, map[string]cty.Value{"max_parallel_jobs": cty.NumberIntVal(1)})
		delete(one.Omits, "Spoil")
		change := func(how func(*resources.Node)) func(*testing.T, resources.Instance) {
			return func(_ *testing.T, i resources.Instance) { s.change(strings.TrimSuffix(i.ID, "-0"), how) }
		}
		one.Spoil = map[string]func(*testing.T, resources.Instance){
			"its backing node ended":               change(func(n *resources.Node) { n.State = resources.StateUsed }),
			"its backing node has another address": change(func(n *resources.Node) { n.Addresses.Interface = "192.0.2.2" }),
		}
		return one
	}, "Instances")
}

func setup(t *testing.T, s *source, attributes map[string]cty.Value) drivertest.Setup {
	t.Helper()
	s.wait = 10 * time.Millisecond
	reopen := func(t *testing.T) drivers.Cloud { return recorder{open(t, s), s} }
	return drivertest.Setup{Cloud: reopen(t), Reopen: reopen, Installation: "here", Config: offer(attributes), Settle: 10 * time.Second,
		Lacks: []string{"images", "cloud images", "sweeper", "console", "access", "snapshots", "adopter", "amounts"},
		Rejected: map[string]func(*drivers.Spec){
			"unknown label": func(s *drivers.Spec) { s.Config = offer(map[string]cty.Value{"backing_label": cty.StringVal("hosts")}) },
			"max_age below retention": func(s *drivers.Spec) {
				s.Config = offer(map[string]cty.Value{"max_age": cty.StringVal("1m"), "min_retention_time": cty.StringVal("1h")})
			},
		},
		BadOffers: map[string]drivertest.BadOffer{
			"near":      {Config: offer(map[string]cty.Value{"backing_label": cty.StringVal("hosts")}), Attribute: "backing_label", Near: "host"},
			"its own":   {Config: offer(map[string]cty.Value{"backing_label": cty.StringVal("slot")}), Attribute: "backing_label"},
			"retention": {Config: offer(map[string]cty.Value{"max_age": cty.StringVal("1m"), "min_retention_time": cty.StringVal("1h")}), Attribute: "max_age"},
		},
		Kill:    func(t *testing.T, k *testutil.Killer) drivers.Cloud { return recorder{open(t, mortal{s, k}), s} },
		Objects: func(*testing.T) []string { return s.objects() },
		// Others have backing nodes: those of other requestors.
		Neighbours: func(t *testing.T, _ drivers.Spec, _ drivers.ImageSpec) []drivertest.Foreign { return s.neighbours(t) },
		Omits: map[string]string{
			"Foreign":        "a slot is a record in the state, of which others have none",
			"Copies":         "a slot is a record in the state, of which nothing makes copies",
			"Attach":         "a slot has no objects",
			"Spoil":          "TestContractOfUnusableBackingNodes",
			"Exhaust":        "an offer has one backing label",
			"FillQuota":      "only backing nodes use a quota",
			"LoseNextAnswer": "group Kills loses the response to each request for a backing node",
			"Calls":          "a list reads the state once",
			"OpenWrong":      "the state of the process needs no password",
			"Withdraw":       "the state of the process needs no password",
		},
	}
}

func TestInstanceHasTheAttributesOfItsBackingNode(t *testing.T) {
	i := ready(t, open(t, newSource()), spec(1))
	if i.Addresses.Interface != "192.0.2.1" || !slices.Equal(i.HostKeys, []string{"ssh-ed25519 AAAA"}) || i.Login.ConnectionPort != 2222 ||
		i.Zone != "az1" || i.Region != "region" || i.Cloud != "cloud" || i.HostID != "host" || i.Attributes["executor"] != "a" || i.Name != "np1" {
		t.Errorf("instance is %+v", i)
	}
}

func TestSlotsOfOneBackingNodeComeFirst(t *testing.T) {
	s := newSource()
	c := open(t, s)
	var ids []string
	for n := 1; n <= 5; n++ {
		ids = append(ids, ready(t, c, spec(n)).ID)
	}
	if s.made != 3 {
		t.Errorf("%d backing nodes for %v, want 3", s.made, ids)
	}
	testutil.Must(t, c.Delete(t.Context(), ids[1], spec(2).Marks)) // the first backing node has one slot, as has the third
	testutil.Must(t, c.Delete(t.Context(), ids[4], spec(5).Marks))
	if again := ready(t, c, spec(6)); again.ID != ids[1] {
		t.Errorf("the next slot is %s, want %s: the third backing node is empty", again.ID, ids[1])
	}
}

func TestPendingBackingNodeIsShared(t *testing.T) {
	s := newSource()
	s.wait = time.Hour
	c := open(t, s)
	a, b := create(t, c, spec(1)), create(t, c, spec(2))
	if s.made != 1 || a.ID == b.ID || a.Status != resources.StatusPending {
		t.Errorf("%d requests for %s (%s) and %s", s.made, a.ID, a.Status, b.ID)
	}
}

// TestReservationEndsWithTheRecord: a new process knows slots from records only, and the record of an ended launch frees
// its slot.
func TestSlotsAreKnownFromRecords(t *testing.T) {
	s := newSource()
	c := open(t, s)
	i := ready(t, c, spec(1))
	record := &resources.Node{ID: "1", Provider: "slots", Pool: "main", Labels: []string{"slot"}, State: resources.StateReady, ExternalID: i.ID, Hostname: "np1"}
	s.own = []*resources.Node{record}
	after := open(t, s)
	list, err := after.List(t.Context())
	testutil.Must(t, err)
	if len(list) != 1 || list[0].ID != i.ID || list[0].Marks.ID != "1" || list[0].Status != resources.StatusReady {
		t.Fatalf("another process lists %+v", list)
	}
	if next := create(t, after, spec(2)); next.ID == i.ID {
		t.Errorf("slot %s is given twice", next.ID)
	}
	record.State = resources.StateDeleting
	if list, err = open(t, s).List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("a slot that is deleted is listed: %+v, %v", list, err)
	}
}

func TestFailedRequestFailsTheInstanceWithItsReason(t *testing.T) {
	for text, kind := range map[string]resources.FaultKind{
		"cloud/main: launch node 7: no capacity: no valid host":  resources.FaultCapacity,
		"cloud/main: launch node 7: quota exceeded: 3 instances": resources.FaultQuota,
		"no pool offers host": "",
	} {
		s := newSource()
		s.wait, s.fail = time.Millisecond, text
		c := open(t, s)
		i := create(t, c, spec(1))
		time.Sleep(2 * time.Millisecond)
		list, err := c.List(t.Context())
		testutil.Must(t, err)
		if len(list) != 1 || list[0].Status != resources.StatusFailed || list[0].FaultKind != kind {
			t.Errorf("%s: %s is listed as %+v", text, i.ID, list)
		}
		if next := create(t, c, spec(2)); next.ID == i.ID || s.made != 2 {
			t.Errorf("%s: the next slot is %s after %d requests", text, next.ID, s.made)
		}
	}
}

func TestLostBackingNodeTakesItsSlotsWithIt(t *testing.T) {
	s := newSource()
	c := open(t, s)
	i := ready(t, c, spec(1))
	s.own = []*resources.Node{
		{ID: "1", Provider: "slots", Labels: []string{"slot"}, State: resources.StateReady, ExternalID: i.ID},
		{ID: "2", Provider: "slots", Labels: []string{"slot"}, State: resources.StateBuilding, ExternalID: "100-0000000001-1"},
	}
	clear(s.nodes)
	list, err := c.List(t.Context())
	testutil.Must(t, err)
	if len(list) != 1 || list[0].Marks.ID != "2" || list[0].Status != resources.StatusFailed {
		t.Errorf("listed %+v, want only the failed launch", list)
	}
}

func TestWithoutDaemonOnlyExistingBackingNodesAreUsed(t *testing.T) {
	s := newSource()
	s.once = true
	_, err := open(t, s).Create(t.Context(), spec(1))
	if !errors.Is(err, drivers.ErrRejected) || !drivers.IsNothingDone(err) || s.made != 0 {
		t.Errorf("Create = %v after %d requests, want ErrRejected", err, s.made)
	}
	s.once = false
	first := ready(t, open(t, s), spec(1))
	s.own = []*resources.Node{{ID: "1", Provider: "slots", Labels: []string{"slot"}, State: resources.StateReady, ExternalID: first.ID}}
	s.once = true
	if i := create(t, open(t, s), spec(2)); i.Status != resources.StatusReady {
		t.Errorf("instance %s is %s", i.ID, i.Status)
	}
}

func TestBackingNodeOfAnUnreachableSlotGetsNoMoreSlots(t *testing.T) {
	s := newSource()
	c := open(t, s)
	i := ready(t, c, spec(1))
	user, _ := drivers.NodeUserOf(c)
	testutil.Must(t, user.Unreachable(t.Context(), i.ID))
	if next := ready(t, c, spec(2)); s.made != 2 || next.ID == i.ID[:len(i.ID)-1]+"1" {
		t.Errorf("the next slot is %s after %d requests, want one on another backing node than %s", next.ID, s.made, i.ID)
	}
	unneeded, err := user.Unneeded(t.Context(), []cty.Value{offer(nil)})
	if err != nil || len(unneeded) != 0 {
		t.Errorf("backing nodes with slots are unneeded: %+v, %v", unneeded, err)
	}
	testutil.Must(t, c.Delete(t.Context(), i.ID, spec(1).Marks))
	unneeded, err = user.Unneeded(t.Context(), []cty.Value{offer(nil)})
	if err != nil || len(unneeded) != 1 || unneeded[0].Request != i.ID[:len(i.ID)-2] {
		t.Errorf("unneeded are %+v, %v, want the backing node of %s", unneeded, err, i.ID)
	}
}

func TestBackingNodeWithASlotIsNotReturned(t *testing.T) {
	s := newSource()
	c := open(t, s)
	i := ready(t, c, spec(1))
	user, _ := drivers.NodeUserOf(c)
	if err := user.ReturnNode(t.Context(), i.ID[:len(i.ID)-2]); !errors.Is(err, drivers.ErrInUse) || len(s.nodes) != 1 {
		t.Errorf("ReturnNode = %v, %d nodes are left", err, len(s.nodes))
	}
	testutil.Must(t, c.Delete(t.Context(), i.ID, spec(1).Marks))
	testutil.Must(t, user.ReturnNode(t.Context(), i.ID[:len(i.ID)-2]))
	if len(s.nodes) != 0 {
		t.Error("the backing node is not returned")
	}
}
