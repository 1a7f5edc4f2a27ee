// Package load asks for nodes through ZooKeeper as Zuul does, with many clients at once and faster than Zuul's own classes
// can: it measures whoever answers, npctl or a nodepool-launcher.
//
// What one client does follows Zuul step by step: create the request, watch it until it is fulfilled, read it again and its
// nodes, lock each node by kazoo's recipe, delete the request, set the nodes in-use and then used, unlock them. It does not
// wait for what happens to the nodes then; that is watched beside it.
package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// Options say how to load and what.
type Options struct {
	Labels  []string      // of each request
	Clients int           // at once
	Warmup  time.Duration // what is answered in it does not count
	Time    time.Duration // what is answered in it, after the warm-up, counts; then no new request is made
	Use     time.Duration // how long a node is kept
	Pause   time.Duration // between two requests of a client, at random up to this
	Timeout time.Duration // for one request and for the end of its nodes; a minute when 0
	Plain   string        // host:port for four-letter words; ZooKeeper's packets are not counted when empty
	PID     int           // whose CPU and memory to measure; nobody's when 0
}

// Result is what was measured in the time that counts.
type Result struct {
	Requests  int // that were fulfilled
	Failed    int // answered with failed
	Errors    []string
	Shared    int     // times that a node was given to a second client while a first had it
	Rate      float64 // fulfilled requests per second
	Latency   Percentiles
	Gone      Percentiles // from unlocked and used until its record was gone, or ready for the next
	Packets   float64     // that ZooKeeper received for each request, from everyone
	Own       float64     // of these, what the clients sent
	CPU       float64     // seconds of PID for 1,000 requests
	RSS, Peak int64       // of PID at the end, and the most it ever had; bytes
}

// maxErrors is how many errors are kept word by word.
const maxErrors = 20

// run is one measurement.
type run struct {
	Options
	c        *client
	from, to time.Time      // what ends between them counts
	watched  sync.WaitGroup // goroutines that wait for the end of a node

	mu      sync.Mutex
	result  Result          // guarded by mu
	latency []time.Duration // guarded by mu
	gone    []time.Duration // guarded by mu
	holders map[string]int  // guarded by mu: by node
}

// Run loads until its time is over and all answers are there. What went wrong for single requests is in the result.
func Run(ctx context.Context, connection Connection, o Options) (Result, error) {
	if o.Timeout == 0 {
		o.Timeout = time.Minute
	}
	if o.Clients < 1 || o.Time <= 0 || len(o.Labels) == 0 {
		return Result{}, fmt.Errorf("load with %d clients for %s and labels %v: all three are needed", o.Clients, o.Time, o.Labels)
	}
	c, err := connect(ctx, connection)
	if err != nil {
		return Result{}, err
	}
	defer c.close()
	from := time.Now().Add(o.Warmup)
	r := &run{Options: o, c: c, holders: map[string]int{}, from: from, to: from.Add(o.Time)}
	return r.measure(ctx)
}

// measure lets the clients work, and takes stock at both ends of the time that counts.
func (r *run) measure(ctx context.Context) (Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var clients sync.WaitGroup
	defer clients.Wait()
	for range r.Clients {
		clients.Go(func() { r.client(ctx) })
	}
	sleep(ctx, time.Until(r.from))
	before, err := r.usage(ctx)
	if err != nil {
		cancel()
		return Result{}, err
	}
	sleep(ctx, time.Until(r.to))
	after, err := r.usage(ctx)
	if err != nil {
		cancel()
		return Result{}, err
	}
	clients.Wait()
	r.watched.Wait()
	return r.summary(before, after), ctx.Err()
}

// counts reports whether something that ends now is in the result.
func (r *run) counts() bool {
	now := time.Now()
	return now.After(r.from) && now.Before(r.to)
}

// client makes requests until the time is over.
func (r *run) client(ctx context.Context) {
	if !sleep(ctx, r.pause()) {
		return
	}
	for ctx.Err() == nil && time.Now().Before(r.to) {
		if err := r.once(ctx); err != nil {
			r.failed(err)
			if !sleep(ctx, 100*time.Millisecond) {
				return
			}
		}
		if !sleep(ctx, r.pause()) {
			return
		}
	}
}

func (r *run) pause() time.Duration {
	if r.Pause <= 0 {
		return 0
	}
	return rand.N(r.Pause)
}

// once makes one request and gives its nodes back.
func (r *run) once(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	began := time.Now()
	id, err := r.c.request(r.Labels)
	if err != nil {
		return err
	}
	state, err := r.c.answer(ctx, id)
	took := time.Since(began)
	if err != nil || state == "failed" {
		return errors.Join(err, r.c.forget(id), r.refused(state))
	}
	held, err := r.c.accept(id)
	r.take(held, took)
	if err == nil {
		err = r.use(ctx, held)
	}
	r.release(held)
	err = errors.Join(err, r.c.unlock(held))
	if err == nil {
		r.watch(held)
	}
	return err
}

func (r *run) use(ctx context.Context, held []*node) error {
	if err := r.c.set(held, "in-use"); err != nil {
		return err
	}
	if !sleep(ctx, r.Use) {
		return ctx.Err()
	}
	return r.c.set(held, "used")
}

// watch measures how long the nodes take to go.
func (r *run) watch(held []*node) {
	unlocked, counts := time.Now(), r.counts()
	for _, n := range held {
		r.watched.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), r.Timeout)
			defer cancel()
			if err := r.c.ended(ctx, n); err != nil {
				r.failed(err)
				return
			}
			if counts {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.gone = append(r.gone, time.Since(unlocked))
			}
		})
	}
}

func (r *run) take(held []*node, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range held {
		r.holders[n.id]++
		if r.holders[n.id] > 1 {
			r.result.Shared++
		}
	}
	if r.counts() {
		r.latency = append(r.latency, took)
	}
}

func (r *run) release(held []*node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range held {
		r.holders[n.id]--
	}
}

func (r *run) refused(state string) error {
	if state != "failed" {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.Failed++
	return nil
}

func (r *run) failed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.result.Errors) < maxErrors {
		r.result.Errors = append(r.result.Errors, err.Error())
	}
}

// sleep reports whether all of it was slept.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
