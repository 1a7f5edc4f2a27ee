package drivertest

import (
	"context"
	"errors"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

func nodeUserTests() []test {
	can := []string{"nodes"}
	return []test{
		{"NodeWithAnInstanceIsNeeded", can, nodeIsNeeded},
		{"NodeWithoutInstancesIsReturnedOnce", can, nodeIsReturned},
	}
}

// used creates an instance and returns it with the use of nodes by the Cloud.
func (s *suite) used(t *testing.T) (drivers.NodeUser, drivers.Spec, resources.Instance) {
	t.Helper()
	user, _ := drivers.NodeUserOf(s.Cloud)
	spec := s.spec()
	s.create(t, spec)
	return user, spec, s.ready(t, s.Cloud, spec)
}

func nodeIsNeeded(t *testing.T, s *suite) {
	user, spec, made := s.used(t)
	for name, offers := range map[string][]cty.Value{"configured": {s.Config}, "no longer configured": nil} {
		if list, err := user.Unneeded(t.Context(), offers); err != nil || len(list) > 0 {
			t.Errorf("%s: the node of an instance is unneeded: %+v, %v", name, list, err)
		}
	}
	testutil.Must(t, s.Cloud.Delete(t.Context(), made.ID, spec.Marks))
	s.gone(t, s.Cloud, made.ID)
	list, err := user.Unneeded(t.Context(), nil)
	testutil.Must(t, err)
	again := s.spec()
	s.create(t, again)
	now := s.ready(t, s.Cloud, again)
	for _, u := range list {
		if err := user.ReturnNode(t.Context(), u.Request); err != nil && !errors.Is(err, drivers.ErrInUse) {
			t.Errorf("ReturnNode(%s): %v", u.Request, err)
		}
	}
	if still := s.ready(t, s.Cloud, again); still.ID != now.ID {
		t.Errorf("the instance is %s after ReturnNode, want %s", still.ID, now.ID)
	}
}

func nodeIsReturned(t *testing.T, s *suite) {
	user, spec, made := s.used(t)
	testutil.Must(t, s.Cloud.Delete(t.Context(), made.ID, spec.Marks))
	s.gone(t, s.Cloud, made.ID)
	list, err := user.Unneeded(t.Context(), nil)
	if err != nil || len(list) == 0 || list[0].Node == "" || list[0].Why == "" {
		t.Fatalf("unneeded nodes without any offer are %+v, %v", list, err)
	}
	for range 2 {
		for _, u := range list {
			testutil.Must(t, user.ReturnNode(t.Context(), u.Request))
		}
	}
	if list, err = user.Unneeded(t.Context(), nil); err != nil || len(list) > 0 {
		t.Errorf("unneeded after the return: %+v, %v", list, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := user.Unneeded(ended, nil); err == nil {
		t.Error("Unneeded with an ended context returned no error")
	}
}
