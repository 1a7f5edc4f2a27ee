// Package metrics shows Prometheus what the daemon sees and does.
//
// What is, such as nodes by state, is counted when somebody asks, from the newest pass. What happens is counted when it
// does. See families.go for all there is.
package metrics

import (
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/watch"
)

// Limits of one scrape.
const (
	scrapesAtOnce = 4
	scrapeTimeout = 10 * time.Second
)

// Options is what Metrics are made with.
type Options struct {
	Version string // of npctl
	// Classify says of what kind an error of a cloud is; see Reasons. Nil means other.
	Classify func(error) string
}

// Reasons are what Options.Classify returns.
var Reasons = []string{"quota", "capacity", "rejected", "throttled", "timeout", "unavailable", "other"}

// Metrics counts. Its methods may be called from several goroutines.
type Metrics struct {
	options    Options
	registry   *prometheus.Registry
	counters   map[string]*prometheus.CounterVec
	histograms map[string]*prometheus.HistogramVec
	gauges     map[string]*prometheus.Desc

	mu       sync.Mutex // guards what follows
	last     watch.Pass
	stalled  func() time.Duration
	running  func() []plan.Step
	stale    bool
	answered map[string]time.Time // requests that were counted as fulfilled or failed, by id, and when they were last seen
	noticed  map[string]time.Time // when requests were first looked at, by id, as long as there is a record
	launched []string             // ids of nodes whose launch is over and not counted yet
}

// New returns metrics in which nothing has happened.
func New(o Options) *Metrics {
	if o.Classify == nil {
		o.Classify = func(error) string { return "other" }
	}
	m := &Metrics{options: o, registry: prometheus.NewRegistry(), counters: map[string]*prometheus.CounterVec{},
		histograms: map[string]*prometheus.HistogramVec{}, gauges: map[string]*prometheus.Desc{}, answered: map[string]time.Time{}}
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
	for _, result := range []resources.State{resources.StateFailed, resources.StateFulfilled} { // so that the first is an increase
		m.add("npctl_requests_finished_total", 0, string(result))
	}
	m.add("npctl_requests_refused_total", 0)
	for name, results := range map[string][]string{"npctl_watch_reloads_total": {"done", "refused", "held_back"}, "npctl_api_wrong_tokens_total": {"unknown", "throttled"},
		"npctl_leaked_total": {"server", "image", "port", "volume", "floating_ip"}} {
		for _, result := range results {
			m.add(name, 0, result)
		}
	}
	m.registry.MustRegister(world{m}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Watch shows what a daemon is doing. Its Options have had Pass, Step and Taken.
func (m *Metrics) Watch(d *watch.Daemon) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stalled, m.running = d.Stalled, d.Runner().Running
	if d.Shadow {
		for _, result := range watch.Results() { // so that the first is an increase
			m.add("npctl_shadow_requests_total", 0, string(result))
		}
	}
}

// Registry is where the metrics are, for tests.
func (m *Metrics) Registry() *prometheus.Registry { return m.registry }

// Handler serves the metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{EnableOpenMetrics: true, MaxRequestsInFlight: scrapesAtOnce,
		Timeout: scrapeTimeout})
}

// count adds one to a counter.
func (m *Metrics) count(name string, labels ...string) { m.add(name, 1, labels...) }

func (m *Metrics) add(name string, n float64, labels ...string) {
	known(m.counters, name).WithLabelValues(labels...).Add(n)
}

// time notes seconds in a histogram.
func (m *Metrics) time(name string, seconds float64, labels ...string) {
	known(m.histograms, name).WithLabelValues(labels...).Observe(seconds)
}

// known returns what families.go names; anything else is a slip of ours.
func known[T any](of map[string]T, name string) T {
	v, ok := of[name]
	if !ok {
		panic(fmt.Sprintf("metrics: there is no %s", name))
	}
	return v
}

// Call notes a call to a provider.
func (m *Metrics) Call(provider, operation string, took time.Duration, err error) {
	m.time("npctl_provider_api_duration_seconds", took.Seconds(), provider, operation)
	if err != nil {
		m.count("npctl_provider_api_errors_total", provider, operation, m.options.Classify(err))
	}
}

// Reload notes what became of a reload: done, refused or held_back.
func (m *Metrics) Reload(result string) {
	m.count("npctl_watch_reloads_total", result)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stale = result != "done"
}

// RequestRefused notes a request above max_requests.
func (m *Metrics) RequestRefused() { m.count("npctl_requests_refused_total") }

// Guessed notes a wrong token: unknown, or throttled when it was not looked at.
func (m *Metrics) Guessed(how string) { m.count("npctl_api_wrong_tokens_total", how) }

func goVersion() string { return runtime.Version() }
