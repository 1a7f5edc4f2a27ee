package httpapi

import (
	"net/http"
	"os"
	"time"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/watch"
	"github.com/npctl/npctl/watch/httpapi/wire"
)

// aliveWithin is the maximum age of the newest pass of a live daemon.
const aliveWithin = time.Minute

func (c *call) live() (any, error) {
	beat := c.daemon.LastPassEnd()
	if !beat.IsZero() && time.Since(beat) > aliveWithin {
		return nil, &apiError{status: http.StatusServiceUnavailable, code: wire.CodeNotReady, detail: "no pass has completed since " + beat.UTC().Format(time.RFC3339)}
	}
	return wire.Health{Status: "ok"}, nil
}

func (c *call) ready() (any, error) {
	if why := c.daemon.NotReady(); why != "" {
		return nil, c.writeJSON(http.StatusServiceUnavailable, "application/json", wire.Health{Status: "not ready", Why: why, Waits: c.daemon.ProvidersNotListed()})
	}
	return wire.Health{Status: "ok", Notes: c.daemon.Configuration().Notes()}, nil
}

func configurationOf(s watch.ConfigState) wire.Configuration {
	c := wire.Configuration{LoadedAt: s.LoadedAt, RejectedAt: s.RejectedAt, Error: s.Error, ConsentRequired: s.ConsentRequired, StateOutdated: s.StateOutdated}
	for i := range s.PendingDeletions {
		c.PendingDeletions = append(c.PendingDeletions, string(s.PendingDeletions[i].Address))
	}
	return c
}

func (c *call) metrics() (any, error) {
	if c.Metrics == nil {
		return nil, notFound("this daemon exports no metrics")
	}
	c.Metrics.ServeHTTP(c.w, c.r)
	return nil, nil
}

// comparisons converts the counts of a shadow. It returns nil for a daemon that serves.
func comparisons(counts map[watch.Result]int) map[string]int {
	if counts == nil {
		return nil
	}
	all := make(map[string]int, len(counts))
	for result, n := range counts {
		all[string(result)] = n
	}
	return all
}

func (c *call) status() (any, error) {
	pass := c.daemon.Last()
	records, _ := c.records()
	s := wire.Status{Version: c.Version, Installation: pass.Observed.Installation, PID: os.Getpid(), Host: host(), Started: c.started, Now: time.Now(),
		Requests: map[resources.State]int{}, Nodes: map[resources.State]int{}, Running: len(c.daemon.Runner().Running()),
		Shadow: comparisons(c.daemon.Comparisons()), Plan: pass.Plan.Summary().String(), Problems: []string{}, PassSeconds: pass.Took.Seconds(), PassAt: c.daemon.LastPassEnd(), SuspendedBy: c.locks.suspendedBy()}
	for _, r := range records.Requests {
		s.Requests[r.State]++
		if r.IsOpen() && (s.OldestRequest.IsZero() || r.Created.Before(s.OldestRequest)) {
			s.OldestRequest = r.Created
		}
	}
	for _, n := range records.Nodes {
		s.Nodes[n.State]++
		if n.State == resources.StateReady && n.Request == "" {
			s.Free++
		}
	}
	for _, p := range pass.Plan.Problems {
		s.Problems = append(s.Problems, string(p.Address)+": "+p.Text)
	}
	s.Config = configurationOf(c.daemon.Configuration())
	s.NotReady = c.daemon.NotReady()
	s.Ready = s.NotReady == ""
	return s, nil
}
