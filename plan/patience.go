package plan

import (
	"fmt"
	"strings"
	"time"

	"github.com/npctl/npctl/resources"
)

// NoteFailing is the code of notes about steps that have failed and wait for their next try.
const NoteFailing = "failing"

// patience is how long something that has failed is left alone: longer each time, up to a limit. What cannot work before
// somebody mends something starts at the limit.
type patience struct{ first, most time.Duration }

var (
	buildPatience  = patience{first: time.Minute, most: 2 * time.Hour}
	uploadPatience = patience{first: 30 * time.Second, most: time.Hour}
	launchPatience = patience{first: 5 * time.Second, most: 10 * time.Minute}
	awayPatience   = patience{first: 5 * time.Second, most: time.Minute} // nobody has to mend anything of ours
	staticPatience = patience{first: 30 * time.Second, most: 10 * time.Minute}
	deletePatience = patience{first: 5 * time.Second, most: 10 * time.Minute}
	stepPatience   = patience{first: time.Second, most: 5 * time.Minute} // of every other step
)

// launchesAfter is how long launches that failed like that are left alone.
func launchesAfter(f *resources.Failure) patience {
	if f.Kind == resources.FaultUnavailable {
		return awayPatience
	}
	return launchPatience
}

// until is when the next try is due.
func (p patience) until(f *resources.Failure) time.Time {
	wait := p.first
	for i := 1; i < f.Count && wait < p.most; i++ {
		wait *= 2
	}
	if f.Kind == resources.FaultRejected || wait > p.most {
		wait = p.most
	}
	return f.Time.Add(wait)
}

// clockSlack is how far in the future a time may be that another process, or an earlier reading of the clock, wrote.
const clockSlack = time.Minute

// waits reports whether a new try has to wait. A failure dated in the future was recorded before the clock was
// set back: its true time is unknown, so it delays nothing.
func (c *computation) waits(f *resources.Failure, p patience) bool {
	return c.opt.Patient && f != nil && !f.Time.After(c.seen.Now.Add(clockSlack)) && c.seen.Now.Before(p.until(f))
}

// withoutFailing leaves out steps that have failed and are not due again yet, and what needs them.
func (c *computation) withoutFailing(steps []Step) []Step {
	waiting := map[string]bool{}
	for _, s := range steps {
		f, p := c.seen.Failing[s.ID], stepPatience
		if s.Action == ActionDelete {
			p = deletePatience
		}
		if s.Action == ActionLaunch || !c.waits(f, p) { // launches have patience of their own
			continue
		}
		waiting[s.ID] = true
		c.note(Warning, NoteFailing, s.Address, s.Source, "%s of %s has failed %s; it is tried again after %s: %s", s.Action, s.Address,
			times(f.Count), clock(p.until(f)), firstLine(f.Error))
	}
	return without(steps, waiting)
}

// imageRecord is what is remembered of an image, which may be nothing.
func (c *computation) imageRecord(image string) *resources.ImageRecord {
	if r := c.world.image[image]; r != nil {
		return r
	}
	return &resources.ImageRecord{Name: image}
}

// failedBefore adds to the evidence that earlier tries have failed.
func (c *computation) failedBefore(img *resources.Image, due dueBuild) dueBuild {
	if f := c.imageRecord(img.Name).Failure; f != nil && due.reason != "" {
		due.evidence = append(due.evidence, failureFacts(f)...)
	}
	return due
}

func failureFacts(f *resources.Failure) []Fact {
	return []Fact{{"failed", times(f.Count)}, {"last error", firstLine(f.Error)}}
}

// firstLine is what of an error fits into a line.
func firstLine(text string) string {
	text, _, _ = strings.Cut(text, "\n")
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
