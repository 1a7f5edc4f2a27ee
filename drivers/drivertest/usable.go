package drivertest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

// unusableIsNotReady proves that the list tells when others made a ready instance unusable: the plan has no other source. It
// compares the lists of the client that created the instances, of a client that was open before and knows them, and of a new
// one. An untouched instance stays ready.
func unusableIsNotReady(t *testing.T, s *suite) {
	clients := map[string]drivers.Cloud{"the client that created it": s.Cloud, "a client that was open before": s.reopened(t)}
	kept := s.spec()
	s.create(t, kept)
	before := s.ready(t, s.Cloud, kept)
	spoiled := map[string]resources.Instance{}
	for _, how := range slices.Sorted(maps.Keys(s.Spoil)) {
		spec := s.spec()
		s.create(t, spec)
		spoiled[how] = s.ready(t, s.Cloud, spec)
	}
	for _, name := range []string{"a client that was open before", "the client that created it"} { // the first one knows only the list
		for how, i := range spoiled {
			s.eventually(t, func() error {
				if s.unusable(t.Context(), clients[name], i) == nil {
					return fmt.Errorf("%s: instance %s is not usable before", how, i.ID)
				}
				return nil
			})
		}
	}
	for how, i := range spoiled {
		s.Spoil[how](t, i)
	}
	clients["a new client"] = s.reopened(t)
	for name, c := range clients {
		for how, i := range spoiled {
			s.eventually(t, func() error {
				if err := s.unusable(t.Context(), c, i); err != nil {
					return fmt.Errorf("%s, %s: %w", how, name, err)
				}
				return nil
			})
		}
		now, err := s.listed(t.Context(), c, kept.Marks.ID)
		testutil.Must(t, err)
		if _, _, changed := before.Addresses.ChangedTo(now.Addresses); changed || now.Status != resources.StatusReady {
			t.Errorf("%s: the other instance is %s with %+v, want ready with %+v", name, now.Status, now.Addresses, before.Addresses)
		}
	}
}

// unusable returns an error if the list says what the plan takes for a usable instance.
func (s *suite) unusable(ctx context.Context, c drivers.Cloud, before resources.Instance) error {
	list, err := c.List(ctx)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(list, func(i resources.Instance) bool { return i.ID == before.ID })
	if at < 0 || list[at].Status != resources.StatusReady || list[at].Addresses.Interface == "" {
		return nil
	}
	if _, _, changed := before.Addresses.ChangedTo(list[at].Addresses); changed {
		return nil
	}
	return fmt.Errorf("instance %s is listed as ready with the addresses %+v", before.ID, list[at].Addresses)
}
