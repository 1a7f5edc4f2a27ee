package drivers_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

// batcher records batches. Each ID fails with the next of its errors.
type batcher struct {
	script
	batches [][]string
	failing map[string][]error
}

func (b *batcher) DeleteBatch(ctx context.Context, expected map[string]resources.OwnerTags) map[string]error {
	b.mu.Lock()
	failed, ids := map[string]error{}, []string(nil)
	for id, tags := range expected {
		ids = append(ids, id)
		if tags.ID != id {
			failed[id] = drivers.ErrNotOurs
		} else if left := b.failing[id]; len(left) > 0 {
			failed[id], b.failing[id] = left[0], left[1:]
		}
	}
	slices.Sort(ids)
	b.batches = append(b.batches, ids)
	b.mu.Unlock()
	if err := b.next(ctx); err != nil {
		for _, id := range ids {
			failed[id] = err
		}
	}
	return failed
}

// deleteAll deletes n instances at the same time and returns the errors.
func deleteAll(t *testing.T, c drivers.Cloud, n int) map[string]error {
	t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	failed := map[string]error{}
	for i := range n {
		all.Go(func() {
			id := fmt.Sprintf("i-%03d", i)
			err := c.Delete(t.Context(), id, resources.OwnerTags{ID: id})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed[id] = err
			}
		})
	}
	all.Wait()
	return failed
}

func TestDeletionsAtTheSameTimeShareCalls(t *testing.T) {
	for _, rate := range []float64{0, 1, 10} {
		synctest.Test(t, func(t *testing.T) {
			b := &batcher{}
			failed := deleteAll(t, drivers.Decorate(b, drivers.DecorateOptions{Rate: rate}), 120)
			sizes := []int{}
			for _, ids := range b.batches {
				sizes = append(sizes, len(ids))
			}
			if len(failed) > 0 || !slices.Equal(sizes, []int{50, 50, 20}) {
				t.Errorf("at %g calls a second: batches of %v, errors %v", rate, sizes, failed)
			}
		})
	}
}

// A batch takes its deletions when it is sent, so that the rate limit makes batches larger and not more.
func TestBatchGrowsWhileItWaitsForTheRateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &batcher{}
		c := drivers.Decorate(b, drivers.DecorateOptions{Rate: 0.1})
		_, err := c.List(t.Context())
		testutil.Must(t, err)
		var all sync.WaitGroup
		for i := range 30 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 300 * time.Millisecond)
				id := fmt.Sprint(i)
				testutil.Must(t, c.Delete(t.Context(), id, resources.OwnerTags{ID: id}))
			})
		}
		all.Wait()
		if len(b.batches) != 1 {
			t.Errorf("%d batches, want 1: %v", len(b.batches), b.batches)
		}
	})
}

func TestOnlyFailedDeletionsOfABatchAreRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy, refused := errors.New("503"), fmt.Errorf("protected: %w", drivers.ErrRejected)
		b := &batcher{failing: map[string][]error{"i-001": {busy}, "i-002": {refused}, "i-003": {busy, busy, busy, busy}}}
		failed := deleteAll(t, drivers.Decorate(b, drivers.DecorateOptions{}), 5)
		if len(failed) != 2 || !errors.Is(failed["i-002"], refused) || !errors.Is(failed["i-003"], busy) {
			t.Errorf("errors are %v", failed)
		}
		if got, want := fmt.Sprint(b.batches), "[[i-000 i-001 i-002 i-003 i-004] [i-001 i-003] [i-003] [i-003]]"; got != want {
			t.Errorf("batches are %s, want %s", got, want)
		}
	})
}

func TestBatchOutlivesACallerAndEndsWithTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &batcher{script: script{hang: time.Minute}}
		c := drivers.Decorate(b, drivers.DecorateOptions{Timeout: time.Hour})
		remove := func(id string, patience time.Duration) <-chan error {
			ended := make(chan error, 1)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			go func() {
				defer cancel()
				ended <- c.Delete(ctx, id, resources.OwnerTags{ID: id})
			}()
			return ended
		}
		gone, early, stays := remove("gone", 50*time.Millisecond), remove("early", time.Second), remove("stays", time.Hour)
		if err := <-gone; !drivers.IsNothingDone(err) {
			t.Errorf("a caller that left before the batch was sent: %v, want an error that nothing was done", err)
		}
		if err := <-early; !errors.Is(err, context.DeadlineExceeded) || drivers.IsNothingDone(err) {
			t.Errorf("a caller that left during the call: %v", err)
		}
		testutil.Must(t, <-stays)
		if got := fmt.Sprint(b.batches); got != "[[early stays]]" {
			t.Errorf("batches are %s", got)
		}
		began := time.Now()
		if err := <-remove("last", time.Second); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the only caller: %v", err)
		}
		testutil.Must(t, c.Close())
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("the batch ended %s after its only caller came, want a second", took)
		}
	})
}

func TestBatchIsNotRepeatedForCallersWithAResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := errors.New("503")
		b := &batcher{failing: map[string][]error{"busy": {busy, busy, busy, busy}}}
		c := drivers.Decorate(b, drivers.DecorateOptions{})
		done := make(chan error, 1)
		go func() { done <- c.Delete(t.Context(), "quick", resources.OwnerTags{ID: "quick"}) }()
		ctx, cancel := context.WithTimeout(t.Context(), 600*time.Millisecond) // during the pause after the first attempt
		defer cancel()
		if err := c.Delete(ctx, "busy", resources.OwnerTags{ID: "busy"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the caller that leaves: %v", err)
		}
		testutil.Must(t, <-done)
		testutil.Must(t, c.Close())
		if got := fmt.Sprint(b.batches); got != "[[busy quick]]" {
			t.Errorf("batches are %s, want no repetition", got)
		}
	})
}

func TestBatchReportsItsTimeoutToEveryCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &batcher{script: script{hang: time.Hour}}
		failed := deleteAll(t, drivers.Decorate(b, drivers.DecorateOptions{Timeout: time.Second, Attempts: 1}), 2)
		for id, err := range failed {
			if !errors.Is(err, drivers.ErrUnavailable) {
				t.Errorf("%s: %v", id, err)
			}
		}
		if len(failed) != 2 {
			t.Errorf("%d errors, want 2", len(failed))
		}
	})
}
