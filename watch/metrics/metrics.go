// Package metrics exports metrics of the daemon in the Prometheus format.
//
// Gauges, such as nodes by state, are computed at each scrape from the newest pass. Counters and histograms change when
// an event occurs. families.go lists all metrics.
package metrics

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/watch"
)

// Limits of one scrape.
const (
	scrapesAtOnce = 4
	scrapeTimeout = 10 * time.Second
)

// Options configures Metrics.
type Options struct {
	Version string // of npctl
	// Classify returns the kind of a cloud error, one of Reasons. Nil means other for all errors.
	Classify func(error) string
}

// Reasons lists the values that Options.Classify returns.
var Reasons = []string{"quota", "capacity", "rejected", "throttled", "timeout", "unavailable", "other"}

// Metrics collects the metrics of a daemon. Its methods may be called concurrently.
type Metrics struct {
	options    Options
	registry   *prometheus.Registry
	counters   map[string]*prometheus.CounterVec
	histograms map[string]*prometheus.HistogramVec
	gauges     map[string]*prometheus.Desc

	mu        sync.Mutex // guards the fields below
	last      watch.Pass
	stalled   func() time.Duration
	running   func() []plan.Step
	stale     bool
	counted   map[string]time.Time // when a request counted as fulfilled or failed was last observed, by ID
	firstSeen map[string]time.Time // when a request was first observed, by ID, while it has a record
	launched  []string             // IDs of launched nodes that are not counted yet

	connected  func() bool     // of the store; nil for a local one
	exitCodes  map[string]int  // of the last build, by image
	requestors map[string]bool // values of the label requestor
}

// New returns metrics without events.
func New(o Options) *Metrics {
	if o.Classify == nil {
		o.Classify = func(error) string { return "other" }
	}
	m := &Metrics{options: o, registry: prometheus.NewRegistry(), counters: map[string]*prometheus.CounterVec{},
		histograms: map[string]*prometheus.HistogramVec{}, gauges: map[string]*prometheus.Desc{}, counted: map[string]time.Time{},
		exitCodes: map[string]int{}, requestors: map[string]bool{}}
	for _, f := range families {
		switch f.Kind {
		case Counter:
			m.counters[f.Name] = prometheus.NewCounterVec(prometheus.CounterOpts{Name: f.Name, Help: f.Help}, f.Labels)
			m.registry.MustRegister(m.counters[f.Name])
		case Histogram:
			m.histograms[f.Name] = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: f.Name, Help: f.Help, Buckets: f.buckets}, f.Labels)
			m.registry.MustRegister(m.histograms[f.Name])
		case Gauge:
			m.gauges[f.Name] = prometheus.NewDesc(f.Name, f.Help, f.Labels, nil)
		}
	}
	for _, result := range []resources.State{resources.StateFailed, resources.StateFulfilled} { // so that the first event is an increase
		m.add("npctl_requests_finished_total", 0, string(result))
	}
	m.add("npctl_requests_refused_total", 0)
	for name, results := range map[string][]string{"npctl_watch_reloads_total": {"done", "invalid", "consent_required"}, "npctl_api_invalid_tokens_total": {"unknown", "throttled"},
		"npctl_leaks_deleted_total": append([]string{"server", "image"}, resources.LeftoverTypes...)} {
		for _, result := range results {
			m.add(name, 0, result)
		}
	}
	m.registry.MustRegister(collector{m}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Watch adds the metrics of a running daemon. The daemon's Options must call Pass, Step and RequestTaken.
func (m *Metrics) Watch(d *watch.Daemon) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stalled, m.running = d.Stalled, d.Runner().Running
	if d.Shadow {
		for _, result := range watch.Results() { // so that the first event is an increase
			m.add("npctl_shadow_requests_total", 0, string(result))
		}
	}
}

// Registry returns the registry of the metrics, for tests.
func (m *Metrics) Registry() *prometheus.Registry { return m.registry }

