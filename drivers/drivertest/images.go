package drivertest

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // an image's checksum
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

func imageTests() []test {
	has := []string{"images"}
	return []test{
		{"AbilityMatchesSetup", nil, func(t *testing.T, s *suite) { _, ok := drivers.ImagesOf(s.Cloud); s.checkAbility(t, "images", ok) }},
		{"UploadedImageIsWhatWasSent", has, uploadedIsListed},
		{"DeletedImageGoesAndMayBeDeletedAgain", has, deleteImageTwice},
		{"RetriedUploadRemovesWhatTheEarlierOneLeft", has, retriedUpload},
		{"ImageOfAnotherRecordIsLeftAlone", has, imageOfAnotherRecord},
		{"ImageOfOthersIsLeftAlone", []string{"images", "ForeignImage"}, imageOfOthers},
		{"ContentWithAnotherSumIsRejected", has, wrongSum},
		{"ContentThatEndsEarlyLeavesNothingUsable", has, endsEarly},
		{"ContentThatFailsLeavesNothingUsable", has, readerFails},
		{"CancelledUploadEndsAndLeavesNothingUsable", has, cancelledUpload},
	}
}

func (s *suite) checkAbility(t *testing.T, ability string, there bool) {
	t.Helper()
	if there == s.lacks(ability) {
		t.Errorf("ability %s: the Cloud has it: %t, Setup.Lacks names it: %t", ability, there, s.lacks(ability))
	}
}

func (s *suite) images(t *testing.T) drivers.ImageStore {
	t.Helper()
	store, ok := drivers.ImagesOf(s.Cloud)
	if !ok {
		t.Fatal("the Cloud has no images")
	}
	return store
}

func (s *suite) imageSpec(content []byte) drivers.ImageSpec {
	id := fmt.Sprintf("%010d", s.first+s.nodes.Add(1))
	sum256, sum5 := sha256.Sum256(content), md5.Sum(content) //nolint:gosec // an image's checksum
	return drivers.ImageSpec{
		Marks: resources.OwnerTags{
			Installation: s.installation, Kind: resources.KindUpload, ID: id, Provider: "drivertest",
			Image: "debian", Build: randomHex(16), Hash: "v1:0123456789abcdef0123456789abcdef",
		},
		Name:       "drivertest-" + id,
		Format:     s.ImageFormat,
		Size:       int64(len(content)),
		SHA256:     hex.EncodeToString(sum256[:]),
		MD5:        hex.EncodeToString(sum5[:]),
		Properties: map[string]string{"os_distro": "debian", "purpose": "drivertest"},
		Tags:       []string{"drivertest"},
	}
}

func (s *suite) listedImage(ctx context.Context, store drivers.ImageStore, upload string) (resources.RemoteImage, bool, error) {
	list, err := store.ListImages(ctx)
	i := slices.IndexFunc(list, func(i resources.RemoteImage) bool {
		return i.Marks.Installation == s.installation && i.Marks.ID == upload
	})
	if err != nil || i < 0 {
		return resources.RemoteImage{}, false, err
	}
	return list[i], true, nil
}

func uploadedIsListed(t *testing.T, s *suite) {
	store := s.images(t)
	content := s.content()
	spec := s.imageSpec(content)
	var sent int64
	spec.Progress = func(n int64) { sent = n }
	made, err := store.UploadImage(t.Context(), spec, bytes.NewReader(content))
	testutil.Must(t, err)
	if sent != spec.Size {
		t.Errorf("progress ended at %d of %d bytes", sent, spec.Size)
	}
	var now resources.RemoteImage
	s.eventually(t, func() error {
		var found bool
		now, found, err = s.listedImage(t.Context(), store, spec.Marks.ID)
		if err == nil && !found {
			err = errors.New("the uploaded image is not listed")
		}
		return err
	})
	for name, got := range map[string]resources.RemoteImage{"returned": made, "listed": now} {
		want := got
		want.Name, want.Marks, want.Status, want.Format, want.Size, want.SHA256 = spec.Name, spec.Marks, resources.StatusReady, spec.Format, spec.Size, spec.SHA256
		if diff := cmp.Diff(want, got); diff != "" || got.ID == "" {
			t.Errorf("%s image %q (-want +got):\n%s", name, got.ID, diff)
		}
		for key, value := range spec.Properties {
			if got.Properties[key] != value {
				t.Errorf("%s image has %s = %q, want %q", name, key, got.Properties[key], value)
			}
		}
	}
	if made.ID != now.ID {
		t.Errorf("listed as %s, returned as %s", now.ID, made.ID)
	}
}

func deleteImageTwice(t *testing.T, s *suite) {
	store := s.images(t)
	content := s.content()
	spec := s.imageSpec(content)
	made, err := store.UploadImage(t.Context(), spec, bytes.NewReader(content))
	testutil.Must(t, err)
	testutil.Must(t, store.DeleteImage(t.Context(), made.ID, spec.Marks))
	s.eventually(t, func() error {
		now, found, err := s.listedImage(t.Context(), store, spec.Marks.ID)
		if found {
			err = fmt.Errorf("image %s is still listed, as %s", now.ID, now.Status)
		}
		return err
	})
	if err := store.DeleteImage(t.Context(), made.ID, spec.Marks); err != nil {
		t.Errorf("DeleteImage once it is gone: %v", err)
	}
}

