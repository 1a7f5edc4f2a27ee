package drivertest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

func instanceTests() []test {
	return []test{
		{"CreatedInstanceIsListedWithItsMarksAndBecomesReady", nil, createdIsListed},
		{"CreateAgainIsTheSameInstance", nil, createAgain},
		{"LostAnswerIsFoundAgain", []string{"LoseNextAnswer"}, lostAnswer},
		{"DeletedInstanceGoesAndMayBeDeletedAgain", nil, deleteTwice},
		{"DeletingWhatIsNotThereIsNoError", nil, deleteUnknown},
		{"InstanceOfAnotherRecordIsLeftAlone", nil, instanceOfAnotherRecord},
		{"InstanceOfOthersIsLeftAlone", []string{"Foreign"}, instanceOfOthers},
		{"BatchDeletesWhatIsNpctls", []string{"batches"}, batchIsDeleted},
		{"WhatOthersAttachedStaysWhenTheInstanceGoes", []string{"Attach"}, attachedStays},
		{"InstancesOfOthersAreListedWithoutMarks", []string{"Foreign"}, foreignIsListed},
		{"ManyAtOnceGetInstancesOfTheirOwn", nil, manyAtOnce},
		{"ListingCostsPagesNotInstances", []string{"Calls"}, listIsCheap},
		{"QuotaIsToldAndCounts", nil, quotaCounts},
		{"FullQuotaIsErrQuota", []string{"FillQuota"}, quotaRefuses},
		{"TypeWithoutCapacityIsTriedLast", []string{"Exhaust"}, shortageIsRemembered},
		{"QuotaOfOneTypeDoesNotStopTheOthers", []string{"Exhaust"}, quotaOfOneType},
		{"AdvanceOfReadyInstanceChangesNothing", nil, advanceReady},
		{"UnusableInstanceIsNotReady", []string{"Spoil"}, unusableIsNotReady},
	}
}

func createdIsListed(t *testing.T, s *suite) {
	spec := s.spec()
	made := s.create(t, spec)
	if made.ID == "" {
		t.Fatal("Create returned an instance without id")
	}
	if diff := cmp.Diff(spec.Marks, made.Marks); diff != "" {
		t.Errorf("marks of the created instance (-want +got):\n%s", diff)
	}
	now := s.ready(t, s.Cloud, spec)
	if now.ID != made.ID || now.Name != spec.Hostname {
		t.Errorf("listed as %s %q, want %s %q", now.ID, now.Name, made.ID, spec.Hostname)
	}
	if diff := cmp.Diff(spec.Marks, now.Marks); diff != "" {
		t.Errorf("marks of the listed instance (-want +got):\n%s", diff)
	}
	if now.Addresses.Interface == "" {
		t.Errorf("ready instance has no address to connect to: %+v", now.Addresses)
	}
	if now.Resources.Instances != 1 || !s.lacks("amounts") && (now.Resources.Cores < 1 || now.Resources.RAM < 1) {
		t.Errorf("ready instance uses %+v, want one instance with cores and RAM", now.Resources)
	}
	if now.Created.IsZero() {
		t.Error("ready instance has no time of creation")
	}
	again := s.ready(t, s.reopened(t), spec)
	if diff := cmp.Diff(now, again); diff != "" {
		t.Errorf("another client lists a different instance (-this +other):\n%s", diff)
	}
}

func createAgain(t *testing.T, s *suite) {
	spec := s.spec()
	made := s.create(t, spec)
	s.eventually(t, func() error { _, err := s.listed(t.Context(), s.Cloud, spec.Marks.ID); return err })
	spec.MaybeCreated = true
	for name, c := range map[string]drivers.Cloud{"the same client": s.Cloud, "another client": s.reopened(t)} {
		again, err := c.Create(t.Context(), spec)
		if err != nil || again.ID != made.ID {
			t.Errorf("Create again by %s = %s, %v; want %s", name, again.ID, err, made.ID)
		}
	}
	if _, err := s.listed(t.Context(), s.Cloud, spec.Marks.ID); err != nil {
		t.Error(err)
	}
}

