// Package statsd sends metrics under the names of Nodepool to a statsd server, so that dashboards for Nodepool work.
//
// Rules:
//   - The sources are those of package watch/metrics: the passes and the events of steps.
//   - Nothing here blocks a pass or a step. The reporter drops metrics when the server cannot be reached.
//   - Every process with the same shared state sends the same gauges, so no process needs to be elected.
package statsd

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/watch"
)

const (
	root        = "nodepool."
	packetSize  = 1400 // fits in an Ethernet frame
	queued      = 256  // packets
	gaugesEvery = 5 * time.Second
	retryEvery  = 10 * time.Second
	keptFor     = time.Minute // a connection, so that a changed address of the server takes effect
)

// Options configures a Reporter.
type Options struct {
	Address  string             // host:port
	Prefix   string             // before the names, with a dot between; may be empty
	Classify func(error) string // returns one of metrics.Reasons
	Running  func() []plan.Step // returns the running steps; may be nil
	Host     string             // name of this host in names; default: the host name
	Log      *slog.Logger
}

// Reporter sends metrics. Its methods may be called concurrently.
type Reporter struct {
	Options
	prefix  string
	packets chan []byte

	mu       sync.Mutex // guards the fields below
	last     watch.Pass
	sent     time.Time                // when the gauges were last sent, by the clock of passes
	launched map[string]time.Duration // durations of launches that are not sent yet, by ID of the node
}

// New returns a reporter. Run sends the metrics that Pass and Step queue.
func New(o Options) *Reporter {
	if o.Host == "" {
		o.Host, _ = os.Hostname() // the name stays empty
	}
	r := &Reporter{Options: o, prefix: root, packets: make(chan []byte, queued), launched: map[string]time.Duration{}}
	r.Host = segment(cmp.Or(r.Host, "localhost"))
	if o.Prefix != "" {
		r.prefix = strings.TrimSuffix(o.Prefix, ".") + "." + root
	}
	return r
}

// Pass sends the gauges of a pass, and the launches of the nodes that it observed. It is for watch.Options.OnPass.
func (r *Reporter) Pass(p watch.Pass) {
	r.mu.Lock()
	r.last = p
	launched := r.launched
	r.launched = map[string]time.Duration{}
	due := p.Observed.Now.Sub(r.sent) >= gaugesEvery
	if due {
		r.sent = p.Observed.Now
	}
	r.mu.Unlock()
	var all []metric
	for _, n := range p.Observed.Records.Nodes {
		if took, known := launched[n.ID]; known {
			all = append(all, launch(n.Provider, n.Zone, inspect.RequestorOf(&p.Observed, n.Request), "ready", took)...)
		}
	}
	if due {
		var running []plan.Step
		if r.Running != nil {
			running = r.Running()
		}
		all = append(all, gauges(&p, running, r.Host)...)
	}
	r.send(all)
}

// Step sends the result of a step. It is for watch.Options.OnStep.
func (r *Reporter) Step(e reconcile.Event) {
	s := &e.Step
	switch {
	case s.Kind == plan.KindLaunch && e.Kind == reconcile.EventDone:
		r.mu.Lock()
		r.launched[e.ID] = e.Took // the next pass has its record
		r.mu.Unlock()
	case s.Kind == plan.KindLaunch && (e.Kind == reconcile.EventRetry || e.Kind == reconcile.EventFailed):
		r.mu.Lock()
		last := r.last
		r.mu.Unlock()
		r.send(launch(s.Provider, "", inspect.RequestorOf(&last.Observed, s.Request), launchError(e.Err, r.Classify(e.Err)), e.Took))
	case e.Kind == reconcile.EventDone && s.Action == plan.ActionDelete && s.Reason == plan.ReasonLeaked:
		r.send(leaked(s, r.driverOf(s.Provider)))
	case e.Kind == reconcile.EventDone || e.Kind == reconcile.EventFailed:
		r.send(imageStep(&e))
	}
}

// driverOf returns the driver of a provider in the newest pass, or "".
func (r *Reporter) driverOf(provider string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p, known := r.last.Desired.Provider(provider); known {
		return p.Driver
	}
	return ""
}

// send queues metrics in packets. It drops them when the queue is full.
func (r *Reporter) send(all []metric) {
	var packet []byte
	flush := func() {
		if len(packet) == 0 {
			return
		}
		select {
		case r.packets <- packet:
		default:
		}
		packet = nil
	}
	for _, m := range all {
		line := m.line(r.prefix)
		if len(packet)+1+len(line) > packetSize {
			flush()
		}
		if len(packet) > 0 {
			packet = append(packet, '\n')
		}
		packet = append(packet, line...)
	}
	flush()
}

// Run sends the queued packets until ctx is done. It logs the start and the end of a time in which the server cannot
// be reached.
func (r *Reporter) Run(ctx context.Context) {
	var conn net.Conn
	var since, failed time.Time
	disconnect := func() {
		if conn != nil {
			_ = conn.Close()
			conn = nil
		}
	}
	defer disconnect()
	for {
		var packet []byte
		select {
		case packet = <-r.packets:
		case <-ctx.Done():
			return
		}
		now := time.Now()
		if conn != nil && now.Sub(since) > keptFor {
			disconnect()
		}
		if conn == nil {
			if now.Sub(failed) < retryEvery {
				continue
			}
			dialed, err := (&net.Dialer{Timeout: retryEvery}).DialContext(ctx, "udp", r.Address)
			if err != nil {
				if failed.IsZero() {
					r.Log.Warn("no metrics to statsd until it can be reached", "address", r.Address, "error", err)
				}
				failed = time.Now()
				continue
			}
			if !failed.IsZero() {
				r.Log.Info("metrics to statsd again", "address", r.Address)
			}
			conn, since, failed = dialed, now, time.Time{}
		}
		_, _ = conn.Write(packet) // UDP: no server may listen yet
	}
}
