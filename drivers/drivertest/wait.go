package drivertest

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

func contextWithoutCancel(t *testing.T) context.Context { return context.WithoutCancel(t.Context()) }

// eventually repeats a check until it returns no error.
func (s *suite) eventually(t *testing.T, look func() error) {
	t.Helper()
	var err error
	if !testutil.Poll(s.Settle, func() bool { err = look(); return err == nil }) {
		t.Fatalf("after %s: %v", s.Settle, err)
	}
}

// ours lists the instances of this test.
func (s *suite) ours(ctx context.Context, c drivers.Cloud) ([]resources.Instance, error) {
	list, err := c.List(ctx)
	return slices.DeleteFunc(list, func(i resources.Instance) bool { return i.Marks.Installation != s.installation }), err
}

// listed returns the instance with the ID of a node.
func (s *suite) listed(ctx context.Context, c drivers.Cloud, node string) (resources.Instance, error) {
	list, err := s.ours(ctx, c)
	if err != nil {
		return resources.Instance{}, err
	}
	list = slices.DeleteFunc(list, func(i resources.Instance) bool { return i.Marks.ID != node })
	if len(list) != 1 {
		return resources.Instance{}, fmt.Errorf("%d instances carry the id of node %s, want 1", len(list), node)
	}
	return list[0], nil
}

func (s *suite) create(t *testing.T, spec drivers.Spec) resources.Instance {
	t.Helper()
	i, err := s.Cloud.Create(t.Context(), spec)
	if err != nil {
		t.Fatalf("Create(%s): %v", spec.Marks.ID, err)
	}
	return i
}

// ready waits as a caller does: it lists, advances pending instances and lists again.
func (s *suite) ready(t *testing.T, c drivers.Cloud, spec drivers.Spec) resources.Instance {
	t.Helper()
	var now resources.Instance
	s.eventually(t, func() error {
		var err error
		if now, err = s.listed(t.Context(), c, spec.Marks.ID); err != nil {
			return err
		}
		if now, err = c.Advance(t.Context(), spec, now); err != nil {
			return fmt.Errorf("advance: %w", err)
		}
		switch now.Status {
		case resources.StatusReady:
			return nil
		case resources.StatusFailed:
			t.Fatalf("instance %s of node %s failed: %s", now.ID, spec.Marks.ID, now.Fault)
		}
		return fmt.Errorf("instance %s is %s", now.ID, now.Status)
	})
	return now
}

// gone waits until a deleted instance is gone, and deletes what it leaves.
func (s *suite) gone(t *testing.T, c drivers.Cloud, id string) {
	t.Helper()
	s.unlisted(t, c, id)
	s.eventually(t, func() error { return finish(t.Context(), c, id) })
}

// unlisted waits until an instance is not listed.
func (s *suite) unlisted(t *testing.T, c drivers.Cloud, id string) {
	t.Helper()
	s.eventually(t, func() error {
		list, err := c.List(t.Context())
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(list, func(i resources.Instance) bool { return i.ID == id }); i >= 0 {
			return fmt.Errorf("instance %s is still listed, as %s", id, list[i].Status)
		}
		return nil
	})
}

// finish deletes what a deleted instance leaves, if the driver has such objects.
func finish(ctx context.Context, c drivers.Cloud, id string) error {
	finisher, ok := drivers.FinisherOf(c)
	if !ok {
		return nil
	}
	return finisher.FinishDeletion(ctx, id)
}

func (s *suite) deleteInstances(ctx context.Context, t *testing.T) {
	var list []resources.Instance
	var err error
	deleted := map[string]bool{}
	if !testutil.Poll(s.Settle, func() bool {
		if list, err = s.ours(ctx, s.Cloud); err == nil && len(list) == 0 {
			return true
		}
		for _, i := range list {
			if i.Status != resources.StatusDeleting {
				err = s.Cloud.Delete(ctx, i.ID, i.Marks)
				deleted[i.ID] = true
			}
		}
		return false
	}) {
		t.Errorf("cleanup: %d instances remain: %v", len(list), err)
	}
	for id := range deleted {
		if err := finish(ctx, s.Cloud, id); err != nil {
			t.Errorf("cleanup: %v", err)
		}
	}
}

func (s *suite) deleteImages(ctx context.Context, t *testing.T) {
	store, ok := drivers.ImagesOf(s.Cloud)
	if !ok {
		return
	}
	list, err := store.ListImages(ctx)
	for _, i := range list {
		if i.Marks.Installation == s.installation {
			err = store.DeleteImage(ctx, i.ID, i.Marks)
		}
	}
	if err != nil {
		t.Errorf("cleanup of images: %v", err)
	}
}

func (s *suite) deleteLeftovers(ctx context.Context, t *testing.T) {
	sweeper, ok := drivers.SweeperOf(s.Cloud)
	if !ok {
		return
	}
	list, err := sweeper.Leftovers(ctx)
	for _, l := range list {
		if l.Marks.Installation == s.installation {
			err = sweeper.DeleteLeftover(ctx, l)
		}
	}
	if err != nil {
		t.Errorf("cleanup of leftovers: %v", err)
	}
}
