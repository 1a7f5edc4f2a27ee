package drivertest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

// foreignTests prove that a plan changes nothing, and that objects of others stay which a driver could take for its own.
func foreignTests() []test {
	return []test{
		{"ReadingChangesNothing", []string{"Kill"}, readingChangesNothing},
		{"NeighboursStay", []string{"Neighbours"}, neighboursStay},
	}
}

// seesChanges reports whether the suite can notice a change by a read.
func (s *suite) seesChanges() bool { return s.Kill != nil || s.Files != nil }

// readingChangesNothing reads a project that has all kinds of objects, also by a client that has deleted an instance.
func readingChangesNothing(t *testing.T, s *suite) {
	node, upload, content := s.foreignSpecs()
	if s.Neighbours != nil {
		s.Neighbours(t, node, upload)
	}
	s.checkReads(t, "before the first object")
	s.create(t, node)
	s.ready(t, s.Cloud, node)
	if !s.lacks("images") {
		_, err := s.images(t).UploadImage(t.Context(), upload, bytes.NewReader(content))
		testutil.Must(t, err)
	}
	s.leaveAll(t)
	s.checkReads(t, "of all kinds of objects")
	k := &testutil.Killer{}
	c := s.Kill(t, k)
	spec := s.spec()
	_, err := c.Create(t.Context(), spec)
	testutil.Must(t, err)
	made := s.ready(t, c, spec)
	testutil.Must(t, c.Delete(t.Context(), made.ID, spec.Marks))
	s.unlisted(t, s.Cloud, made.ID) // a listing by c could change something already
	k.Revive(1)
	err = s.readAll(t.Context(), c)
	if where, changed := k.Died(); changed || err != nil {
		t.Errorf("reading the project by the client that has deleted an instance: changes %q, error %v", where, err)
	}
}

// foreignSpecs are a node and an upload.
func (s *suite) foreignSpecs() (node drivers.Spec, upload drivers.ImageSpec, content []byte) {
	content = s.content()
	return s.spec(), s.imageSpec(content), content
}

// checkReads opens the project and makes each call of a plan: none of them may change anything. It runs after every
// interruption, too, since unfinished work tempts a driver to tidy up.
func (s *suite) checkReads(t *testing.T, when string) {
	t.Helper()
	if !s.seesChanges() {
		return
	}
	var before []string
	if s.Files != nil {
		before = s.Files(t)
	}
	k := &testutil.Killer{}
	c := s.reader(t, k)
	defer c.Close() //nolint:errcheck // of a test
	if n := k.Points(); n > 0 {
		t.Errorf("%s: opening the project made %d points of changing calls", when, n)
	}
	k.Revive(1)
	err := s.readAll(t.Context(), c)
	if where, changed := k.Died(); changed {
		t.Errorf("%s: reading the project changes it: %s", when, where)
	} else if err != nil {
		t.Errorf("%s: reading the project: %v", when, err)
	}
	if s.Files != nil {
		if diff := cmp.Diff(before, s.Files(t)); diff != "" {
			t.Errorf("%s: opening and reading the project changed files (-before +after):\n%s", when, diff)
		}
	}
}

// reader opens the project for a client that k sees, if the project has such clients.
func (s *suite) reader(t *testing.T, k *testutil.Killer) drivers.Cloud {
	t.Helper()
	if s.Kill != nil {
		return s.Kill(t, k)
	}
	return s.reopened(t)
}

// readAll makes all calls that a plan makes.
func (s *suite) readAll(ctx context.Context, c drivers.Cloud) error {
	_, listErr := c.List(ctx)
	_, quotaErr := c.Quota(ctx)
	all := []error{listErr, quotaErr}
	if store, ok := drivers.ImagesOf(c); ok {
		_, err := store.ListImages(ctx)
		all = append(all, err)
	}
	if sweeper, ok := drivers.SweeperOf(c); ok {
		_, err := sweeper.Leftovers(ctx)
		all = append(all, err)
	}
	if adopter, ok := drivers.AdopterOf(c); ok {
		_, err := adopter.ListOthers(ctx)
		_, _, lookErr := adopter.LookUp(ctx, resources.KindNode, "00000000-0000-4000-8000-00000000dead")
		all = append(all, err, lookErr)
	}
	if resolver, ok := drivers.ResolverOf(c); ok {
		_, _, err := resolver.ResolveOffer(ctx, s.Config)
		all = append(all, err)
		if !s.lacks("cloud images") {
			_, _, err := resolver.ResolveImage(ctx, resources.CloudImageSpec{Name: "x", ImageID: s.ImageID})
			all = append(all, err)
		}
	}
	return errors.Join(all...)
}

