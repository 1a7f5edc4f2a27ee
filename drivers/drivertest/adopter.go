package drivertest

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

func adopterTests() []test {
	has := []string{"adopter"}
	return []test{
		{"AbilityMatchesSetup", nil, func(t *testing.T, s *suite) { _, ok := drivers.AdopterOf(s.Cloud); s.checkAbility(t, "adopter", ok) }},
		{"InstanceOfOthersIsAdopted", []string{"adopter", "Foreign"}, instanceIsAdopted},
		{"ImageOfOthersIsAdopted", []string{"adopter", "images", "ForeignImage"}, imageIsAdopted},
		{"InstanceOfAnotherRecordIsNotAdopted", has, ownedIsNotAdopted},
		{"LostInstanceIsAdoptedAgain", has, lostIsAdopted},
		{"ReleasedInstanceHasNoOwner", has, instanceIsReleased},
		{"WhatIsNotThereIsNotFound", has, missingIsNotAdopted},
	}
}

func instanceIsAdopted(t *testing.T, s *suite) {
	adopter, _ := drivers.AdopterOf(s.Cloud)
	id, marks := s.Foreign(t), s.spec().Marks
	object, found, err := adopter.LookUp(t.Context(), resources.KindNode, id)
	if err != nil || !found || object.Facts().ID != id || object.Facts().Marks != (resources.OwnerTags{}) || object.Facts().Name == "" || object.Facts().Created.IsZero() {
		t.Fatalf("LookUp = %+v, %t, %v", object, found, err)
	}
	s.isOfOthers(t, id, true)
	s.adopt(t, id, marks, resources.OwnerTags{})
	testutil.Must(t, adopter.Adopt(t.Context(), id, marks, resources.OwnerTags{}))
	s.isOfOthers(t, id, false)
	s.eventually(t, func() error { _, err := s.listed(t.Context(), s.reopened(t), marks.ID); return err })
	now, _ := s.listed(t.Context(), s.Cloud, marks.ID)
	if diff := cmp.Diff(marks, now.Marks); diff != "" || now.ID != id {
		t.Errorf("marks of the adopted instance %s (-want +got):\n%s", now.ID, diff)
	}
	testutil.Must(t, s.Cloud.Delete(t.Context(), id, marks))
	s.eventually(t, func() error {
		if now, err := s.listed(t.Context(), s.Cloud, marks.ID); err == nil && now.Status != resources.StatusDeleting {
			return errors.New("the adopted instance was not deleted")
		}
		return nil
	})
}

// adopt waits until the instance has started, because clouds do not tag instances before.
func (s *suite) adopt(t *testing.T, id string, marks, former resources.OwnerTags) {
	t.Helper()
	adopter, _ := drivers.AdopterOf(s.Cloud)
	s.eventually(t, func() error { return adopter.Adopt(t.Context(), id, marks, former) })
}

// isOfOthers waits until ListOthers lists an object, or does not.
func (s *suite) isOfOthers(t *testing.T, id string, want bool) {
	t.Helper()
	adopter, _ := drivers.AdopterOf(s.Cloud)
	s.eventually(t, func() error {
		others, err := adopter.ListOthers(t.Context())
		if is := slices.ContainsFunc(others, func(o resources.ExistingObject) bool { return o.Facts().ID == id }); err == nil && is != want {
			err = fmt.Errorf("ListOthers lists %s: %t, want %t", id, is, want)
		}
		return err
	})
}

func imageIsAdopted(t *testing.T, s *suite) {
	adopter, _ := drivers.AdopterOf(s.Cloud)
	store := s.images(t)
	theirs, marks := s.ForeignImage(t), s.imageSpec(s.content()).Marks
	object, found, err := adopter.LookUp(t.Context(), resources.KindUpload, theirs.ID)
	if err != nil || !found || object.Facts().ID != theirs.ID || object.Facts().Marks != (resources.OwnerTags{}) {
		t.Fatalf("LookUp = %+v, %t, %v", object, found, err)
	}
	s.isOfOthers(t, theirs.ID, true)
	for range 2 {
		testutil.Must(t, adopter.Adopt(t.Context(), theirs.ID, marks, resources.OwnerTags{}))
	}
	s.isOfOthers(t, theirs.ID, false)
	other := marks
	other.ID = "another"
	if err := adopter.Adopt(t.Context(), theirs.ID, other, resources.OwnerTags{}); !errors.Is(err, drivers.ErrNotOurs) {
		t.Errorf("Adopt of an image of another record: %v, want ErrNotOurs", err)
	}
	if err := adopter.Release(t.Context(), theirs.ID, other); !errors.Is(err, drivers.ErrNotOurs) {
		t.Errorf("Release of an image of another record: %v, want ErrNotOurs", err)
	}
	for range 2 {
		testutil.Must(t, adopter.Release(t.Context(), theirs.ID, marks))
	}
	if object, found, err = adopter.LookUp(t.Context(), resources.KindUpload, theirs.ID); err != nil || !found || object.Facts().Marks != (resources.OwnerTags{}) {
		t.Errorf("LookUp of the released image = %+v, %t, %v", object, found, err)
	}
	images, err := store.ListImages(t.Context())
	testutil.Must(t, err)
	if slices.ContainsFunc(images, func(i resources.RemoteImage) bool { return i.ID == theirs.ID }) {
		t.Error("the released image is still listed as npctl's")
	}
	testutil.Must(t, adopter.Adopt(t.Context(), theirs.ID, marks, resources.OwnerTags{}))
	images, err = store.ListImages(t.Context())
	testutil.Must(t, err)
	for _, i := range images {
		if i.ID == theirs.ID {
			if diff := cmp.Diff(marks, i.Marks); diff != "" {
				t.Errorf("marks of the adopted image (-want +got):\n%s", diff)
			}
			testutil.Must(t, store.DeleteImage(t.Context(), i.ID, marks))
			return
		}
	}
	t.Error("the adopted image is not listed")
}

