package drivertest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

func snapshotTests() []test {
	has, damages := []string{"snapshots"}, []string{"snapshots", "Damage"}
	return []test{
		{"AbilityMatchesSetup", nil, func(t *testing.T, s *suite) {
			_, ok := drivers.SnapshotterOf(s.Cloud)
			s.checkAbility(t, "snapshots", ok)
		}},
		{"SnapshotIsListedReadAndDeleted", has, snapshotIsRead},
		{"MarksOfABuildAreOnInstanceAndSnapshot", has, buildMarks},
		{"InstanceWithASnapshotUnderWayGoes", has, deleteDuringSnapshot},
		{"SnapshotOfNothingIsRejected", has, snapshotOfNothing},
		{"OfferWithoutSnapshotsIsRejected", []string{"snapshots", "NoSnapshot"}, noSnapshot},
		{"ImageThatIsNotThereCannotBeRead", has, readNothing},
		{"ReadingEndsWithItsContext", has, readCancelled},
		{"ContentThatIsCutIsAnError", damages, func(t *testing.T, s *suite) { readDamaged(t, s, "cut") }},
		{"ContentThatIsChangedIsAnError", damages, func(t *testing.T, s *suite) { readDamaged(t, s, "changed") }},
	}
}

func (s *suite) snapshots(t *testing.T) drivers.Snapshotter {
	t.Helper()
	snapshots, ok := drivers.SnapshotterOf(s.Cloud)
	if !ok {
		t.Fatal("the Cloud is not a Snapshotter")
	}
	return snapshots
}

// buildSpec returns the Spec of a build instance.
func (s *suite) buildSpec() drivers.Spec {
	spec := s.spec()
	spec.Marks.Kind, spec.Marks.ID, spec.Marks.Hash = resources.KindBuild, randomHex(16), ""
	spec.Hostname = "npctl-build-" + spec.Marks.ID[:8]
	return spec
}

// snapshot creates an image of a new instance and waits until it is ready.
func (s *suite) snapshot(t *testing.T) (drivers.Spec, resources.RemoteImage) {
	t.Helper()
	spec := s.buildSpec()
	s.create(t, spec)
	now := s.ready(t, s.Cloud, spec)
	id, err := s.snapshots(t).Snapshot(t.Context(), now.ID, "drivertest-snapshot", spec.Marks)
	testutil.Must(t, err)
	return spec, s.readyImage(t, id, spec.Marks)
}

func (s *suite) readyImage(t *testing.T, id string, marks resources.OwnerTags) resources.RemoteImage {
	t.Helper()
	var image resources.RemoteImage
	s.eventually(t, func() (err error) {
		var found bool
		image, found, err = s.listedImage(t.Context(), s.images(t), marks.ID)
		switch {
		case err != nil:
			return err
		case !found:
			return fmt.Errorf("image %s is not listed", id)
		case image.Status != resources.StatusReady:
			return fmt.Errorf("image %s is %s", id, image.Status)
		}
		return nil
	})
	if image.ID != id {
		t.Errorf("listed is image %s, want %s", image.ID, id)
	}
	return image
}

func snapshotIsRead(t *testing.T, s *suite) {
	_, image := s.snapshot(t)
	content, returned, err := s.snapshots(t).ReadImage(t.Context(), image.ID)
	testutil.Must(t, err)
	sum := sha256.New()
	size, err := io.Copy(sum, content)
	testutil.Must(t, errors.Join(err, content.Close()))
	if diff := cmp.Diff(image, returned); diff != "" {
		t.Errorf("ReadImage returned another image (-listed +read):\n%s", diff)
	}
	if size == 0 || size != returned.Size || returned.Format == "" {
		t.Errorf("read %d bytes of %d, in format %q", size, returned.Size, returned.Format)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); returned.SHA256 != "" && returned.SHA256 != got {
		t.Errorf("SHA-256 is %s, ReadImage returned %s", got, returned.SHA256)
	}
	s.imageGoes(t, image)
}

func (s *suite) imageGoes(t *testing.T, image resources.RemoteImage) {
	t.Helper()
	store := s.images(t)
	testutil.Must(t, store.DeleteImage(t.Context(), image.ID, image.Marks))
	s.eventually(t, func() error {
		now, found, err := s.listedImage(t.Context(), store, image.Marks.ID)
		if found {
			err = fmt.Errorf("image %s is still listed, as %s", now.ID, now.Status)
		}
		return err
	})
}

