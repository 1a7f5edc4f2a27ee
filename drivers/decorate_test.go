package drivers_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

// script is a Cloud. Each of its calls returns the next error of a list.
type script struct {
	mu     sync.Mutex
	errors []error
	calls  []time.Duration // time since start
	start  time.Time
	hang   time.Duration
}

func (s *script) next(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, time.Since(s.start))
	if s.hang > 0 {
		select {
		case <-ctx.Done():
			return fmt.Errorf("call: %w", ctx.Err())
		case <-time.After(s.hang):
		}
	}
	if len(s.errors) == 0 {
		return nil
	}
	err := s.errors[0]
	s.errors = s.errors[1:]
	return err
}

func (s *script) Create(ctx context.Context, _ drivers.Spec) (resources.Instance, error) {
	return resources.Instance{ID: "i"}, s.next(ctx)
}

func (s *script) Advance(ctx context.Context, _ drivers.Spec, seen resources.Instance) (resources.Instance, error) {
	return seen, s.next(ctx)
}
func (s *script) Delete(ctx context.Context, _ string, _ resources.OwnerTags) error {
	return s.next(ctx)
}
func (s *script) List(ctx context.Context) ([]resources.Instance, error) {
	return []resources.Instance{{ID: "i"}}, s.next(ctx)
}
func (s *script) Quota(ctx context.Context) (resources.Quota, error) {
	return resources.Quota{}, s.next(ctx)
}
func (s *script) Close() error { return nil }

// store is a script with an image store.
type store struct {
	script
	retried []bool // MaybeCreated of each UploadImage
}

func (s *store) ImageFormat() string { return "raw" }
func (s *store) UploadImage(ctx context.Context, spec drivers.ImageSpec, _ io.ReadSeeker) (resources.RemoteImage, error) {
	s.retried = append(s.retried, spec.MaybeCreated)
	return resources.RemoteImage{ID: "image"}, s.next(ctx)
}
func (s *store) DeleteImage(ctx context.Context, _ string, _ resources.OwnerTags) error {
	return s.next(ctx)
}
func (s *store) ListImages(ctx context.Context) ([]resources.RemoteImage, error) {
	return nil, s.next(ctx)
}

type answer struct {
	text    string
	nothing bool
	after   time.Duration
	kind    error
}

func (a answer) Error() string             { return a.text }
func (a answer) NothingDone() bool         { return a.nothing }
func (a answer) RetryAfter() time.Duration { return a.after }
func (a answer) Unwrap() error             { return a.kind }

func started() *script { return &script{start: time.Now()} }

func TestRepeatableCallsAreRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := started()
		s.errors = []error{errors.New("503"), errors.New("503"), errors.New("503")}
		list, err := drivers.Decorate(s, drivers.DecorateOptions{}).List(t.Context())
		if err != nil || len(list) != 1 {
			t.Errorf("List = %v, %v; want the fourth try's answer", list, err)
		}
		if len(s.calls) != 4 {
			t.Errorf("%d tries, want 4", len(s.calls))
		}
		for i := 1; i < len(s.calls); i++ {
			if pause := s.calls[i] - s.calls[i-1]; pause < 100*time.Millisecond || pause > 30*time.Second {
				t.Errorf("pause %d is %s", i, pause)
			}
		}
	})
}

func TestRetriesAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := started()
		last := errors.New("the last error")
		s.errors = []error{errors.New("a"), errors.New("b"), last, errors.New("never asked for")}
		err := drivers.Decorate(s, drivers.DecorateOptions{Attempts: 3}).Delete(t.Context(), "x", resources.OwnerTags{})
		if !errors.Is(err, last) || len(s.calls) != 3 {
			t.Errorf("Delete: %v after %d tries; want %v after 3", err, len(s.calls), last)
		}
	})
}

func TestRejectionsAreNotRetried(t *testing.T) {
	for _, kind := range []error{drivers.ErrRejected, drivers.ErrQuota, drivers.ErrCapacity, drivers.ErrNotSupported} {
		synctest.Test(t, func(t *testing.T) {
			s := started()
			s.errors = []error{answer{text: "no", nothing: true, kind: kind}}
			if _, err := drivers.Decorate(s, drivers.DecorateOptions{}).List(t.Context()); !errors.Is(err, kind) || len(s.calls) != 1 {
				t.Errorf("List: %v after %d tries; want %v after one", err, len(s.calls), kind)
			}
		})
	}
}