func retriedUpload(t *testing.T, s *suite) {
	store := s.images(t)
	content := s.content()
	spec := s.imageSpec(content)
	first, err := store.UploadImage(t.Context(), spec, bytes.NewReader(content))
	testutil.Must(t, err)
	s.eventually(t, func() error {
		_, found, err := s.listedImage(t.Context(), store, spec.Marks.ID)
		if err == nil && !found {
			err = errors.New("the uploaded image is not listed")
		}
		return err
	})
	other := s.imageSpec(content)
	kept, err := store.UploadImage(t.Context(), other, bytes.NewReader(content))
	testutil.Must(t, err)
	s.readyImage(t, kept.ID, other.Marks)
	spec.MaybeCreated = true
	second, err := store.UploadImage(t.Context(), spec, bytes.NewReader(content))
	testutil.Must(t, err)
	s.readyImage(t, kept.ID, other.Marks)
	s.eventually(t, func() error {
		list, err := store.ListImages(t.Context())
		var ids []string
		for _, i := range list {
			if i.Marks.Installation == s.installation && i.Marks.ID == spec.Marks.ID {
				ids = append(ids, i.ID)
			}
		}
		if err == nil && !slices.Equal(ids, []string{second.ID}) {
			err = fmt.Errorf("images with the marks are %v, want %s; the first was %s", ids, second.ID, first.ID)
		}
		return err
	})
}

func imageOfAnotherRecord(t *testing.T, s *suite) {
	store := s.images(t)
	content := s.content()
	spec := s.imageSpec(content)
	made, err := store.UploadImage(t.Context(), spec, bytes.NewReader(content))
	testutil.Must(t, err)
	for name, marks := range otherMarks(spec.Marks) {
		if err := store.DeleteImage(t.Context(), made.ID, marks); !errors.Is(err, drivers.ErrNotOurs) {
			t.Errorf("DeleteImage that expects %s: %v, want ErrNotOurs", name, err)
		}
	}
	if now, found, err := s.listedImage(t.Context(), store, spec.Marks.ID); err != nil || !found || now.Status != resources.StatusReady {
		t.Errorf("the image is %+v, %v; want it unchanged", now, err)
	}
}

func imageOfOthers(t *testing.T, s *suite) {
	store, marks := s.images(t), s.imageSpec(nil).Marks
	foreign := s.ForeignImage(t)
	if err := store.DeleteImage(t.Context(), foreign.ID, marks); !errors.Is(err, drivers.ErrNotOurs) {
		t.Errorf("DeleteImage: %v, want ErrNotOurs", err)
	}
	if err := foreign.Stays(); err != nil {
		t.Error(err)
	}
	images, err := store.ListImages(t.Context())
	testutil.Must(t, err)
	if i := slices.IndexFunc(images, func(i resources.RemoteImage) bool { return i.Marks.Installation == "" }); i >= 0 {
		t.Errorf("image %s is listed, without ownership tags", images[i].ID)
	}
}

func wrongSum(t *testing.T, s *suite) {
	content := s.content()
	spec := s.imageSpec(content)
	content[len(content)/2] ^= 1
	err := s.failingUpload(t.Context(), t, spec, bytes.NewReader(content))
	if !errors.Is(err, drivers.ErrRejected) {
		t.Errorf("UploadImage of a changed file: %v, want ErrRejected", err)
	}
}

func endsEarly(t *testing.T, s *suite) {
	content := s.content()
	spec := s.imageSpec(content)
	_ = s.failingUpload(t.Context(), t, spec, bytes.NewReader(content[:len(content)/2]))
}

func readerFails(t *testing.T, s *suite) {
	content := s.content()
	_ = s.failingUpload(t.Context(), t, s.imageSpec(content), &brokenReader{Reader: bytes.NewReader(content), left: len(content) / 2})
}

func cancelledUpload(t *testing.T, s *suite) {
	content := s.content()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_ = s.failingUpload(ctx, t, s.imageSpec(content), &brokenReader{Reader: bytes.NewReader(content), left: len(content) / 2, then: cancel})
}

// failingUpload makes an upload that must fail. It returns the error and checks that no bootable image remains.
func (s *suite) failingUpload(ctx context.Context, t *testing.T, spec drivers.ImageSpec, content io.ReadSeeker) error {
	t.Helper()
	store := s.images(t)
	made, err := store.UploadImage(ctx, spec, content)
	if err == nil {
		t.Fatalf("UploadImage = %s, want an error", made.ID)
	}
	s.eventually(t, func() error {
		now, found, err := s.listedImage(t.Context(), store, spec.Marks.ID)
		if found && now.Status == resources.StatusReady {
			return fmt.Errorf("image %s is ready", now.ID)
		}
		return err
	})
	return err
}

// brokenReader fails after a number of bytes, or calls a function instead.
type brokenReader struct {
	*bytes.Reader
	left int
	then func()
}

func (r *brokenReader) Read(p []byte) (int, error) {
	if r.left <= 0 && r.then == nil {
		return 0, errors.New("disk on fire")
	}
	if r.left <= 0 {
		r.then()
	}
	n, err := r.Reader.Read(p[:min(len(p), 4096)])
	r.left -= n
	return n, err
}

// WriteTo hides bytes.Reader's WriteTo, which would bypass Read.
func (r *brokenReader) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, struct{ io.Reader }{r})
}
