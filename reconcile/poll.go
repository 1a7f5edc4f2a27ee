package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

// How often a provider is listed while steps wait for it. A listing that shows what somebody waited for makes the pause after
// it shorter, down to twice the time a listing takes, and one that shows nothing makes it longer: a cloud that is done at
// once is asked at once, and one that takes its time is not asked for nothing.
const (
	pauseLeast = 10 * time.Millisecond
	pollLeast  = 200 * time.Millisecond // that the pause grows to where listings take no time
	pollMost   = 5 * time.Second
)

// pause is the time until the next listing.
func pause(before, took time.Duration, useful bool) time.Duration {
	least := min(max(2*took, pauseLeast), pollMost)
	if useful {
		return max(before/2, least)
	}
	return min(max(before*3/2, least), max(least, pollLeast))
}

// listing is what one List showed.
type listing struct {
	byID   map[string]resources.Instance
	byNode map[string][]resources.Instance // with our marks
}

// poller lists one provider for everybody who waits for something there, so that calls do not grow with nodes.
type poller struct {
	cloud        drivers.Cloud
	installation string
	ctx          context.Context // of the execution; the poller's goroutine ends with it
	group        *sync.WaitGroup // of the execution, which waits for the goroutine

	mu      sync.Mutex // guards what follows
	waiters map[*waiter]bool
	running bool
	useful  bool          // somebody has seen what it waited for since the newest listing
	pause   time.Duration // after the newest listing
	failing error         // of the newest listing
	asked   time.Time     // when the listing that is under way was begun; zero when none is
}

// waiter gets the newest listing, or the error of a provider that will never answer.
type waiter struct{ news chan news }

type news struct {
	listing listing
	err     error
}

// poll returns the provider's poller.
func (x *execution) poll(cloud drivers.Cloud) *poller {
	x.guard.Lock()
	defer x.guard.Unlock()
	p := x.polls[cloud]
	if p == nil {
		maps.DeleteFunc(x.polls, func(old drivers.Cloud, _ *poller) bool { return !x.connected(old) })
		p = &poller{cloud: cloud, installation: x.seen.Installation, ctx: x.pollCtx, group: &x.pollers,
			waiters: map[*waiter]bool{}}
		x.polls[cloud] = p
	}
	return p
}

// await calls check with each new listing, begun after await was, until it reports true or an error, or ctx ends.
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

// over is why waiting has ended: where the provider gives no lists, what was waited for may have happened.
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

// run lists while anybody waits. It ends by itself; every waiter has a ctx of its own.
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
				w.send(n)
			}
		}
		select {
		case <-time.After(p.next(time.Since(started))):
		case <-p.ctx.Done():
		}
	}
}

// next is the time until the next listing, after one that took so long.
func (p *poller) next(took time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pause, p.useful = pause(p.pause, took, p.useful), false
	return p.pause
}

// waiting returns those who wait now; when there is nobody the poller stops.
func (p *poller) waiting() []*waiter {
	p.mu.Lock()
	defer p.mu.Unlock()
	waiters := make([]*waiter, 0, len(p.waiters))
	for w := range p.waiters {
		waiters = append(waiters, w)
	}
	p.running = len(waiters) > 0
	return waiters
}

// send replaces news that the waiter has not taken yet: only the newest counts.
func (w *waiter) send(n news) {
	select {
	case <-w.news:
	default:
	}
	w.news <- n
}

// list asks once. An error that may pass is not delivered: not seen is not gone, and waiters have their own time limit.
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

// advancesAtMost is how often Advance may fail for an instance in ways that may pass.
const advancesAtMost = 5

// patience counts failed calls of Advance for one instance. An instance that has started is worth more than the call:
// Advance looks at what is there before it does anything, so after a call without an answer the next listing asks again.
// Making another instance instead would only give a slow cloud more to do. A quota that is refused is asked for again as well:
// nothing is begun without room, and Neutron counts what it is about to finish twice, as itself and as its reservation.
type patience int

// with returns nil when the call is to be made again.
func (p *patience) with(err error) error {
	if *p++; *p < advancesAtMost && (drivers.MayPass(err) || errors.Is(err, drivers.ErrQuota)) {
		return nil
	}
	return err
}
