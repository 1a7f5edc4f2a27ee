package qemu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/imagefile"
	"github.com/npctl/npctl/internal/qemuimg"
	"github.com/npctl/npctl/resources"
)

func partName(path string) string { return imagefile.PartName(path) }

// UploadImage implements drivers.ImageStore: it copies the content, leaves holes for zeros, and verifies the sums.
func (s *imageStore) UploadImage(ctx context.Context, spec drivers.ImageSpec, content io.ReadSeeker) (resources.RemoteImage, error) {
	doing := "upload image " + spec.Name
	if err := ctx.Err(); err != nil {
		return resources.RemoteImage{}, drivers.Unsent(fmt.Errorf("%s: %w", doing, err))
	}
	if spec.Format != formatQcow2 && spec.Format != formatRaw {
		return resources.RemoteImage{}, drivers.Rejectf("%s: QEMU boots from qcow2 and raw, not from %s", doing, spec.Format)
	}
	i := image{ID: idOf(spec.Marks), Name: spec.Name, Tags: resources.OwnerJSON(spec.Marks), Format: spec.Format, Size: spec.Size, SHA256: spec.SHA256,
		Created: time.Now().UTC().Round(0), Properties: spec.Properties, ImageTags: spec.Tags}
	if err := s.fill(ctx, &i, spec, content); err != nil {
		return resources.RemoteImage{}, errors.Join(fmt.Errorf("%s: %w", doing, err), s.remove(i.ID))
	}
	return i.remote(), nil
}

// fill writes the files of an image. Those of an earlier attempt have the same names.
func (s *imageStore) fill(ctx context.Context, i *image, spec drivers.ImageSpec, content io.ReadSeeker) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	if err := s.write(*i); err != nil {
		return err
	}
	if _, err := content.Seek(0, io.SeekStart); err != nil {
		return err
	}
	part := partName(s.path(i.ID))
	if err := removeFiles(part); err != nil { // of an earlier attempt
		return err
	}
	sums, err := copyTo(ctx, part, content, spec.Progress)
	if err != nil {
		return err
	}
	if sums.Size != spec.Size || spec.SHA256 != "" && sums.SHA256 != spec.SHA256 || spec.MD5 != "" && sums.MD5 != spec.MD5 {
		return fmt.Errorf("%w: the file has changed since its build: %d bytes with SHA-256 %s, want %d with %s",
			drivers.ErrRejected, sums.Size, sums.SHA256, spec.Size, spec.SHA256)
	}
	if err := qemuimg.Check(part, spec.Format); err != nil {
		return fmt.Errorf("%w: %w", drivers.ErrRejected, err)
	}
	if err := imagefile.Publish(s.path(i.ID)); err != nil {
		return err
	}
	i.SHA256, i.Ready = sums.SHA256, true
	return s.write(*i)
}

// copyTo writes a new file and returns the sums of its content.
func copyTo(ctx context.Context, path string, content io.Reader, progress func(int64)) (imagefile.Sums, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return imagefile.Sums{}, err
	}
	out := imagefile.NewSparseWriter(file)
	sums, err := imagefile.Hash(ctx, io.TeeReader(content, out), progress)
	if err == nil {
		err = out.Finish()
	}
	return sums, errors.Join(err, file.Close())
}