// Handler serves the metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{EnableOpenMetrics: true, MaxRequestsInFlight: scrapesAtOnce,
		Timeout: scrapeTimeout})
}

// add adds n to a counter.
func (m *Metrics) add(name string, n float64, labels ...string) {
	lookUpMetric(m.counters, name).WithLabelValues(labels...).Add(n)
}

// time adds a duration in seconds to a histogram.
func (m *Metrics) time(name string, seconds float64, labels ...string) {
	lookUpMetric(m.histograms, name).WithLabelValues(labels...).Observe(seconds)
}

// lookUpMetric returns the metric of a name from families.go. It panics for any other name, which is a bug in npctl.
func lookUpMetric[T any](of map[string]T, name string) T {
	v, ok := of[name]
	if !ok {
		panic(fmt.Sprintf("metrics: unknown metric %s", name))
	}
	return v
}

// Call records a call to a provider.
func (m *Metrics) Call(provider, operation string, took time.Duration, err error) {
	m.time("npctl_provider_api_duration_seconds", took.Seconds(), provider, operation)
	if err != nil {
		m.add("npctl_provider_api_errors_total", 1, provider, operation, m.options.Classify(err))
	}
}

// Reload records the result of a reload: done, invalid or consent_required.
func (m *Metrics) Reload(result string) {
	m.add("npctl_watch_reloads_total", 1, result)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stale = result != "done"
}

// RequestRefused counts a request above max_requests.
func (m *Metrics) RequestRefused() { m.add("npctl_requests_refused_total", 1) }

// InvalidToken counts a wrong token: unknown, or throttled when the API did not check it.
func (m *Metrics) InvalidToken(how string) { m.add("npctl_api_invalid_tokens_total", 1, how) }

// Store is a store with an identity, as the stores of npctl have.
type Store interface {
	state.Store
	state.Identified
}

// timedStore measures the duration of commits; timedSharedStore does so for a shared store.
type (
	timedStore struct {
		Store
		m *Metrics
	}
	timedSharedStore struct {
		state.Shared
		state.Identified
		m *Metrics
	}
)

var (
	_ Store        = timedStore{}
	_ Store        = timedSharedStore{}
	_ state.Shared = timedSharedStore{}
)

// Timed returns s with its commits measured, and exports the connection of a shared store.
func (m *Metrics) Timed(s Store) Store {
	if remote, ok := s.(state.Remote); ok {
		m.add("npctl_state_reconnects_total", 0)
		remote.Observe(&state.Observer{Reconnected: func() { m.add("npctl_state_reconnects_total", 1) }, Called: func(took time.Duration, answered bool) {
			result := "done"
			if !answered {
				result = "failed"
			}
			m.time("npctl_state_call_seconds", took.Seconds(), result)
		}})
	}
	if others, ok := s.(state.Shared); ok {
		m.mu.Lock()
		m.connected = others.Connected
		m.mu.Unlock()
		return timedSharedStore{others, s, m}
	}
	return timedStore{s, m}
}

// Commit implements state.Store.
func (t timedStore) Commit(ctx context.Context, ops ...state.Op) ([]state.Entry, error) {
	return t.m.commit(ctx, t.Store, ops)
}

// Commit implements state.Store.
func (t timedSharedStore) Commit(ctx context.Context, ops ...state.Op) ([]state.Entry, error) {
	return t.m.commit(ctx, t.Shared, ops)
}

func (m *Metrics) commit(ctx context.Context, store state.Store, ops []state.Op) ([]state.Entry, error) {
	started := time.Now()
	entries, err := store.Commit(ctx, ops...)
	result := "done"
	switch {
	case errors.Is(err, state.ErrConflict):
		result = "conflict"
	case err != nil:
		result = "failed"
	}
	m.time("npctl_state_commit_seconds", time.Since(started).Seconds(), result)
	return entries, err
}