func ownedIsNotAdopted(t *testing.T, s *suite) {
	adopter, _ := drivers.AdopterOf(s.Cloud)
	spec := s.spec()
	made := s.create(t, spec)
	for what, change := range map[string]func(*resources.OwnerTags){
		"record":       func(m *resources.OwnerTags) { m.ID = "another" },
		"installation": func(m *resources.OwnerTags) { m.Installation = "another" },
	} {
		marks := spec.Marks
		change(&marks)
		if err := adopter.Adopt(t.Context(), made.ID, marks, resources.OwnerTags{}); !errors.Is(err, drivers.ErrNotOurs) {
			t.Errorf("Adopt by another %s: %v, want ErrNotOurs", what, err)
		}
	}
	object, found, err := adopter.LookUp(t.Context(), resources.KindNode, made.ID)
	if err != nil || !found || object.Facts().Marks != spec.Marks {
		t.Errorf("LookUp = %+v, %t, %v; want the marks of its record", object.Facts().Marks, found, err)
	}
}

func lostIsAdopted(t *testing.T, s *suite) {
	spec := s.spec()
	made := s.create(t, spec)
	marks := s.spec().Marks
	s.adopt(t, made.ID, marks, spec.Marks)
	s.eventually(t, func() error { _, err := s.listed(t.Context(), s.reopened(t), marks.ID); return err })
}

// instanceIsReleased releases an instance with everything that was created with it. Others may then use it: npctl deletes
// neither the instance nor its associated resources.
func instanceIsReleased(t *testing.T, s *suite) {
	adopter, _ := drivers.AdopterOf(s.Cloud)
	spec := s.spec()
	made := s.create(t, spec)
	s.ready(t, s.Cloud, spec)
	another := spec.Marks
	another.ID = "another"
	if err := adopter.Release(t.Context(), made.ID, another); !errors.Is(err, drivers.ErrNotOurs) {
		t.Errorf("Release by another record: %v, want ErrNotOurs", err)
	}
	for range 2 {
		testutil.Must(t, adopter.Release(t.Context(), made.ID, spec.Marks))
	}
	object, found, err := adopter.LookUp(t.Context(), resources.KindNode, made.ID)
	if err != nil || !found || object.Facts().Marks != (resources.OwnerTags{}) || object.Facts().Status != resources.StatusReady || object.Program != "" {
		t.Errorf("LookUp = %+v, %t, %v", object, found, err)
	}
	if sweeper, ok := drivers.SweeperOf(s.Cloud); ok {
		leftovers, err := sweeper.Leftovers(t.Context())
		testutil.Must(t, err)
		for _, l := range leftovers {
			if l.Marks.SameRecord(spec.Marks) {
				t.Errorf("%s %s still has the ownership tags", l.Type, l.ID)
			}
		}
	}
	if err := s.Cloud.Delete(t.Context(), made.ID, spec.Marks); !errors.Is(err, drivers.ErrNotOurs) {
		t.Errorf("Delete of the released instance: %v, want ErrNotOurs", err)
	}
	s.adopt(t, made.ID, spec.Marks, resources.OwnerTags{}) // the suite deletes it
	testutil.Must(t, adopter.Release(t.Context(), "00000000-0000-4000-8000-00000000dead", spec.Marks))
}

func missingIsNotAdopted(t *testing.T, s *suite) {
	const missing = "00000000-0000-4000-8000-00000000dead"
	adopter, _ := drivers.AdopterOf(s.Cloud)
	for _, kind := range []resources.Kind{resources.KindNode, resources.KindUpload} {
		marks := s.spec().Marks
		marks.Kind = kind
		if _, found, err := adopter.LookUp(t.Context(), kind, missing); err != nil || found {
			t.Errorf("LookUp of a missing %s = %t, %v", kind, found, err)
		}
		if err := adopter.Adopt(t.Context(), missing, marks, resources.OwnerTags{}); !errors.Is(err, drivers.ErrRejected) {
			t.Errorf("Adopt of a missing %s: %v, want ErrRejected", kind, err)
		}
	}
}
