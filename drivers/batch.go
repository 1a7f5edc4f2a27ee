package drivers

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/npctl/npctl/resources"
)

// BatchDeleter is a Cloud that deletes several instances with a few calls. A decorated Cloud collects calls of Delete
// in batches, each of which counts as one call for the decorators.
type BatchDeleter interface {
	// DeleteBatch deletes instances as Cloud.Delete does. The keys are their IDs, at most MaxBatch, with the expected
	// ownership tags. The result contains the errors by ID.
	DeleteBatch(ctx context.Context, expected map[string]resources.OwnerTags) (failed map[string]error)
}

// MaxBatch is the maximum size of a batch.
const MaxBatch = 50

// batchWindow is how long the first deletion of a batch waits for others. Clouds take much longer to delete an instance.
const batchWindow = 500 * time.Millisecond

// DeletesInBatches reports whether deletions of the Cloud wait for others, to share a call with them.
func DeletesInBatches(c Cloud) bool {
	_, ok := As[BatchDeleter](c)
	return ok
}

// deletions collects the deletions of one Cloud in batches. A batch takes the waiting deletions when the decorators let it
// pass, so that it grows while it waits for the rate limit.
type deletions struct {
	cloud   BatchDeleter
	around  Decorator
	running sync.WaitGroup

	mu         sync.Mutex  // guards the fields below and those of batches
	waiting    []*deletion // in no batch yet
	collecting bool        // a batch has started and has not taken its deletions
}

// deletion is one call of Delete.
type deletion struct {
	id       string
	expected resources.OwnerTags
	batch    *batch // guarded by deletions.mu; nil unless a batch has taken it and its caller waits
	ended    chan error
}

// batch is a batch of which at least one caller waits.
type batch struct {
	callers int // that wait; guarded by deletions.mu
	cancel  context.CancelFunc
}

// delete adds a deletion to a batch and returns its result.
func (d *deletions) delete(ctx context.Context, id string, expected resources.OwnerTags) error {
	if err := context.Cause(ctx); err != nil {
		return Unsent(err)
	}
	one := &deletion{id: id, expected: expected, ended: make(chan error, 1)}
	d.mu.Lock()
	d.waiting = append(d.waiting, one)
	d.collect()
	d.mu.Unlock()
	select {
	case err := <-one.ended:
		return err
	case <-ctx.Done():
		err := context.Cause(ctx)
		if !d.leave(one) {
			err = Unsent(err)
		}
		return err
	}
}

// collect starts a batch for the waiting deletions, unless one has started. mu is held.
func (d *deletions) collect() {
	if !d.collecting && len(d.waiting) > 0 {
		d.collecting = true
		d.running.Go(d.run)
	}
}

// leave withdraws the caller of a deletion and reports whether the deletion may have been sent.
func (d *deletions) leave(one *deletion) (sent bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := slices.Index(d.waiting, one); i >= 0 {
		d.waiting = slices.Delete(d.waiting, i, i+1)
		return false
	}
	if b := d.without(one); b != nil && b.callers == 0 {
		b.cancel()
	}
	return true
}

// without removes a deletion from its batch and returns the batch; nil if it has none any more. mu is held.
func (d *deletions) without(one *deletion) *batch {
	b := one.batch
	if one.batch = nil; b != nil {
		b.callers--
	}
	return b
}

// end passes the result of a deletion to its caller.
func (d *deletions) end(one *deletion, err error) {
	d.mu.Lock()
	d.without(one)
	d.mu.Unlock()
	one.ended <- err
}

// take moves waiting deletions into a batch.
func (d *deletions) take(b *batch) map[string]*deletion {
	d.mu.Lock()
	defer d.mu.Unlock()
	taken, later := map[string]*deletion{}, []*deletion(nil)
	for _, one := range d.waiting {
		if len(taken) == MaxBatch || taken[one.id] != nil {
			later = append(later, one)
			continue
		}
		taken[one.id], one.batch = one, b
		b.callers++
	}
	d.waiting, d.collecting = later, false
	d.collect()
	return taken
}

// run sends one batch. Repetitions contain only the deletions that failed with transient errors.
func (d *deletions) run() {
	time.Sleep(batchWindow)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var left map[string]*deletion
	var failed map[string]error
	err := d.around(ctx, Call{Name: "delete", Subject: "batch"}, func(ctx context.Context) (again error) {
		if left == nil {
			left = d.take(&batch{cancel: cancel})
		}
		if len(left) == 0 {
			return nil
		}
		expected := map[string]resources.OwnerTags{}
		for id, one := range left {
			expected[id] = one.expected
		}
		failed = d.cloud.DeleteBatch(ctx, expected)
		for id, one := range left {
			if err := failed[id]; err != nil && IsTransient(err) {
				again = err
				continue
			}
			d.end(one, failed[id])
			delete(left, id)
		}
		return again
	})
	if left == nil { // a decorator has not made the call
		left = d.take(&batch{cancel: cancel})
	}
	var late *timeoutError
	for id, one := range left {
		if own := failed[id]; own != nil && !errors.As(err, &late) {
			d.end(one, own)
		} else {
			d.end(one, err)
		}
	}
}
