package plan

import (
	"maps"
	"time"

	"github.com/npctl/npctl/resources"
)

// LockHolder is another process that holds the lock of the state, and may change it while the plan is computed.
type LockHolder struct {
	Operation string    `json:"operation"` // such as apply
	Who       string    `json:"who"`       // user@host
	Host      string    `json:"host"`
	PID       int       `json:"pid"`
	Since     time.Time `json:"since"`
}

// markLockHolderBusy marks the records as busy that the lock holder may be changing. The state does not contain which
// ones it works on.
func markLockHolderBusy(seen Observed) Observed {
	if seen.LockHolder == nil {
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

// CodeInProgress is the code of the note about another process that works on the state.
const CodeInProgress = "in-progress"

// noteWorker notes the process that works on the state.
func (d *draft) noteWorker() {
	if w := d.world.seen.LockHolder; w != nil {
		d.note(Warning, CodeInProgress, "", resources.Source{},
			"%s (process %d on %s) has been working on the state for %s since %s; the plan skips the records that it may be changing",
			w.Who, w.PID, w.Host, w.Operation, clock(w.Since))
	}
}

// workedOn reports whether the lock holder may be building or uploading the image. The later steps of the image are
// unknown then.
func (w *world) workedOn(image string) bool {
	if w.seen.LockHolder == nil {
		return false
	}
	for _, b := range w.builds[image] {
		if b.State == resources.StateBuilding {
			return true
		}
	}
	for _, u := range w.uploads[image] {
		if u.State == resources.StateUploading {
			return true
		}
	}
	return false
}
