package httpapi

import (
	"context"
	"net/http"
	"os"
	"time"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/watch"
	"github.com/npctl/npctl/watch/httpapi/wire"
)

// aliveWithin is the maximum age of the newest pass of a live daemon.
const aliveWithin = time.Minute

// statusRoutes answers the calls about the state of the daemon.
type statusRoutes struct {
	daemon      *watch.Daemon
	version     string // of npctl
	started     time.Time
	exporter    http.Handler // nil: no metrics
	suspendedBy func() string
}

func (r statusRoutes) live(context.Context, *none) (h wire.Health, err error) {
	beat := r.daemon.LastPassEnd()
	if !beat.IsZero() && time.Since(beat) > aliveWithin {
		return h, failure(http.StatusServiceUnavailable, wire.CodeNotReady, "", "no pass has completed since %s", beat.UTC().Format(time.RFC3339))
	}
	return wire.Health{Status: "ok"}, nil
}

func (r statusRoutes) ready(ctx context.Context, _ *none) (wire.Health, error) {
	if why := r.daemon.NotReady(); why != "" {
		w := callOf(ctx).w
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusServiceUnavailable)
		return wire.Health{}, writeJSON(w, wire.Health{Status: "not ready", Why: why, Waits: r.daemon.ProvidersNotListed()})
	}
	return wire.Health{Status: "ok", Notes: r.daemon.Configuration().Notes()}, nil
}

func (r statusRoutes) metrics(ctx context.Context, _ *none) (string, error) {
	if r.exporter == nil {
		return "", notFound("", "this daemon exports no metrics")
	}
	c := callOf(ctx)
	r.exporter.ServeHTTP(c.w, c.r)
	return "", nil
}

func (r statusRoutes) status(context.Context, *none) (wire.Status, error) {
	pass := r.daemon.Last()
	w := inspect.Fleet{Observed: pass.Observed}
	w.Observed.Records, _ = r.daemon.Runner().Records()
	s := w.Status(pass.Plan)
	s.Version, s.PID, s.Host, s.Started, s.Now = r.version, os.Getpid(), host(), r.started, time.Now()
	s.Running, s.SuspendedBy = len(r.daemon.Runner().Running()), r.suspendedBy()
	s.PassSeconds, s.PassAt = pass.Took.Seconds(), r.daemon.LastPassEnd()
	if counts := r.daemon.Comparisons(); counts != nil { // this daemon is a shadow
		s.Shadow = map[string]int{}
		for result, n := range counts {
			s.Shadow[string(result)] = n
		}
	}
	c := r.daemon.Configuration()
	s.Config = wire.Configuration{LoadedAt: c.LoadedAt, RejectedAt: c.RejectedAt, Error: c.Error, ConsentRequired: c.ConsentRequired, StateOutdated: c.StateOutdated}
	for i := range c.PendingDeletions {
		s.Config.PendingDeletions = append(s.Config.PendingDeletions, string(c.PendingDeletions[i].Address))
	}
	s.NotReady = r.daemon.NotReady()
	s.Ready = s.NotReady == ""
	return s, nil
}