// neighboursStay works beside objects of others that resemble those of npctl.
func neighboursStay(t *testing.T, s *suite) {
	node, upload, content := s.foreignSpecs()
	neighbours := s.Neighbours(t, node, upload)
	if len(neighbours) == 0 {
		t.Fatal("Neighbours created nothing")
	}
	stay := func(after string) {
		t.Helper()
		for _, n := range neighbours {
			if err := n.Stays(); err != nil {
				t.Errorf("after %s: neighbour %s: %v", after, n.ID, err)
			}
		}
	}
	stay("their creation")
	testutil.Must(t, s.readAll(t.Context(), s.reopened(t)))
	stay("a plan")
	s.nothingOurs(t)
	for range 2 { // the second time there are files and caches of the first
		s.create(t, node)
		made := s.ready(t, s.Cloud, node)
		stay("a launch")
		s.uploadAndDelete(t, upload, content)
		stay("an upload and its deletion")
		s.deleteAll(t, neighbours, node.Marks, upload.Marks)
		stay("deletions that expect npctl's ownership tags")
		s.deleted(t, made.ID, node)
		stay("the deletion of an instance")
		testutil.Must(t, s.reopened(t).Delete(t.Context(), made.ID, node.Marks))
		testutil.Must(t, s.readAll(t.Context(), s.reopened(t)))
		stay("the next plan")
		s.nothingOurs(t)
		node, upload, content = s.foreignSpecs()
	}
}

func (s *suite) uploadAndDelete(t *testing.T, upload drivers.ImageSpec, content []byte) {
	t.Helper()
	if s.lacks("images") {
		return
	}
	image, err := s.images(t).UploadImage(t.Context(), upload, bytes.NewReader(content))
	testutil.Must(t, err)
	s.imageGoes(t, image)
}

// deleteAll tries to delete objects of others as an instance and as an image. How the calls fail is up to the driver.
func (s *suite) deleteAll(t *testing.T, objects []Foreign, node, upload resources.OwnerTags) {
	t.Helper()
	store, hasImages := drivers.ImagesOf(s.Cloud)
	for _, object := range objects {
		_ = s.Cloud.Delete(t.Context(), object.ID, node)
		if hasImages {
			_ = store.DeleteImage(t.Context(), object.ID, upload)
		}
	}
}

// nothingOurs checks that a project without objects of this test lists none.
func (s *suite) nothingOurs(t *testing.T) {
	t.Helper()
	ours := func(id string, m resources.OwnerTags) {
		t.Helper()
		if m.Installation == s.installation {
			t.Errorf("%s is listed with npctl's ownership tags %+v", id, m)
		}
	}
	c := s.reopened(t)
	instances, err := c.List(t.Context())
	for _, i := range instances {
		ours(i.ID, i.Marks)
	}
	if store, ok := drivers.ImagesOf(c); ok {
		images, listErr := store.ListImages(t.Context())
		err = errors.Join(err, listErr)
		for _, i := range images {
			ours(i.ID, i.Marks)
		}
	}
	testutil.Must(t, err)
	s.eventually(t, func() error { return s.noLeftovers(t.Context(), c) })
}

// noLeftovers returns an error while leftovers of this test are listed.
func (s *suite) noLeftovers(ctx context.Context, c drivers.Cloud) error {
	sweeper, ok := drivers.SweeperOf(c)
	if !ok {
		return nil
	}
	left, err := sweeper.Leftovers(ctx)
	for _, l := range left {
		if l.Marks.Installation == s.installation {
			err = fmt.Errorf("%s %s is listed as a leftover", l.Type, l.ID)
		}
	}
	return err
}

// ForeignFile is a file, link or directory of others, with all that is in it and with the file to which it leads.
func ForeignFile(t *testing.T, path string) Foreign {
	t.Helper()
	content := func() []string {
		return slices.Concat(FilesIn(t, path), FilesIn(t, path+string(filepath.Separator)+"."))
	}
	before := content()
	return Foreign{ID: filepath.Base(path), Stays: func() error {
		if now := content(); !slices.Equal(now, before) {
			return fmt.Errorf("its files are %q, were %q", now, before)
		}
		return nil
	}}
}

// FilesIn returns the sorted kinds and paths of the files, directories and links in a directory, with the targets of links and
// the checksums of files. Files with one of the volatile names have no checksum, because others write them.
func FilesIn(t *testing.T, dir string, volatile ...string) (all []string) {
	t.Helper()
	if _, err := os.Lstat(dir); err != nil {
		return nil
	}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		kind, detail := "file", ""
		switch {
		case entry.IsDir():
			kind = "directory"
		case entry.Type()&fs.ModeSymlink != 0:
			kind = "link"
			detail, err = os.Readlink(path)
		case !slices.Contains(volatile, entry.Name()):
			var content []byte
			content, err = os.ReadFile(path)
			detail = fmt.Sprintf("%x", sha256.Sum256(content))
		}
		inside, relErr := filepath.Rel(dir, path)
		all = append(all, strings.TrimSpace(kind+" "+inside+" "+detail))
		return errors.Join(err, relErr)
	})
	testutil.Must(t, err)
	slices.Sort(all)
	return all
}
