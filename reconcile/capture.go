package reconcile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/imagefile"
	"github.com/npctl/npctl/resources"
)

// Limits for the creation of a snapshot.
const (
	busyLimit   = 2 * time.Minute // how long a machine may be busy after it was shut down
	unseenLimit = 2 * time.Minute // from the request until a listing shows the image
	readsAtMost = 3               // attempts to download it
)

// Capture implements builders.Instance: the cloud creates a snapshot with ownership tags, and Capture downloads its
// content. The snapshot exists until Close.
func (b *buildInstance) Capture(ctx context.Context, path string, progress func(phase string, done, total int64)) (string, error) {
	b.captured = true // even if the request fails
	asked, err := b.requestSnapshot(ctx)
	if err != nil {
		return "", err
	}
	image, err := b.awaitSnapshot(ctx, asked)
	if err != nil {
		return "", err
	}
	if err := imagefile.CheckFree(filepath.Dir(path), image.Size); err != nil {
		return "", err
	}
	for try := 1; ; try++ {
		err := b.fetch(ctx, image, path, progress)
		if err == nil {
			return image.Format, nil
		}
		err = fmt.Errorf("fetch snapshot %s: %w", image.ID, err)
		if left := os.Remove(path); !errors.Is(left, os.ErrNotExist) {
			err = errors.Join(err, left)
		}
		if ctx.Err() != nil || try == readsAtMost || !drivers.IsTransient(err) || errors.Is(err, imagefile.ErrNoSpace) {
			return "", err
		}
		b.x.Log.Info("fetching a snapshot failed; retrying", "build", b.build, "image", image.ID, "error", err)
	}
}

// requestSnapshot requests the snapshot and returns its ID, or "" if the answer was lost. The cloud refuses while the
// machine is busy, for example while it shuts down.
func (b *buildInstance) requestSnapshot(ctx context.Context) (string, error) {
	deadline := time.Now().Add(busyLimit)
	for {
		id, err := b.snapshots.Snapshot(ctx, b.external, b.name(), b.marks())
		switch {
		case err == nil:
			return id, nil
		case ctx.Err() != nil || !drivers.IsTransient(err):
			return "", err
		case !drivers.IsNothingDone(err):
			b.x.Log.Info("it is unknown whether a snapshot is being created; searching for it", "build", b.build, "error", err)
			return "", nil
		case time.Now().After(deadline):
			return "", err
		}
		select {
		case <-time.After(pollMost):
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// awaitSnapshot waits until the image is ready. If an image disappears from the listings, the cloud has abandoned it.
func (b *buildInstance) awaitSnapshot(ctx context.Context, asked string) (resources.RemoteImage, error) {
	asking, missing := time.Now(), 0
	var last error
	seen := false
	for pause := pollLeast; ; pause = min(2*pause, pollMost) {
		found, err := imagesMarked(ctx, b.images, b.marks())
		switch i := slices.IndexFunc(found, func(i resources.RemoteImage) bool { return asked == "" || i.ID == asked }); {
		case err != nil && (rejected(err) || ctx.Err() != nil):
			return resources.RemoteImage{}, err
		case err != nil:
			last = err // a failed listing does not mean that the image is gone
		case i >= 0 && found[i].Status == resources.StatusReady:
			return found[i], nil
		case i >= 0 && found[i].Status != resources.StatusPending:
			return resources.RemoteImage{}, fmt.Errorf("the snapshot %s is %s", found[i].ID, found[i].Status)
		case i >= 0:
			seen, missing = true, 0
		default:
			missing++
		}
		if seen && missing > 2 {
			return resources.RemoteImage{}, errors.New("the cloud could not create the snapshot: its image has disappeared")
		}
		if !seen && time.Since(asking) > unseenLimit {
			return resources.RemoteImage{}, errors.Join(fmt.Errorf("no snapshot is listed %s after it was requested", unseenLimit), last)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return resources.RemoteImage{}, context.Cause(ctx)
		}
	}
}

// fetch writes the content of an image to a new file.
func (b *buildInstance) fetch(ctx context.Context, image resources.RemoteImage, path string, progress func(phase string, done, total int64)) (err error) {
	content, told, err := b.snapshots.ReadImage(ctx, image.ID)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	sparse := imagefile.NewSparseWriter(file)
	counted := &counter{to: sparse, tell: func(n int64) { progress("fetching the snapshot", n, told.Size) }}
	_, err = io.Copy(counted, io.LimitReader(content, told.Size+1))
	if err == nil && counted.n != told.Size {
		err = fmt.Errorf("it has %d bytes, expected %d", counted.n, told.Size)
	}
	if err == nil {
		err = sparse.Finish()
	}
	return errors.Join(err, file.Close())
}

// counter reports the number of bytes written through it.
type counter struct {
	to   io.Writer
	n    int64
	tell func(int64)
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.n += int64(n)
	c.tell(c.n)
	return n, err
}
