package plan

import (
	"fmt"
	"strings"
	"time"

	"github.com/npctl/npctl/resources"
)

// NoteFailing is the code of notes about failed steps that wait for their next attempt.
const NoteFailing = "failing"

// backoff is the delay before the next attempt of a failed operation. It doubles with each failure up to max;
// failures that an operator has to fix start at max.
type backoff struct{ initial, max time.Duration }

var (
	buildBackoff       = backoff{initial: time.Minute, max: 2 * time.Hour}
	uploadBackoff      = backoff{initial: 30 * time.Second, max: time.Hour}
	launchBackoff      = backoff{initial: 5 * time.Second, max: 10 * time.Minute}
	unreachableBackoff = backoff{initial: 5 * time.Second, max: time.Minute} // it recovers without an operator
	staticBackoff      = backoff{initial: 30 * time.Second, max: 10 * time.Minute}
	deleteBackoff      = backoff{initial: 5 * time.Second, max: 10 * time.Minute}
	stepBackoff        = backoff{initial: time.Second, max: 5 * time.Minute} // of all other steps
)

// launchBackoffAfter returns the backoff of launches after the failure.
func launchBackoffAfter(f *resources.Failure) backoff {
	if f.Kind == resources.FaultUnavailable {
		return unreachableBackoff
	}
	return launchBackoff
}

// next returns the time of the next attempt.
func (p backoff) next(f *resources.Failure) time.Time {
	wait := p.initial
	for i := 1; i < f.Count && wait < p.max; i++ {
		wait *= 2
	}
	if f.Kind == resources.FaultRejected || wait > p.max {
		wait = p.max
	}
	return f.Time.Add(wait)
}

// NextBuildAttempt returns when a failed build is repeated.
func NextBuildAttempt(f *resources.Failure) time.Time { return buildBackoff.next(f) }

// DelaysBuild reports whether a failure delays a build with these hashes. A changed image is built at once, and so is a
// requested one, unless the failure is that of a requested build.
func DelaysBuild(f *resources.Failure, hashes resources.Hashes, reason Reason, now time.Time) bool {
	return buildBackoff.delays(f, now) && hashes.Match(f.Hash) && (reason != ReasonRequested || f.Requested)
}

// clockSlack is the tolerance for future times that another process, or an earlier reading of the clock, wrote.
const clockSlack = time.Minute

// delays reports whether the next attempt has to wait. A failure dated in the future was recorded before the clock
// was set back: its true time is unknown, so it delays nothing.
func (p backoff) delays(f *resources.Failure, now time.Time) bool {
	return f != nil && !f.Time.After(now.Add(clockSlack)) && now.Before(p.next(f))
}

// inBackoff reports whether the plan postpones the next attempt.
func (w *world) inBackoff(f *resources.Failure, p backoff) bool {
	return w.opt.HonorBackoff && p.delays(f, w.seen.Now)
}

// withoutFailing removes failed steps in backoff and the steps that need them.
func (d *draft) withoutFailing(steps []Step) []Step {
	waiting := map[string]bool{}
	for _, s := range steps {
		f, p := d.world.seen.FailingSteps[s.ID], stepBackoff
		if s.Action == ActionDelete {
			p = deleteBackoff
		}
		if s.Kind == KindLaunch || !d.world.inBackoff(f, p) { // launches have their own backoff
			continue
		}
		waiting[s.ID] = true
		d.note(Warning, NoteFailing, s.Address, s.Source, "%s of %s has failed %s; it is tried again after %s: %s", s.Action, s.Address,
			times(f.Count), clock(p.next(f)), FirstLine(f.Error))
	}
	return without(steps, waiting)
}

// imageRecord returns the record of an image, or an empty one.
func (w *world) imageRecord(image string) *resources.ImageRecord {
	if r := w.image[image]; r != nil {
		return r
	}
	return &resources.ImageRecord{Name: image}
}

func failureFacts(f *resources.Failure) []Fact {
	return []Fact{{"failed", times(f.Count)}, {"last error", FirstLine(f.Error)}}
}

// FirstLine returns the first line of an error, cut at 300 bytes, without the announcement of the lines that follow.
func FirstLine(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	text = strings.TrimSuffix(text, "; the last lines of its output:")
	if most := 300; len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + " ..."
	}
	return text
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// breakerThreshold is the number of consecutive failed launches that stops all launches in a provider until the
// backoff ends.
const breakerThreshold = 5

// breaker returns why launches of the offer are postponed after failures, or nil.
func (w *world) breaker(at *poolOffer) *blocker {
	offer := w.seen.LaunchFailures[OfferAddress(at.at.provider, at.at.pool, at.offer.Label)]
	whole := w.seen.LaunchFailures[ProviderAddress(at.provider.Name)]
	for _, f := range []*resources.Failure{offer, whole} {
		if f == nil || f == whole && f.Count < breakerThreshold || !w.inBackoff(f, launchBackoffAfter(f)) {
			continue
		}
		return &blocker{text: fmt.Sprintf("launches have failed %s, the next attempt is after %s: %s", times(f.Count), clock(launchBackoffAfter(f).next(f)), f.Error)}
	}
	return nil
}
