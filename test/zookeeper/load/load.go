// Package load requests nodes through ZooKeeper as Zuul does, with many concurrent clients and faster than Zuul's own
// classes: it measures the program that serves the requests, npctl or a nodepool-launcher.
//
// A client follows the steps of Zuul: create the request, watch it until it is fulfilled, read it again and its nodes,
// lock each node by kazoo's recipe, delete the request, set the nodes in-use and then used, unlock them. It does not
// wait for the end of the nodes; other goroutines watch that.
package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// Options configures a run.
type Options struct {
	Labels  []string      // labels of each request
	Clients int           // number of concurrent clients
	Warmup  time.Duration // answers during the warm-up do not count
	Time    time.Duration // answers during this time after the warm-up count; then the clients make no new requests
	Use     time.Duration // how long a node is kept
	Pause   time.Duration // maximum of the random pause between two requests of a client
	Timeout time.Duration // for one request and for the end of its nodes; a minute when 0
	Plain   string        // host:port for four-letter words; ZooKeeper's packets are not counted when empty
	PID     int           // process to measure CPU and memory of; none when 0
}

// Result is the result of the measured time.
type Result struct {
	Requests int // number of fulfilled requests
	Failed   int // number of failed requests
	Errors   []string
	Shared   int     // how often a second client received a node of another client
	Rate     float64 // fulfilled requests per second
	Latency  Percentiles
	Gone     Percentiles // from unlocked and used until the record was gone or the node was ready again
	Packets  float64     // packets that ZooKeeper received for each request, from all clients
	Own      float64     // of these, sent by the clients of the run
	CPU      float64     // CPU seconds of PID for 1,000 requests
	Memory   int64       // anonymous memory of PID at the end, in bytes
}

// maxErrors is the number of errors that a run keeps verbatim.
const maxErrors = 20

// run is one measurement.
type run struct {
	Options
	c        *client
	from, to time.Time      // answers between them count
	watched  sync.WaitGroup // goroutines that wait for the end of a node

	mu      sync.Mutex
	result  Result          // guarded by mu
	latency []time.Duration // guarded by mu
	gone    []time.Duration // guarded by mu
	holders map[string]int  // guarded by mu: by node
}

// Run runs the clients until the time is over and all answers have arrived. The result contains the errors of single
// requests.
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

// measure runs the clients and reads the usage at both ends of the measured time.
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

// counts reports whether the current time is within the measured time.
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

// once makes one request and returns its nodes.
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

// watch measures how long the nodes take to end.
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

// sleep waits for d, and reports whether ctx was not done before.
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
