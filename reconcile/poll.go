package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/waits"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// The pauses between listings of a provider while steps wait for it. A listing that satisfies a waiter shortens the
// next pause, down to twice the duration of a listing, and a listing without a result extends it: a fast cloud is
// polled often, and a slow one is not polled in vain.
const (
	pauseLeast = 10 * time.Millisecond
	pollLeast  = 200 * time.Millisecond // the pause grows to this value if listings take no time
	pollMost   = 5 * time.Second
)

// pause returns the time until the next listing.
func pause(before, took time.Duration, useful bool) time.Duration {
	least := min(max(2*took, pauseLeast), pollMost)
	if useful {
		return max(before/2, least)
	}
	return min(max(before*3/2, least), max(least, pollLeast))
}

// listing is the result of one List call.
type listing struct {
	byID   map[string]resources.Instance
	byNode map[string][]resources.Instance // by the ID in our ownership tags
}

// poller lists one provider for all steps that wait for it, so that the number of calls does not grow with the number
// of nodes.
type poller struct {
	cloud        drivers.Cloud
	installation string
	ctx          context.Context // of the run; the poller's goroutine ends with it
	group        *sync.WaitGroup // of the run, which waits for the goroutine

	mu      sync.Mutex // guards the fields below
	waiters map[*waiter]bool
	running bool
	useful  bool          // a waiter has found its result since the newest listing
	pause   time.Duration // after the newest listing
	failing error         // error of the newest listing
	asked   time.Time     // when the listing in progress started; zero if there is none
}

// waiter receives the newest listing, or a permanent error of the provider.
type waiter struct{ news chan news }

type news struct {
	listing listing
	err     error
}

// pollers holds the pollers of a run, one for each connection. Call end after use.
type pollers struct {
	ctx   context.Context // ends with the run and stops the pollers
	stop  context.CancelFunc
	group sync.WaitGroup

	mu      sync.Mutex // guards byCloud
	byCloud map[drivers.Cloud]*poller
}

func newPollers(ctx context.Context) *pollers {
	p := &pollers{byCloud: map[drivers.Cloud]*poller{}}
	p.ctx, p.stop = context.WithCancel(context.WithoutCancel(ctx))
	return p
}

// of returns the poller of an open cloud.
func (ps *pollers) of(cloud drivers.Cloud, open *connections, installation string) *poller {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.byCloud[cloud]
	if p == nil {
		maps.DeleteFunc(ps.byCloud, func(old drivers.Cloud, _ *poller) bool { return !open.connected(old) })
		p = &poller{cloud: cloud, installation: installation, ctx: ps.ctx, group: &ps.group, waiters: map[*waiter]bool{}}
		ps.byCloud[cloud] = p
	}
	return p
}

func (ps *pollers) end() {
	ps.stop()
	ps.group.Wait()
}

// await calls check with each listing that starts after the call of await, until check returns true or an error, or ctx
// ends.
func (p *poller) await(ctx context.Context, check func(listing) (bool, error)) error {
	w := &waiter{news: make(chan news, 1)}
	p.mu.Lock()
	p.waiters[w] = true
	if !p.running {
		p.running = true
		p.group.Go(p.run)
	}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.waiters, w)
		p.mu.Unlock()
	}()
	for {
		select {
		case n := <-w.news:
			if n.err != nil {
				return n.err
			}
			if done, err := check(n.listing); done || err != nil {
				p.mu.Lock()
				p.useful = true
				p.mu.Unlock()
				return err
			}
		case <-ctx.Done():
			return p.over(context.Cause(ctx))
		}
	}
}

// over returns the error of a wait that ctx has ended. It includes an outage of the provider: without a listing, the
// awaited change may have happened.
func (p *poller) over(cause error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	silence := time.Since(p.asked)
	switch {
	case p.failing != nil:
		return fmt.Errorf("%w: %w", cause, p.failing)
	case !p.asked.IsZero() && silence >= drivers.DefaultTimeout:
		return fmt.Errorf("%w: %w: no list within %s", cause, drivers.ErrUnavailable, silence.Round(time.Second))
	default:
		return cause
	}
}

// run lists while any step waits, and ends when none does. It uses the context of the run and not that of a waiter.
func (p *poller) run() {
	for p.ctx.Err() == nil {
		waiters := p.waiting()
		if len(waiters) == 0 {
			return
		}
		started := time.Now()
		n, deliver := p.list(p.ctx)
		if deliver {
			for _, w := range waiters {
				select {
				case <-w.news: // not read yet; the waiter needs only the newest listing
				default:
				}
				w.news <- n
			}
		}
		p.mu.Lock()
		p.pause, p.useful = pause(p.pause, time.Since(started), p.useful), false
		wait := p.pause
		p.mu.Unlock()
		_ = waits.Sleep(p.ctx, wait)
	}
}

