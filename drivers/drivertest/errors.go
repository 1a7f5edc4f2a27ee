package drivertest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

// soon is longer than a call needs to end after its context on a busy machine, and shorter than the retries of a driver that
// ignores its context.
const soon = 30 * time.Second

func errorTests() []test {
	return []test{
		{"ImpossibleOrdersAreRejected", []string{"Rejected"}, rejected},
		{"WrongPasswordIsRejected", []string{"OpenWrong"}, wrongPassword},
		{"WithdrawnCredentialIsRenewed", []string{"Withdraw"}, credentialIsRenewed},
		{"CallsEndWithTheirContext", nil, endWithContext},
	}
}

// quiet checks that an error contains no secret.
func (s *suite) quiet(t *testing.T, err error) {
	t.Helper()
	for _, secret := range s.Secrets {
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("the error holds a secret: %v", err)
		}
	}
}

func rejected(t *testing.T, s *suite) {
	for name, spoil := range s.Rejected {
		spec := s.spec()
		spoil(&spec)
		made, err := s.Cloud.Create(t.Context(), spec)
		if !errors.Is(err, drivers.ErrRejected) {
			t.Errorf("%s: Create = %s, %v; want ErrRejected", name, made.ID, err)
			continue
		}
		if !drivers.IsNothingDone(err) {
			t.Errorf("%s: the error does not prove that nothing was done: %v", name, err)
		}
		s.quiet(t, err)
	}
}

func wrongPassword(t *testing.T, s *suite) {
	err := s.OpenWrong(t)
	if !errors.Is(err, drivers.ErrRejected) {
		t.Errorf("open with a wrong password: %v, want ErrRejected", err)
	}
	s.quiet(t, err)
}

// credentialIsRenewed makes single calls: those of a decorated Cloud would hide the rejection of a list.
func credentialIsRenewed(t *testing.T, s *suite) {
	s.Withdraw(t)
	s.create(t, s.spec())
	s.Withdraw(t)
	if _, err := s.Cloud.List(t.Context()); err != nil {
		t.Errorf("List after the credentials were withdrawn: %v", err)
	}
}

func endWithContext(t *testing.T, s *suite) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	calls := map[string]func() error{
		"Create": func() error { _, err := s.Cloud.Create(ctx, s.spec()); return err },
		"List":   func() error { _, err := s.Cloud.List(ctx); return err },
		"Quota":  func() error { _, err := s.Cloud.Quota(ctx); return err },
		"Delete": func() error { return s.Cloud.Delete(ctx, "00000000-0000-4000-8000-00000000dead", s.spec().Marks) },
	}
	if store, ok := drivers.ImagesOf(s.Cloud); ok {
		calls["ListImages"] = func() error { _, err := store.ListImages(ctx); return err }
		calls["DeleteImage"] = func() error { return store.DeleteImage(ctx, "00000000-0000-4000-8000-00000000dead", s.spec().Marks) }
	}
	if r, ok := drivers.ResolverOf(s.Cloud); ok {
		calls["ResolveImage"] = func() error {
			_, _, err := r.ResolveImage(ctx, resources.CloudImageSpec{Name: "x", Image: "x"})
			return err
		}
	}
	if sweeper, ok := drivers.SweeperOf(s.Cloud); ok {
		calls["Leftovers"] = func() error { _, err := sweeper.Leftovers(ctx); return err }
	}
	for name, call := range calls {
		done := make(chan error, 1)
		go func() { done <- call() }()
		select {
		case err := <-done:
			if err == nil {
				t.Errorf("%s with an ended context returned no error", name)
			}
		case <-time.After(soon):
			t.Errorf("%s still runs %s after its context ended", name, soon)
		}
	}
}
