package watch

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
)

// stallAfter is the default of Options.Stall.
const stallAfter = 15 * time.Minute

// stall detects that requests wait while nothing is launched or served. Each cause may be legitimate, such as a cloud
// that is full, but an operator must know of it.
type stall struct {
	after   time.Duration // see Options.Stall
	log     *slog.Logger
	journal *Journal

	mu       sync.Mutex    // guards the fields below
	progress time.Time     // when a launch or serve step last completed
	duration time.Duration // how long the stall has lasted; 0 without a stall
	loggedAt time.Time     // when the stall was last logged
}

// note records the completion of a launch or serve step as progress.
func (s *stall) note(event reconcile.Event) {
	helps := event.Step.Action == plan.ActionLaunch || event.Step.Action == plan.ActionServe
	if event.Kind != reconcile.EventDone || !helps {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.progress = event.Time
}

// update determines whether requests stall, and whether to log that the stall begins or continues (begins) or ends
// (over).
func (s *stall) update(requests []*resources.Request, now time.Time) (oldest *resources.Request, begins, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range requests {
		if r.IsOpen() && (oldest == nil || r.Created.Before(oldest.Created)) {
			oldest = r
		}
	}
	before := s.duration
	s.duration = 0
	if oldest != nil {
		since := oldest.Created
		if s.progress.After(since) {
			since = s.progress
		}
		if waited := now.Sub(since); waited >= s.after {
			s.duration = waited
		}
	}
	begins = s.duration > 0 && now.Sub(s.loggedAt) >= s.after
	if begins {
		s.loggedAt = now
	}
	over = before > 0 && s.duration == 0
	if over {
		s.loggedAt = time.Time{}
	}
	return oldest, begins, over
}

// relevantRequests returns the requests that concern this process.
func relevantRequests(seen plan.Observed, leads func(provider string) bool) []*resources.Request {
	if !seen.Shared {
		return seen.Records.Requests
	}
	return slices.DeleteFunc(slices.Clone(seen.Records.Requests), func(r *resources.Request) bool { return !plan.Concerns(seen, r, leads) })
}

// Stalled returns how long requests have waited while nothing was launched or served; 0 when that is less than
// Options.Stall.
func (d *Daemon) Stalled() time.Duration { return d.stall.lasts() }

// lasts returns the duration of the stall; 0 without one.
func (s *stall) lasts() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.duration
}

// check logs a stall of the given requests when it begins, every Options.Stall while it lasts, and when it ends.
func (s *stall) check(pass Pass, requests []*resources.Request) {
	oldest, begins, over := s.update(requests, pass.Observed.Now)
	switch {
	case begins:
		lasts, why := s.lasts().Round(time.Second), whyWaiting(pass, oldest)
		s.log.Error("requests wait and nothing is launched or served", "for", lasts, "oldest_request", oldest.ID, "labels", oldest.Labels, "why", why)
		s.journal.add(resources.Event{Time: pass.Observed.Now, Subject: oldest.Key().String(), EventID: oldest.EventID, Related: labelSubjects(oldest.Labels), Code: "stalled",
			Text: fmt.Sprintf("no step has launched or served anything for %s while this request waits: %s", lasts, why)})
	case over:
		s.log.Info("requests are served again")
	}
}

// whyWaiting returns the reason why a request waits.
func whyWaiting(pass Pass, r *resources.Request) string {
	explained := plan.Compute(pass.Desired, pass.Observed, plan.Options{HonorBackoff: true, Explain: true})
	for _, note := range explained.Notes {
		if note.Address == plan.Address("request."+r.ID) {
			return note.Text
		}
	}
	if r.State == resources.StatePending {
		return fmt.Sprintf("its nodes are launching in pool %s of provider %s", r.Placement.Pool, r.Placement.Provider)
	}
	return "the reason is unknown; npctl why has details"
}