func lostAnswer(t *testing.T, s *suite) {
	spec := s.spec()
	s.LoseNextAnswer(t)
	if i, err := s.Cloud.Create(t.Context(), spec); err == nil {
		t.Fatalf("Create = %s, want an error: its answer was lost", i.ID)
	} else if drivers.IsNothingDone(err) {
		t.Errorf("the error of Create claims that nothing was done: %v", err)
	}
	var there resources.Instance
	s.eventually(t, func() (err error) { there, err = s.listed(t.Context(), s.Cloud, spec.Marks.ID); return err })
	spec.MaybeCreated = true
	again, err := s.Cloud.Create(t.Context(), spec)
	if err != nil || again.ID != there.ID {
		t.Errorf("Create again = %s, %v; want %s", again.ID, err, there.ID)
	}
}

func shortageIsRemembered(t *testing.T, s *suite) {
	if n := s.createBesides(t, drivers.ErrCapacity, 3); n != 1 {
		t.Errorf("three Creates made %d requests for the type without capacity, want one", n)
	}
}

func quotaOfOneType(t *testing.T, s *suite) {
	if n := s.createBesides(t, drivers.ErrQuota, 1); n != 1 {
		t.Errorf("Create made %d requests for the type without quota, want one", n)
	}
}

// createBesides creates instances while the first type of their offer is rejected, and returns the number of requests for it.
func (s *suite) createBesides(t *testing.T, kind error, instances int) int {
	t.Helper()
	offer, requests := s.Exhaust(t, kind)
	for range instances {
		spec := s.spec()
		spec.Config = offer
		s.create(t, spec)
	}
	return requests()
}

func deleteTwice(t *testing.T, s *suite) {
	spec := s.spec()
	s.create(t, spec)
	made := s.ready(t, s.Cloud, spec)
	for range 2 { // the second call comes during the deletion
		if err := s.Cloud.Delete(t.Context(), made.ID, spec.Marks); err != nil {
			t.Fatalf("Delete(%s): %v", made.ID, err)
		}
	}
	s.gone(t, s.Cloud, made.ID)
	if err := s.Cloud.Delete(t.Context(), made.ID, spec.Marks); err != nil {
		t.Errorf("Delete(%s) once it is gone: %v", made.ID, err)
	}
	if err := s.reopened(t).Delete(t.Context(), made.ID, spec.Marks); err != nil {
		t.Errorf("Delete(%s) by another client: %v", made.ID, err)
	}
	s.nothingOf(t, spec.Marks)
}

// nothingOf checks that a deleted node has no leftovers.
func (s *suite) nothingOf(t *testing.T, m resources.OwnerTags) {
	t.Helper()
	sweeper, ok := drivers.SweeperOf(s.Cloud)
	if !ok {
		return
	}
	s.eventually(t, func() error {
		left, err := sweeper.Leftovers(t.Context())
		for _, l := range left {
			if l.Marks.Installation == m.Installation && l.Marks.ID == m.ID {
				err = fmt.Errorf("%s %s was not deleted", l.Type, l.ID)
			}
		}
		return err
	})
}

func deleteUnknown(t *testing.T, s *suite) {
	id := randomHex(4) + "-" + randomHex(2) + "-4" + randomHex(2)[1:] + "-8" + randomHex(2)[1:] + "-" + randomHex(6)
	if err := s.Cloud.Delete(t.Context(), id, s.spec().Marks); err != nil {
		t.Errorf("Delete(%s): %v", id, err)
	}
}

// otherMarks returns ownership tags for which an object with the given tags must not be deleted.
func otherMarks(m resources.OwnerTags) map[string]resources.OwnerTags {
	id, installation, kind := m, m, m
	id.ID += "-other"
	installation.Installation += "-other"
	kind.Kind = resources.KindBuild
	return map[string]resources.OwnerTags{"another id": id, "another installation": installation, "another kind": kind, "no ownership tags": {}}
}

