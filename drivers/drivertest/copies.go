package drivertest

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

// copyTests test objects to which a cloud, a backup tool or another user has copied ownership tags, and objects that npctl has
// released: nothing of both is npctl's.
func copyTests() []test {
	return []test{
		{"CopiesOfAnInstanceAreForeign", []string{"Copies"}, instanceIsCopied},
		{"CopiesOfAnImageAreForeign", []string{"images", "Copies"}, imageIsCopied},
		{"ReleasedInstanceStays", []string{"adopter"}, releasedInstanceStays},
		{"ReleasedImageStays", []string{"adopter", "images"}, releasedImageStays},
	}
}

func instanceIsCopied(t *testing.T, s *suite) {
	spec := s.spec()
	s.create(t, spec)
	made := s.ready(t, s.Cloud, spec)
	copies := s.copies(t, resources.KindNode, made.ID)
	s.foreign(t, copies, spec.Marks)
	if now, err := s.listed(t.Context(), s.reopened(t), spec.Marks.ID); err != nil || now.ID != made.ID {
		t.Errorf("listed is %s, %v; want %s", now.ID, err, made.ID)
	}
	spec.MaybeCreated = true
	if again, err := s.Cloud.Create(t.Context(), spec); err != nil || again.ID != made.ID {
		t.Errorf("Create again = %s, %v; want %s", again.ID, err, made.ID)
	}
	s.deleted(t, made.ID, spec)
	s.foreign(t, copies, spec.Marks)
	again, err := s.Cloud.Create(t.Context(), spec)
	testutil.Must(t, err)
	if slices.ContainsFunc(copies, func(f Foreign) bool { return f.ID == again.ID }) {
		t.Errorf("Create without the original found the copy %s", again.ID)
	}
	again = s.ready(t, s.Cloud, spec)
	s.deleted(t, again.ID, spec)
	s.foreign(t, copies, spec.Marks)
}

func imageIsCopied(t *testing.T, s *suite) {
	content := s.content()
	spec := s.imageSpec(content)
	upload := func() resources.RemoteImage {
		made, err := s.images(t).UploadImage(t.Context(), spec, bytes.NewReader(content))
		testutil.Must(t, err)
		return s.readyImage(t, made.ID, spec.Marks)
	}
	copies := s.copies(t, resources.KindUpload, upload().ID)
	s.foreign(t, copies, spec.Marks)
	spec.MaybeCreated = true // deletes what an earlier attempt has left
	made := upload()
	s.foreign(t, copies, spec.Marks)
	s.imageGoes(t, made)
	s.foreign(t, copies, spec.Marks)
}

// WithoutObject returns ownership tags without drivers.TagObject, as older versions of npctl wrote them: the type of the object
// distinguishes copies of them.
func WithoutObject(tags map[string]string) map[string]string {
	tags = maps.Clone(tags)
	delete(tags, drivers.TagObject)
	return tags
}

func (s *suite) copies(t *testing.T, kind resources.Kind, original string) []Foreign {
	t.Helper()
	copies := s.Copies(t, kind, original)
	if len(copies) == 0 {
		t.Fatal("Copies copied nothing")
	}
	return copies
}

// foreign checks that no list has copies with ownership tags, that no deletion deletes them, and that npctl issues no access to them.
func (s *suite) foreign(t *testing.T, copies []Foreign, marks resources.OwnerTags) {
	t.Helper()
	isCopy := func(id string) bool { return slices.ContainsFunc(copies, func(f Foreign) bool { return f.ID == id }) }
	for what, id := range s.owned(t, s.ofThisTest) {
		if isCopy(id) {
			t.Errorf("the copy %s is listed as npctl's", what)
		}
	}
	store, _ := drivers.ImagesOf(s.Cloud)
	sweeper, _ := drivers.SweeperOf(s.Cloud)
	accessor, _ := drivers.AccessorOf(s.Cloud)
	for _, one := range copies {
		if accessor != nil {
			if _, err := accessor.Access(t.Context(), one.ID); err == nil {
				t.Errorf("npctl has access to the copy %s", one.ID)
			}
		}
		// The error depends on the cloud, for which most of these calls name no object of their kind.
		_ = s.Cloud.Delete(t.Context(), one.ID, marks)
		if store != nil {
			_ = store.DeleteImage(t.Context(), one.ID, marks)
		}
		for _, kind := range resources.LeftoverTypes {
			if sweeper != nil {
				_ = sweeper.DeleteLeftover(t.Context(), resources.Leftover{Type: kind, ID: one.ID, Name: one.ID, Marks: marks})
			}
		}
		if err := one.Stays(); err != nil {
			t.Errorf("the copy %s: %v", one.ID, err)
		}
	}
}