func buildMarks(t *testing.T, s *suite) {
	spec, image := s.snapshot(t)
	for what, c := range map[string]drivers.Cloud{"Cloud": s.Cloud, "reopened Cloud": s.reopened(t)} {
		now, err := s.listed(t.Context(), c, spec.Marks.ID)
		testutil.Must(t, err)
		if diff := cmp.Diff(spec.Marks, now.Marks); diff != "" {
			t.Errorf("marks of the instance in the %s (-want +got):\n%s", what, diff)
		}
	}
	if diff := cmp.Diff(spec.Marks, image.Marks); diff != "" {
		t.Errorf("marks of the snapshot (-want +got):\n%s", diff)
	}
}

// A cancelled build deletes the instance while the cloud still creates its snapshot, and then the unfinished image.
func deleteDuringSnapshot(t *testing.T, s *suite) {
	spec := s.buildSpec()
	s.create(t, spec)
	now := s.ready(t, s.Cloud, spec)
	id, err := s.snapshots(t).Snapshot(t.Context(), now.ID, "drivertest-snapshot", spec.Marks)
	testutil.Must(t, err)
	testutil.Must(t, s.Cloud.Delete(t.Context(), now.ID, spec.Marks))
	testutil.Must(t, s.images(t).DeleteImage(t.Context(), id, spec.Marks))
	s.gone(t, s.Cloud, now.ID)
	s.eventually(t, func() error {
		now, found, err := s.listedImage(t.Context(), s.images(t), spec.Marks.ID)
		if found {
			err = fmt.Errorf("image %s is listed, as %s", now.ID, now.Status)
		}
		return err
	})
}

func snapshotOfNothing(t *testing.T, s *suite) {
	id, err := s.snapshots(t).Snapshot(t.Context(), "00000000-0000-4000-8000-00000000dead", "drivertest-snapshot", s.buildSpec().Marks)
	if !errors.Is(err, drivers.ErrRejected) {
		t.Errorf("Snapshot of no instance = %q, %v; want ErrRejected", id, err)
	}
}

func noSnapshot(t *testing.T, s *suite) {
	checker, ok := drivers.As[drivers.SnapshotChecker](s.Cloud)
	if !ok {
		t.Fatal("the Cloud is not a SnapshotChecker")
	}
	if err := checker.CheckSnapshot(s.NoSnapshot); !errors.Is(err, drivers.ErrRejected) {
		t.Errorf("CheckSnapshot of an unsuitable offer: %v, want ErrRejected", err)
	}
	if err := checker.CheckSnapshot(s.Config); err != nil {
		t.Errorf("CheckSnapshot of a suitable offer: %v", err)
	}
	spec := s.buildSpec()
	spec.Config = s.NoSnapshot
	s.create(t, spec)
	now := s.ready(t, s.Cloud, spec)
	if _, err := s.snapshots(t).Snapshot(t.Context(), now.ID, "drivertest-snapshot", spec.Marks); !errors.Is(err, drivers.ErrRejected) {
		t.Errorf("Snapshot: %v, want ErrRejected", err)
	}
}

func readNothing(t *testing.T, s *suite) {
	content, _, err := s.snapshots(t).ReadImage(t.Context(), "00000000-0000-4000-8000-00000000dead")
	if err == nil {
		_ = content.Close()
	}
	if !errors.Is(err, drivers.ErrRejected) {
		t.Errorf("ReadImage of no image: %v, want ErrRejected", err)
	}
}

func readCancelled(t *testing.T, s *suite) {
	_, image := s.snapshot(t)
	ctx, cancel := context.WithCancel(t.Context())
	content, _, err := s.snapshots(t).ReadImage(ctx, image.ID)
	testutil.Must(t, err)
	cancel()
	n, err := io.Copy(io.Discard, content)
	if err == nil && n < image.Size {
		t.Errorf("reading after the context ended: %d bytes of %d and no error", n, image.Size)
	}
	_ = content.Close()
	if _, err := content.Read(make([]byte, 1)); err == nil {
		t.Error("content could be read after Close")
	}
}

func readDamaged(t *testing.T, s *suite, how string) {
	_, image := s.snapshot(t)
	s.Damage(t, how)
	content, _, err := s.snapshots(t).ReadImage(t.Context(), image.ID)
	testutil.Must(t, err)
	n, err := io.Copy(io.Discard, content)
	_ = content.Close()
	if err == nil || !strings.Contains(err.Error(), image.ID) {
		t.Errorf("reading an image that was %s: %d bytes, %v; want an error that names the image", how, n, err)
	}
}