func instanceOfAnotherRecord(t *testing.T, s *suite) {
	spec := s.spec()
	s.create(t, spec)
	made := s.ready(t, s.Cloud, spec)
	for name, marks := range otherMarks(spec.Marks) {
		for of, c := range map[string]drivers.Cloud{"the same client": s.Cloud, "another client": s.reopened(t)} {
			if err := c.Delete(t.Context(), made.ID, marks); !errors.Is(err, drivers.ErrNotOurs) {
				t.Errorf("Delete by %s that expects %s: %v, want ErrNotOurs", of, name, err)
			}
		}
	}
	if now := s.ready(t, s.Cloud, spec); now.ID != made.ID {
		t.Errorf("listed is %s, want %s", now.ID, made.ID)
	}
}

// An instance of another record and a missing one keep no other instance of a batch.
func batchIsDeleted(t *testing.T, s *suite) {
	var all []drivers.Spec
	expected, ids := map[string]resources.OwnerTags{}, []string(nil)
	for range 3 {
		spec := s.spec()
		s.create(t, spec)
		made := s.ready(t, s.Cloud, spec)
		all, ids, expected[made.ID] = append(all, spec), append(ids, made.ID), spec.Marks
	}
	s.deleted(t, ids[0], all[0])
	expected[ids[1]] = all[2].Marks
	batches, _ := drivers.As[drivers.BatchDeleter](s.Cloud)
	failed := batches.DeleteBatch(t.Context(), expected)
	if len(failed) != 1 || !errors.Is(failed[ids[1]], drivers.ErrNotOurs) {
		t.Errorf("errors are %v, want ErrNotOurs for %s", failed, ids[1])
	}
	s.gone(t, s.Cloud, ids[2])
	if now := s.ready(t, s.Cloud, all[1]); now.ID != ids[1] {
		t.Errorf("listed is %s, want %s", now.ID, ids[1])
	}
}

// deleted deletes an instance and waits until it is gone.
func (s *suite) deleted(t *testing.T, id string, spec drivers.Spec) {
	t.Helper()
	testutil.Must(t, s.Cloud.Delete(t.Context(), id, spec.Marks))
	s.gone(t, s.Cloud, id)
}

func instanceOfOthers(t *testing.T, s *suite) {
	id := s.Foreign(t)
	s.eventually(t, func() error {
		if err := s.Cloud.Delete(t.Context(), id, s.spec().Marks); !errors.Is(err, drivers.ErrNotOurs) {
			return fmt.Errorf("error of Delete is %w, want ErrNotOurs", err)
		}
		return nil
	})
	list, err := s.Cloud.List(t.Context())
	i := slices.IndexFunc(list, func(i resources.Instance) bool { return i.ID == id })
	if err != nil || i < 0 || list[i].Status == resources.StatusDeleting {
		t.Errorf("instance %s was deleted: %v", id, err)
	}
}

// Objects of any kind that another user attaches to an instance outlive the instance and never get ownership tags.
func attachedStays(t *testing.T, s *suite) {
	spec := s.spec()
	s.create(t, spec)
	made := s.ready(t, s.Cloud, spec)
	things := s.Attach(t, made.ID)
	if len(things) == 0 {
		t.Fatal("Attach attached nothing")
	}
	testutil.Must(t, s.Cloud.Delete(t.Context(), made.ID, spec.Marks))
	s.gone(t, s.Cloud, made.ID)
	s.nothingOf(t, spec.Marks)
	for _, thing := range things {
		if err := thing.Stays(); err != nil {
			t.Error(err)
		}
	}
}

