package drivers_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

// camera is a script that creates snapshots. Its content ends only with its context.
type camera struct{ script }

func (c *camera) Snapshot(ctx context.Context, _, _ string, _ resources.OwnerTags) (string, error) {
	return "image", c.next(ctx)
}

func (c *camera) ReadImage(ctx context.Context, _ string) (io.ReadCloser, resources.RemoteImage, error) {
	if err := c.next(ctx); err != nil {
		return nil, resources.RemoteImage{}, err
	}
	return endless{ctx}, resources.RemoteImage{ID: "image"}, nil
}

type endless struct{ ctx context.Context }

func (e endless) Read(p []byte) (int, error) {
	if e.ctx.Err() != nil {
		return 0, context.Cause(e.ctx)
	}
	return len(p), nil
}
func (e endless) Close() error { return nil }

func decorated(t *testing.T, c *camera, o drivers.DecorateOptions) drivers.Snapshotter {
	t.Helper()
	c.start = time.Now()
	snapshots, ok := drivers.SnapshotterOf(drivers.Decorate(c, o))
	if !ok {
		t.Fatal("decorators hide the snapshots")
	}
	return snapshots
}

func TestContentOutlivesTheTimeLimitOfItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		c := &camera{}
		content, _, err := decorated(t, c, drivers.DecorateOptions{Timeout: time.Minute}).ReadImage(ctx, "image")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if _, err := content.Read(make([]byte, 10)); err != nil {
			t.Errorf("reading an hour later: %v", err)
		}
		stop := errors.New("stop")
		cancel(stop)
		synctest.Wait()
		if _, err := content.Read(make([]byte, 10)); !errors.Is(err, stop) {
			t.Errorf("reading after the caller's context ended: %v, want %v", err, stop)
		}
	})
}

func TestContentThatStartsLateIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &camera{script{hang: 2 * time.Minute}}
		_, _, err := decorated(t, c, drivers.DecorateOptions{Timeout: time.Minute, Attempts: 2}).ReadImage(t.Context(), "image")
		if !errors.Is(err, context.DeadlineExceeded) || err.Error() != "read_image image: no answer within 1m0s" {
			t.Errorf("error is %v", err)
		}
		if len(c.calls) != 2 {
			t.Errorf("%d tries, want 2", len(c.calls))
		}
	})
}

func TestSnapshotIsRetriedOnlyWhenNothingWasDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, test := range []struct {
			err   error
			calls int
		}{{answer{text: "conflict", nothing: true}, 2}, {errors.New("connection reset"), 1}} {
			c := &camera{script{errors: []error{test.err}}}
			_, err := decorated(t, c, drivers.DecorateOptions{}).Snapshot(t.Context(), "i", "n", resources.OwnerTags{})
			if len(c.calls) != test.calls || (err == nil) != (test.calls == 2) {
				t.Errorf("after %v: %d calls, %v; want %d", test.err, len(c.calls), err, test.calls)
			}
		}
	})
}