func (s *suite) ofThisTest(marks resources.OwnerTags) bool {
	return marks.Installation == s.installation
}

// owned returns the IDs of everything that the cloud lists with such ownership tags, with descriptions.
func (s *suite) owned(t *testing.T, with func(resources.OwnerTags) bool) map[string]string {
	t.Helper()
	found := map[string]string{}
	list, err := s.Cloud.List(t.Context())
	testutil.Must(t, err)
	for _, i := range list {
		if with(i.Marks) {
			found["instance "+i.ID] = i.ID
		}
	}
	if store, ok := drivers.ImagesOf(s.Cloud); ok {
		images, err := store.ListImages(t.Context())
		testutil.Must(t, err)
		for _, i := range images {
			if with(i.Marks) {
				found["image "+i.ID] = i.ID
			}
		}
	}
	if sweeper, ok := drivers.SweeperOf(s.Cloud); ok {
		left, err := sweeper.Leftovers(t.Context())
		testutil.Must(t, err)
		for _, l := range left {
			if with(l.Marks) {
				found[l.Type+" "+l.ID] = l.ID
			}
		}
	}
	return found
}

func releasedInstanceStays(t *testing.T, s *suite) {
	spec := s.spec()
	s.create(t, spec)
	made := s.ready(t, s.Cloud, spec)
	for _, left := range s.leaveAll(t) {
		s.sweep(left.Type).seen(t, left.ID, false)
	}
	s.released(t, resources.KindNode, made.ID, spec.Marks)
	s.adopt(t, made.ID, spec.Marks, resources.OwnerTags{}) // the suite deletes it
}

func releasedImageStays(t *testing.T, s *suite) {
	content := s.content()
	spec, other := s.imageSpec(content), s.imageSpec(content)
	made, err := s.images(t).UploadImage(t.Context(), spec, bytes.NewReader(content))
	testutil.Must(t, err)
	s.readyImage(t, made.ID, spec.Marks)
	kept, err := s.images(t).UploadImage(t.Context(), other, bytes.NewReader(content))
	testutil.Must(t, err)
	s.readyImage(t, kept.ID, other.Marks)
	s.released(t, resources.KindUpload, made.ID, spec.Marks)
	s.adopt(t, made.ID, spec.Marks, resources.OwnerTags{})
}

// released releases an object. No list may have anything of its record then, but all that it had of other records.
func (s *suite) released(t *testing.T, kind resources.Kind, id string, marks resources.OwnerTags) {
	t.Helper()
	adopter, _ := drivers.AdopterOf(s.Cloud)
	others := s.owned(t, func(m resources.OwnerTags) bool { return s.ofThisTest(m) && !m.SameRecord(marks) })
	testutil.Must(t, adopter.Release(t.Context(), id, marks))
	s.eventually(t, func() error {
		for what := range s.owned(t, marks.SameRecord) {
			return fmt.Errorf("the released %s is listed as npctl's", what)
		}
		now := s.owned(t, s.ofThisTest)
		for what := range others {
			if now[what] == "" {
				return fmt.Errorf("%s of another record is not listed", what)
			}
		}
		return nil
	})
	object, found, err := adopter.LookUp(t.Context(), kind, id)
	if err != nil || !found || object.Facts().Marks != (resources.OwnerTags{}) {
		t.Errorf("LookUp of the released %s = %+v, %t, %v", kind, object, found, err)
	}
}
