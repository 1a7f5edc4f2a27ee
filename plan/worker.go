package plan

import (
	"maps"
	"time"

	"github.com/npctl/npctl/resources"
)

// Worker is another process that changes things while the plan is made: it holds the lock of the state.
type Worker struct {
	Operation string    `json:"operation"` // such as apply
	Who       string    `json:"who"`       // user@host
	Host      string    `json:"host"`
	PID       int       `json:"pid"`
	Since     time.Time `json:"since"`
}

// besideWorker marks the records as busy that the worker may be working on. Which of them it works on is not recorded.
func besideWorker(seen Observed) Observed {
	if seen.Worker == nil {
		return seen
	}
	seen.Busy = maps.Clone(seen.Busy)
	if seen.Busy == nil {
		seen.Busy = map[resources.Key]bool{}
	}
	mark := func(key resources.Key, in resources.State) {
		switch in {
		case resources.StateInit, resources.StateBuilding, resources.StateUploading, resources.StateDeleting:
			seen.Busy[key] = true
		}
	}
	for _, b := range seen.Records.Builds {
		mark(b.Key(), b.State)
	}
	for _, u := range seen.Records.Uploads {
		mark(u.Key(), u.State)
	}
	for _, n := range seen.Records.Nodes {
		mark(n.Key(), n.State)
	}
	return seen
}

// CodeInProgress is the code of the note about another process at work.
const CodeInProgress = "in-progress"

// noteWorker says who works on the state.
func (c *computation) noteWorker() {
	if w := c.seen.Worker; w != nil {
		c.note(Warning, CodeInProgress, "", resources.Source{},
			"%s (process %d on %s) has been working on the state for %s since %s; what it works on is left alone",
			w.Who, w.PID, w.Host, w.Operation, clock(w.Since))
	}
}

// workedOn reports whether the worker is building or uploading the image. What is to be done with it afterwards is not known.
func (c *computation) workedOn(image string) bool {
	if c.seen.Worker == nil {
		return false
	}
	for _, b := range c.world.builds[image] {
		if b.State == resources.StateBuilding {
			return true
		}
	}
	for _, u := range c.world.uploads[image] {
		if u.State == resources.StateUploading {
			return true
		}
	}
	return false
}

// unknown says why a summary does not cover everything; empty when it does.
func (s Summary) unknown() string {
	why := ""
	if s.Deferred > 0 {
		why = renderCount(s.Deferred, "provider") + " could not be listed"
	}
	switch {
	case s.InProgress && why != "":
		why += ", and another npctl is working"
	case s.InProgress:
		why = "another npctl is working"
	}
	return why
}