func foreignIsListed(t *testing.T, s *suite) {
	id := s.Foreign(t)
	s.eventually(t, func() error {
		list, err := s.Cloud.List(t.Context())
		if err != nil {
			return err
		}
		i := slices.IndexFunc(list, func(i resources.Instance) bool { return i.ID == id })
		if i < 0 {
			return fmt.Errorf("instance %s is not listed", id)
		}
		if list[i].Marks != (resources.OwnerTags{}) {
			t.Errorf("instance %s has marks %+v, want none", id, list[i].Marks)
		}
		return nil
	})
}

func manyAtOnce(t *testing.T, s *suite) {
	specs := make([]drivers.Spec, s.Many)
	ids := make([]string, s.Many)
	for i := range specs {
		specs[i] = s.spec()
	}
	parallel(len(specs), func(i int) {
		made, err := s.Cloud.Create(t.Context(), specs[i])
		if err != nil {
			t.Errorf("Create(%s): %v", specs[i].Marks.ID, err)
		}
		ids[i] = made.ID
	})
	if t.Failed() {
		return
	}
	for i, spec := range specs {
		if now := s.ready(t, s.Cloud, spec); now.ID != ids[i] {
			t.Errorf("node %s is instance %s, want %s", spec.Marks.ID, now.ID, ids[i])
		}
	}
	parallel(len(ids), func(i int) {
		if err := s.Cloud.Delete(t.Context(), ids[i], specs[i].Marks); err != nil {
			t.Errorf("Delete(%s): %v", ids[i], err)
		}
	})
	for i, id := range ids {
		s.gone(t, s.Cloud, id)
		s.nothingOf(t, specs[i].Marks)
	}
}

func parallel(n int, f func(int)) {
	var wait sync.WaitGroup
	for i := range n {
		wait.Go(func() { f(i) })
	}
	wait.Wait()
}

func listIsCheap(t *testing.T, s *suite) {
	count := func() int {
		t.Helper()
		before := s.Calls()
		if _, err := s.Cloud.List(t.Context()); err != nil {
			t.Fatal(err)
		}
		return s.Calls() - before
	}
	count() // fills the caches of the driver
	empty := count()
	for range s.Many {
		spec := s.spec()
		s.create(t, spec)
		s.ready(t, s.Cloud, spec)
	}
	if full := count(); full > empty {
		t.Errorf("List made %d calls with %d more instances and %d without", full, s.Many, empty)
	}
}

func quotaCounts(t *testing.T, s *suite) {
	before, err := s.Cloud.Quota(t.Context())
	testutil.Must(t, err)
	if l := before.Limit; l.Instances == 0 || l.Cores == 0 || l.RAM == 0 {
		t.Errorf("limits are %+v; 0 means that nothing can be created, no limit is %d", l, resources.Unlimited)
	}
	if !s.Alone {
		return
	}
	spec := s.spec()
	s.create(t, spec)
	made := s.ready(t, s.Cloud, spec)
	s.eventually(t, func() error {
		now, err := s.Cloud.Quota(t.Context())
		if err != nil {
			return err
		}
		got := now.Used
		want := before.Used.Plus(made.Resources)
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("used (-want +got):\n%s", diff)
		}
		return nil
	})
}

func quotaRefuses(t *testing.T, s *suite) {
	s.FillQuota(t)
	i, err := s.Cloud.Create(t.Context(), s.spec())
	if !errors.Is(err, drivers.ErrQuota) {
		t.Errorf("Create = %s, %v; want ErrQuota", i.ID, err)
	}
	if err != nil && !drivers.IsNothingDone(err) {
		t.Errorf("the error does not prove that nothing was done: %v", err)
	}
}

func advanceReady(t *testing.T, s *suite) {
	spec := s.spec()
	s.create(t, spec)
	now := s.ready(t, s.Cloud, spec)
	again, err := s.Cloud.Advance(t.Context(), spec, now)
	testutil.Must(t, err)
	if diff := cmp.Diff(now, again); diff != "" {
		t.Errorf("Advance changed a ready instance (-before +after):\n%s", diff)
	}
}
