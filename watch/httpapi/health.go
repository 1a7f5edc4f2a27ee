package httpapi

import (
	"net/http"
	"os"
	"time"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/watch"
	"github.com/npctl/npctl/watch/httpapi/wire"
)

// aliveWithin is how old the newest pass of a daemon that lives may be.
const aliveWithin = time.Minute

func (c *call) live() (any, error) {
	beat := c.daemon.Beat()
	if !beat.IsZero() && time.Since(beat) > aliveWithin {
		return nil, &failure{status: http.StatusServiceUnavailable, code: wire.CodeNotReady, detail: "no decision was made since " + beat.UTC().Format(time.RFC3339)}
	}
	return wire.Health{Status: "ok"}, nil
}

func (c *call) ready() (any, error) {
	if why := c.daemon.NotReady(); why != "" {
		return nil, c.writeJSON(http.StatusServiceUnavailable, "application/json", wire.Health{Status: "not ready", Why: why, Waits: c.daemon.Unseen()})
	}
	return wire.Health{Status: "ok", Notes: c.daemon.Configuration().Notes()}, nil
}

func configurationOf(s watch.ConfigState) wire.Configuration {
	c := wire.Configuration{Taken: s.Taken, Refused: s.Refused, Error: s.Error, HeldBack: s.HeldBack, OldState: s.OldState}
	for i := range s.Deletes {
		c.Deletes = append(c.Deletes, string(s.Deletes[i].Address))
	}
	return c
}

func (c *call) metrics() (any, error) {
	if c.Metrics == nil {
		return nil, notFound("this daemon measures nothing")
	}
	c.Metrics.ServeHTTP(c.w, c.r)
	return nil, nil
}

// comparisons is nil for a daemon that serves.
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
	s := wire.Status{Version: c.Version, Installation: pass.Seen.Installation, PID: os.Getpid(), Host: host(), Started: c.started, Now: time.Now(),
		Requests: map[resources.State]int{}, Nodes: map[resources.State]int{}, Running: len(c.daemon.Runner().Running()),
		Shadow: comparisons(c.daemon.Comparisons()), Planned: pass.Plan.Summary().String(), Problems: []string{}, PassTook: pass.Took.Seconds(), PassAt: c.daemon.Beat(), Parked: c.locks.parkedBy()}
	for _, r := range records.Requests {
		s.Requests[r.State]++
		if r.Waits() && (s.OldestWaits.IsZero() || r.Created.Before(s.OldestWaits)) {
			s.OldestWaits = r.Created
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