func TestCreateIsRetriedOnlyWhenNothingWasDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, test := range []struct {
			name  string
			err   error
			tries int
		}{
			{"connection refused", answer{text: "refused", nothing: true}, 2},
			{"throttled", answer{text: "429", nothing: true, kind: drivers.ErrThrottled}, 2},
			{"server error", answer{text: "500"}, 1},
			{"lost answer", io.ErrUnexpectedEOF, 1},
		} {
			s := &store{}
			c := drivers.Decorate(s, drivers.DecorateOptions{})
			for name, call := range map[string]func() error{
				"Create":  func() error { _, err := c.Create(t.Context(), drivers.Spec{}); return err },
				"Advance": func() error { _, err := c.Advance(t.Context(), drivers.Spec{}, resources.Instance{}); return err },
			} {
				s.errors, s.calls = []error{test.err}, nil
				err := call()
				if len(s.calls) != test.tries || (err == nil) != (test.tries == 2) {
					t.Errorf("%s after %s: %d tries, %v; want %d", name, test.name, len(s.calls), err, test.tries)
				}
			}
		}
	})
}

func TestUploadIsRetried(t *testing.T) {
	for _, test := range []struct {
		name  string
		err   error
		calls []bool // MaybeCreated of each call
	}{
		{"lost answer", io.ErrUnexpectedEOF, []bool{false, true}},
		{"server error", answer{text: "500"}, []bool{false, true}},
		{"unavailable with Retry-After", answer{text: "503", after: time.Second, kind: drivers.ErrUnavailable}, []bool{false, true}},
		{"throttled", answer{text: "429", nothing: true, kind: drivers.ErrThrottled}, []bool{false, false}},
		{"rejected", answer{text: "403", nothing: true, kind: drivers.ErrRejected}, []bool{false}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &store{script: script{errors: []error{test.err}}}
				images, _ := drivers.ImagesOf(drivers.Decorate(s, drivers.DecorateOptions{}))
				_, err := images.UploadImage(t.Context(), drivers.ImageSpec{}, nil)
				if diff := cmp.Diff(test.calls, s.retried); diff != "" || (err == nil) != (len(test.calls) == 2) {
					t.Errorf("UploadImage: %v; Retried of the calls (-want +got):\n%s", err, diff)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s := &store{script: script{hang: 24 * time.Hour}}
		images, _ := drivers.ImagesOf(drivers.Decorate(s, drivers.DecorateOptions{UploadTimeout: time.Minute}))
		if _, err := images.UploadImage(t.Context(), drivers.ImageSpec{}, nil); !errors.Is(err, context.DeadlineExceeded) || len(s.calls) != 1 {
			t.Errorf("UploadImage that takes longer than upload_timeout: %v after %d calls, want one", err, len(s.calls))
		}
	})
}

func TestRetryAfterCountsNoAttemptAndIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := answer{text: "429", after: 3 * time.Second, kind: drivers.ErrThrottled}
		s := started()
		s.errors = slices.Repeat([]error{busy}, 10)
		if _, err := drivers.Decorate(s, drivers.DecorateOptions{Attempts: 1}).List(t.Context()); err != nil || len(s.calls) != 11 {
			t.Errorf("List: %v after %d calls, want an answer to the 11th", err, len(s.calls))
		}
		for _, test := range []struct {
			after time.Duration
			calls int
		}{{3 * time.Second, 41}, {time.Minute, 3}, {time.Hour, 1}} {
			s = started()
			s.errors = slices.Repeat([]error{answer{text: "429", after: test.after, kind: drivers.ErrThrottled}}, 100)
			_, err := drivers.Decorate(s, drivers.DecorateOptions{}).List(t.Context())
			if !errors.Is(err, drivers.ErrThrottled) || len(s.calls) != test.calls || time.Since(s.start) > drivers.RetryAfterLimit {
				t.Errorf("Retry-After of %s: %v after %d calls and %s, want %d calls", test.after, err, len(s.calls), time.Since(s.start), test.calls)
			}
		}
	})
}

func TestRetryAfterIsRespected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := started()
		s.errors = []error{answer{text: "429", after: 42 * time.Second, kind: drivers.ErrThrottled}}
		testutil.Must(t, drivers.Decorate(s, drivers.DecorateOptions{}).Delete(t.Context(), "x", resources.OwnerTags{}))
		if diff := cmp.Diff([]time.Duration{0, 42 * time.Second}, s.calls); diff != "" {
			t.Errorf("times of the calls (-want +got):\n%s", diff)
		}
	})
}

func TestBackoffEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		s := started()
		cause := answer{text: "429", after: time.Minute, kind: drivers.ErrThrottled}
		s.errors = []error{cause}
		start := time.Now()
		err := drivers.Decorate(s, drivers.DecorateOptions{}).Delete(ctx, "x", resources.OwnerTags{})
		if !errors.Is(err, drivers.ErrThrottled) || time.Since(start) != time.Second {
			t.Errorf("Delete: %v after %s; want what the cloud said, after 1s", err, time.Since(start))
		}
	})
}

func TestEveryCallHasATimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{script: script{hang: 24 * time.Hour}}
		c := drivers.Decorate(s, drivers.DecorateOptions{Attempts: 1, Timeout: 10 * time.Second, UploadTimeout: time.Minute})
		images, _ := drivers.ImagesOf(c)
		for _, test := range []struct {
			name string
			call func() error
			want time.Duration
		}{
			{"Delete", func() error { return c.Delete(t.Context(), "x", resources.OwnerTags{}) }, 10 * time.Second},
			{"List", func() error { _, err := c.List(t.Context()); return err }, 100 * time.Second},
			{"UploadImage", func() error { _, err := images.UploadImage(t.Context(), drivers.ImageSpec{}, nil); return err }, time.Minute},
		} {
			start := time.Now()
			err := test.call()
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != test.want || !strings.Contains(err.Error(), "no answer within") {
				t.Errorf("%s: %v after %s; want a timeout after %s", test.name, err, time.Since(start), test.want)
			}
		}
		start := time.Now()
		if err := drivers.Decorate(s, drivers.DecorateOptions{Attempts: 1}).Delete(t.Context(), "x", resources.OwnerTags{}); err == nil || time.Since(start) != drivers.DefaultTimeout {
			t.Errorf("without options: %v after %s, want a timeout after %s", err, time.Since(start), drivers.DefaultTimeout)
		}
	})
}

func TestRateLimitsRetriesAndAbilities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{script: script{start: time.Now()}}
		c := drivers.Decorate(s, drivers.DecorateOptions{Rate: 2})
		images, _ := drivers.ImagesOf(c)
		var wait sync.WaitGroup
		for range 10 {
			wait.Go(func() { _ = c.Delete(t.Context(), "x", resources.OwnerTags{}) })
			wait.Go(func() { _, _ = images.ListImages(t.Context()) })
		}
		wait.Wait()
		// A burst of two, then two per second.
		if last := slices.Max(s.calls); len(s.calls) != 20 || last < 8900*time.Millisecond || last > 9100*time.Millisecond {
			t.Errorf("%d calls, the last after %s; want 20 in 9 s", len(s.calls), last)
		}
	})
}

func TestRateDoesNotLimitChecksOfMachines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := drivers.Decorate(&machines{}, drivers.DecorateOptions{Rate: 1})
		checker, _ := drivers.CheckerOf(c)
		start := time.Now()
		for range 20 {
			if _, err := checker.Check(t.Context(), resources.StaticNode{}); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("20 machines were checked in %s, want no wait", took)
		}
	})
}

// machines is a Cloud with static machines that pass every check.
type machines struct{ drivers.Cloud }

func (*machines) Check(context.Context, resources.StaticNode) ([]string, error) { return nil, nil }

func TestWaitForRateLimitIsNoLostResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := drivers.Decorate(started(), drivers.DecorateOptions{Rate: 0.01})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _ = c.Create(ctx, drivers.Spec{})
		if _, err := c.Create(ctx, drivers.Spec{}); !drivers.IsNothingDone(err) {
			t.Errorf("Create: %v; want an error that proves that nothing was made", err)
		}
	})
}

func TestDecoratedCloudHasAbilitiesOfInnerCloud(t *testing.T) {
	plain := drivers.Decorate(started(), drivers.DecorateOptions{})
	if _, ok := drivers.ImagesOf(plain); ok {
		t.Error("a decorator made up an image store")
	}
	if _, ok := plain.(drivers.ImageStore); ok {
		t.Error("a decorated cloud claims to keep images")
	}
	twice := drivers.Decorate(drivers.Decorate(&store{}, drivers.DecorateOptions{}), drivers.DecorateOptions{})
	images, ok := drivers.ImagesOf(twice)
	if !ok || images.ImageFormat() != "raw" {
		t.Errorf("Images = %v, %t; want the store below two decorators", images, ok)
	}
	if _, ok := drivers.As[interface{ ImageFormat() string }](twice); !ok {
		t.Error("As does not look below decorators")
	}
}

func TestCallsAreReportedAndLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := started()
		s.errors = []error{errors.New("boom")}
		var reports []string
		var text bytes.Buffer
		log := slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug}))
		c := drivers.Decorate(s, drivers.DecorateOptions{Provider: "lab", Log: log, OnCall: func(r drivers.Report) {
			reports = append(reports, fmt.Sprintf("%s %s: %v", r.Provider, r.Call, r.Err))
		}})
		testutil.Must(t, c.Delete(t.Context(), "4711", resources.OwnerTags{}))
		if diff := cmp.Diff([]string{"lab delete 4711: boom", "lab delete 4711: <nil>"}, reports); diff != "" {
			t.Errorf("reports (-want +got):\n%s", diff)
		}
		if n := strings.Count(text.String(), `msg="cloud call"`); n != 2 {
			t.Errorf("%d calls in the log, want 2:\n%s", n, text.String())
		}
	})
}

func TestReadOnlyCloudChangesNothing(t *testing.T) {
	inner := &store{}
	cloud := drivers.Decorate(drivers.Wrap(inner, drivers.ReadOnly()), drivers.DecorateOptions{})
	images, _ := drivers.ImagesOf(cloud)
	ctx := t.Context()
	_, create := cloud.Create(ctx, drivers.Spec{})
	_, advance := cloud.Advance(ctx, drivers.Spec{}, resources.Instance{})
	_, upload := images.UploadImage(ctx, drivers.ImageSpec{}, strings.NewReader(""))
	for name, err := range map[string]error{"create": create, "advance": advance, "upload": upload, "delete": cloud.Delete(ctx, "i", resources.OwnerTags{}),
		"delete image": images.DeleteImage(ctx, "i", resources.OwnerTags{})} {
		if !errors.Is(err, drivers.ErrReadOnly) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(inner.calls) > 0 {
		t.Errorf("%d calls were made", len(inner.calls))
	}
	_, list := cloud.List(ctx)
	_, quota := cloud.Quota(ctx)
	_, listImages := images.ListImages(ctx)
	if err := errors.Join(list, quota, listImages); err != nil || len(inner.calls) != 3 {
		t.Errorf("looking ended with %v after %d calls", err, len(inner.calls))
	}
}

// cachedNames sends a request for every hundredth lookup.
type cachedNames struct {
	script
	lookups int
}

func (n *cachedNames) ResolveOffer(ctx context.Context, _ cty.Value) (resources.ResolvedOffer, []resources.Problem, error) {
	if n.lookups++; n.lookups%100 == 1 {
		drivers.RequestSent(ctx)
	}
	return resources.ResolvedOffer{}, nil, nil
}

func (n *cachedNames) ResolveImage(context.Context, resources.CloudImageSpec) (resources.RemoteImage, []resources.Problem, error) {
	return resources.RemoteImage{}, nil, nil
}

// leavesNothing is a Cloud whose instances leave nothing, so that FinishDeletion sends no request.
type leavesNothing struct{ drivers.Cloud }

func (leavesNothing) FinishDeletion(context.Context, string) error { return nil }

func TestEndOfADeletionWithoutARequestTakesNoToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, ok := drivers.FinisherOf(drivers.Decorate(leavesNothing{}, drivers.DecorateOptions{Rate: 1}))
		start := time.Now()
		for range 100 {
			testutil.Must(t, f.FinishDeletion(t.Context(), "i-1"))
		}
		if took := time.Since(start); !ok || took != 0 {
			t.Errorf("100 ends of deletions without a request took %s", took)
		}
	})
}

func TestRateLimitsOnlyLookupsThatSendRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := drivers.Decorate(&cachedNames{}, drivers.DecorateOptions{Rate: 1})
		names, _ := drivers.ResolverOf(c)
		start := time.Now()
		for range 400 {
			_, _, _ = names.ResolveOffer(t.Context(), cty.NilVal)
			_, _, _ = names.ResolveImage(t.Context(), resources.CloudImageSpec{})
		}
		if took := time.Since(start); took != 3*time.Second { // a burst of one
			t.Errorf("400 lookups with 4 requests took %s, want 3s", took)
		}
		if _, err := c.List(t.Context()); err != nil || time.Since(start) != 4*time.Second {
			t.Errorf("List: %v after %s, want that it waits for the lookups", err, time.Since(start))
		}
	})
}
