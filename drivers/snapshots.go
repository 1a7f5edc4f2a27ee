package drivers

import (
	"context"
	"fmt"
	"io"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/resources"
)

// SnapshotChecker is a Cloud that can tell from an offer's configuration, a value of the type of Schema().Label, that no
// image can be made of its instances. It asks nobody, so it is looked up with As.
type SnapshotChecker interface {
	CheckSnapshot(offer cty.Value) error
}

type decoratedSnapshots struct {
	inner  Snapshots
	around Around
}

func (d *decoratedSnapshots) Snapshot(ctx context.Context, instance, name string, marks resources.Marks) (string, error) {
	call := Call{Name: "snapshot", Subject: instance, Repeat: RepeatIfNothingDone}
	return do(ctx, d.around, call, func(ctx context.Context) (string, error) { return d.inner.Snapshot(ctx, instance, name, marks) })
}

// ReadImage decorates the beginning of the stream. The stream itself outlives the call, and with it the time limit that
// the decorators give a call: it ends with the caller's ctx, or when it is closed.
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
			err = fmt.Errorf("%w: %w", limited.Err(), err) // all the driver knows is that it was cancelled
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

// openStream frees its context once it is closed.
type openStream struct {
	io.ReadCloser
	free func()
}

func (s *openStream) Close() error {
	defer s.free()
	return s.ReadCloser.Close()
}
