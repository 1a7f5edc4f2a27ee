package drivers

import (
	"context"
	"fmt"
	"io"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/resources"
)

// SnapshotChecker is a Cloud that can report from an offer's configuration, a value of the type of Schema().Label,
// that its instances do not support snapshots. CheckSnapshot makes no API call, so callers use As to find it.
type SnapshotChecker interface {
	CheckSnapshot(offer cty.Value) error
}

type decoratedSnapshots struct {
	inner  Snapshotter
	around Decorator
}

func (d *decoratedSnapshots) Snapshot(ctx context.Context, instance, name string, marks resources.OwnerTags) (string, error) {
	call := Call{Name: "snapshot", Subject: instance, Retry: retryIfNothingDone}
	return do(ctx, d.around, call, func(ctx context.Context) (string, error) { return d.inner.Snapshot(ctx, instance, name, marks) })
}

// ReadImage decorates only the start of the stream. The stream outlives the call and therefore the timeout that the
// decorators set: it ends with the caller's ctx, or when it is closed.
func (d *decoratedSnapshots) ReadImage(ctx context.Context, id string) (io.ReadCloser, resources.RemoteImage, error) {
	var content io.ReadCloser
	call := Call{Name: "read_image", Subject: id}
	image, err := do(ctx, d.around, call, func(limited context.Context) (image resources.RemoteImage, err error) {
		stream, stop := context.WithCancelCause(ctx)
		inTime := context.AfterFunc(limited, func() { stop(context.Cause(limited)) })
		opened, image, err := d.inner.ReadImage(stream, id)
		switch late := !inTime(); {
		case late && err == nil:
			err = fmt.Errorf("%s: %w", call, limited.Err())
			_ = opened.Close()
		case late:
			err = fmt.Errorf("%w: %w", limited.Err(), err) // the driver only sees that its context was cancelled
		}
		if err != nil {
			stop(nil)
			return image, err
		}
		content = &openStream{opened, func() { stop(nil) }}
		return image, nil
	})
	return content, image, err
}

// openStream releases its context when it is closed.
type openStream struct {
	io.ReadCloser
	free func()
}

func (s *openStream) Close() error {
	defer s.free()
	return s.ReadCloser.Close()
}
