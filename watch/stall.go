package watch

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
)

// stallAfter is how long requests wait while nothing comes of it before that is told, where Options does not say.
const stallAfter = 15 * time.Minute

// stall notices that requests wait while nothing is launched or served. Each of its causes may be in order, such as a
// cloud that is full; that nobody is told is not.
type stall struct {
	mu       sync.Mutex    // guards what follows
	progress time.Time     // when something was last launched or served
	lasts    time.Duration // how long the stall has lasted; 0 when there is none
	told     time.Time     // when it was last told of
}

// note takes in what became of a step.
func (s *stall) note(event reconcile.Event) {
	helps := event.Step.Action == plan.ActionLaunch || event.Step.Action == plan.ActionServe
	if event.Kind != reconcile.EventDone || !helps {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.progress = event.Time
}

// look decides whether there is a stall, and whether to tell that it begins, goes on or is over.
func (s *stall) look(requests []*resources.Request, now time.Time, after time.Duration) (oldest *resources.Request, begins, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	oldest = oldestWaiting(requests)
	before := s.lasts
	s.lasts = 0
	if oldest != nil {
		since := oldest.Created
		if s.progress.After(since) {
			since = s.progress
		}
		if waited := now.Sub(since); waited >= after {
			s.lasts = waited
		}
	}
	begins = s.lasts > 0 && now.Sub(s.told) >= after
	if begins {
		s.told = now
	}
	over = before > 0 && s.lasts == 0
	if over {
		s.told = time.Time{}
	}
	return oldest, begins, over
}

// concerning lists the requests that this process has to do with.
func (d *Daemon) concerning(seen plan.Observed) []*resources.Request {
	if !seen.Shared {
		return seen.Records.Requests
	}
	return slices.DeleteFunc(slices.Clone(seen.Records.Requests), func(r *resources.Request) bool { return !plan.Concerns(seen, r, d.tenured) })
}

// oldestWaiting is the request that has waited longest; nil when none waits.
func oldestWaiting(requests []*resources.Request) (oldest *resources.Request) {
	for _, r := range requests {
		if r.Waits() && (oldest == nil || r.Created.Before(oldest.Created)) {
			oldest = r
		}
	}
	return oldest
}

// Stalled is for how long requests have waited while nothing was launched or served; 0 as long as that is less than
// Options.Stall.
func (d *Daemon) Stalled() time.Duration {
	d.stall.mu.Lock()
	defer d.stall.mu.Unlock()
	return d.stall.lasts
}

// watchStall tells of a stall when it begins, now and then while it lasts, and when it is over.
func (d *Daemon) watchStall(pass Pass) {
	if d.Shadow { // what it would begin says nothing of what is begun
		return
	}
	oldest, begins, over := d.stall.look(d.concerning(pass.Seen), pass.Seen.Now, d.Stall)
	switch {
	case begins:
		lasts, why := d.Stalled().Round(time.Second), d.whyWaiting(pass, oldest)
		d.Log.Error("requests wait and nothing is launched or served", "for", lasts, "oldest_request", oldest.ID, "labels", oldest.Labels, "why", why)
		d.Journal.add(resources.Event{Time: pass.Seen.Now, Subject: oldest.Key().String(), EventID: oldest.Event, Related: labelSubjects(oldest.Labels), Code: "stalled",
			Text: fmt.Sprintf("nothing has been launched or served for %s while this waits: %s", lasts, why)})
	case over:
		d.Log.Info("requests are served again")
	}
}

// whyWaiting says what a request waits for.
func (d *Daemon) whyWaiting(pass Pass, r *resources.Request) string {
	explained := plan.Compute(pass.Desired, pass.Seen, plan.Options{Patient: true, Explain: true})
	for _, note := range explained.Notes {
		if note.Address == plan.Address("request."+r.ID) {
			return note.Text
		}
	}
	if r.State == resources.StatePending {
		return fmt.Sprintf("its nodes are on their way in pool %s of provider %s", r.Place.Pool, r.Place.Provider)
	}
	return "no reason is known; npctl why tells more"
}
