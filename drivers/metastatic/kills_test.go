package metastatic_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/drivertest"
	"github.com/npctl/npctl/drivers/metastatic"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

// mortal is a source for a client that is killed before or after each commit.
type mortal struct {
	drivers.NodeSource
	kill *testutil.Killer
}

func (m mortal) Request(ctx context.Context, label string) (string, error) {
	return testutil.Around(m.kill, "Request", func() (string, error) { return m.NodeSource.Request(ctx, label) })
}

func (m mortal) around(ctx context.Context, what, request string, call func(context.Context, string) error) error {
	_, err := testutil.Around(m.kill, what, func() (any, error) { return nil, call(ctx, request) })
	return err
}

func (m mortal) Take(ctx context.Context, request string) error {
	return m.around(ctx, "Take", request, m.NodeSource.Take)
}

func (m mortal) MarkIdle(ctx context.Context, request string) error {
	return m.around(ctx, "MarkIdle", request, m.NodeSource.MarkIdle)
}

func (m mortal) Retire(ctx context.Context, request string) error {
	return m.around(ctx, "Retire", request, m.NodeSource.Retire)
}

func (m mortal) Return(ctx context.Context, request string) error {
	return m.around(ctx, "Return", request, m.NodeSource.Return)
}

// recorder keeps records of the nodes as npctl does, from which other processes know the slots.
type recorder struct {
	*metastatic.Cloud
	source *source
}

func (r recorder) Create(ctx context.Context, spec drivers.Spec) (resources.Instance, error) {
	m := spec.Marks
	r.source.record(m.ID, func(n *resources.Node) {
		n.Provider, n.Pool, n.Labels, n.Image, n.Hash, n.Hostname = m.Provider, m.Pool, []string{m.Label}, m.Image, m.Hash, spec.Hostname
		n.State = resources.StateBuilding
	})
	made, err := r.Cloud.Create(ctx, spec)
	r.source.record(m.ID, func(n *resources.Node) {
		if n.ExternalID = made.ID; drivers.IsNothingDone(err) {
			n.State = resources.StateFailed
		}
	})
	return made, err
}

func (r recorder) Delete(ctx context.Context, id string, expected resources.OwnerTags) error {
	if expected.SameRecord(resources.OwnerTags{Installation: "here", Kind: resources.KindNode, ID: expected.ID}) {
		r.source.record(expected.ID, func(n *resources.Node) {
			if n.ExternalID == id {
				n.State = resources.StateDeleting
			}
		})
	}
	return r.Cloud.Delete(ctx, id, expected)
}

// record changes the record of a node, which it creates first.
func (s *source) record(id string, change func(*resources.Node)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := resources.Node{ID: id, Created: time.Now(), State: resources.StateFailed}
	at := slices.IndexFunc(s.own, func(n *resources.Node) bool { return n.ID == id })
	if at < 0 {
		at, s.own = len(s.own), append(s.own, nil)
	} else {
		n = *s.own[at]
	}
	change(&n)
	s.own[at] = &n // readers have the old one
}

// objects are the requests for backing nodes and the backing nodes.
func (s *source) objects() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.requests {
		all = append(all, "request "+id)
	}
	for _, n := range s.nodes {
		if n.State.IsInService() {
			all = append(all, "node "+n.ID)
		}
	}
	return slices.Sorted(slices.Values(all))
}

// neighbours are a node in use by another requestor, and a request of it with its node. The source does not list them.
func (s *source) neighbours(t *testing.T) (all []drivertest.Foreign) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for request, state := range map[string]resources.State{"100-00000000010": resources.StateInUse, "theirs": resources.StateReady} {
		id := "of-" + request
		s.nodes[id] = &resources.Node{ID: id, Request: request, Requestor: "zuul", Labels: []string{"host"}, State: state}
		if state == resources.StateReady {
			s.requests[request] = &resources.Request{ID: request, Requestor: "zuul", Labels: []string{"host"}, State: resources.StateFulfilled, Nodes: []string{id}}
		}
		before := s.of(request)
		all = append(all, drivertest.Foreign{ID: request + "-0", Stays: func() error {
			s.mu.Lock()
			defer s.mu.Unlock()
			if diff := cmp.Diff(before, s.of(request)); diff != "" {
				return fmt.Errorf("its records changed (-before +after):\n%s", diff)
			}
			return nil
		}})
	}
	return all
}

// of returns copies of the request and its nodes.
func (s *source) of(request string) (all []resources.Record) {
	for _, n := range s.nodes {
		if n.Request == request {
			all = append(all, new(*n))
		}
	}
	if r := s.requests[request]; r != nil {
		all = append(all, new(*r))
	}
	return all
}