// waiting returns the current waiters. If there are none, the poller stops.
func (p *poller) waiting() []*waiter {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = len(p.waiters) > 0
	return slices.Collect(maps.Keys(p.waiters))
}

// list lists once. It does not deliver transient errors: a missing listing does not mean that an instance is gone, and
// waiters have their own time limits.
func (p *poller) list(ctx context.Context) (n news, deliver bool) {
	p.mu.Lock()
	p.asked = time.Now()
	p.mu.Unlock()
	instances, err := p.cloud.List(ctx)
	p.mu.Lock()
	p.failing, p.asked = err, time.Time{}
	p.mu.Unlock()
	if err != nil {
		return news{err: err}, rejected(err)
	}
	n.listing = listing{byID: make(map[string]resources.Instance, len(instances)), byNode: map[string][]resources.Instance{}}
	for _, i := range instances {
		n.listing.byID[i.ID] = i
		if i.Marks.Installation == p.installation && i.Marks.ID != "" {
			n.listing.byNode[i.Marks.ID] = append(n.listing.byNode[i.Marks.ID], i)
		}
	}
	return n, true
}

// advancesAtMost limits the failed calls of Advance for one instance, if the errors are transient.
const advancesAtMost = 5

// advanceFailures counts failed calls of Advance for one instance. A retry is cheaper than another instance, which
// would only add load to a slow cloud. It is also safe: Advance reads the current state before it changes anything, so
// after a call without a response the next listing leads to another call. A refused quota is retried too: nothing
// starts without capacity, and Neutron counts an unfinished resource twice, as itself and as its reservation.
type advanceFailures int

// retryOr counts a failure and returns nil if the call should be retried.
func (p *advanceFailures) retryOr(err error) error {
	if *p++; *p < advancesAtMost && (drivers.IsTransient(err) || errors.Is(err, drivers.ErrQuota)) {
		return nil
	}
	return err
}

// awaitReady follows an instance of the step in the provider's listings until it is ready. The progress of the step and the
// error of a time limit name the reason why the cloud does not start it, if the cloud has one.
func (x *execution) awaitReady(ctx context.Context, s plan.Step, cloud drivers.Cloud, spec drivers.Spec, id string) (ready resources.Instance, err error) {
	const phase = "waiting for the instance to be ready"
	x.progress(s)(phase, 0, 0)
	var patience advanceFailures
	var pending resources.Instance
	seen, missing := false, 0
	err = x.pollers.of(cloud, x.connections, x.seen.Installation).await(ctx, func(now listing) (bool, error) {
		instance, found := now.byID[id]
		if !found {
			if missing++; seen && missing > 1 {
				return false, fmt.Errorf("instance %s disappeared while it started", id)
			}
			return false, nil // a listing may lag behind
		}
		seen, missing = true, 0
		switch instance.Status {
		case resources.StatusFailed:
			return false, fault(instance)
		case resources.StatusDeleting:
			return false, fmt.Errorf("instance %s is being deleted by another client", id)
		}
		if pending.Fault != instance.Fault {
			x.progress(s)(strings.TrimSuffix(phase+": "+instance.Fault, ": "), 0, 0)
		}
		pending = instance
		advanced, err := cloud.Advance(ctx, spec, instance)
		if err != nil {
			return false, patience.retryOr(err)
		}
		if advanced.Status == resources.StatusFailed {
			return false, fault(advanced)
		}
		ready = advanced
		return advanced.Status == resources.StatusReady && advanced.Addresses.Interface != "", nil
	})
	if err != nil && ctx.Err() != nil && pending.Fault != "" && !isUnreachable(err) {
		err = fmt.Errorf("%w: %w", err, fault(pending))
	}
	return ready, err
}

// fault converts the fault of a failed or pending instance into an error of the kind that decides the next action.
func fault(i resources.Instance) error {
	text := i.Fault
	text = cmp.Or(text, "the cloud reports no reason")
	state := "failed"
	if i.Status != resources.StatusFailed {
		state = "is " + string(i.Status)
	}
	kinds := map[resources.FaultKind]error{resources.FaultQuota: drivers.ErrQuota,
		resources.FaultCapacity: drivers.ErrCapacity, resources.FaultRejected: drivers.ErrRejected}
	if kind := kinds[i.FaultKind]; kind != nil {
		return fmt.Errorf("instance %s %s: %w: %s", i.ID, state, kind, text)
	}
	return fmt.Errorf("instance %s %s: %s", i.ID, state, text)
}
