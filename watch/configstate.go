package watch

import (
	"time"

	"github.com/npctl/npctl/plan"
)

// ConfigState describes the configuration in force, a newer rejected one, and pending deletions.
type ConfigState struct {
	LoadedAt         time.Time   // when the configuration in force was read
	RejectedAt       time.Time   // when a newer configuration was rejected; zero if none was
	Error            string      // why it was rejected
	ConsentRequired  string      // why deletions of the configuration in force need consent
	PendingDeletions []plan.Step // the deletions that need consent
	StateOutdated    string      // why objects without a record are not deleted
}

// Notes returns what a health check reports although the daemon is ready. Health checks need no token, so the notes
// contain no details.
func (s ConfigState) Notes() []string {
	var notes []string
	if s.Error != "" {
		notes = append(notes, "the newest configuration was rejected")
	}
	if s.ConsentRequired != "" {
		notes = append(notes, "deletions need consent")
	}
	if s.StateOutdated != "" {
		notes = append(notes, "the state is older than the clouds")
	}
	return notes
}

// Configuration returns the state of the configuration.
func (d *Daemon) Configuration() ConfigState { return d.config.describe(d.Last().Plan) }

// configSubject is the subject of events about the configuration.
const configSubject = "configuration"

// allowFor returns which deletions a configuration may cause.
func allowFor(destroy bool) plan.Allow {
	if destroy {
		return plan.AllowAll
	}
	return ""
}

func noteOf(p plan.Plan, code string) string {
	for _, n := range p.Notes {
		if n.Code == code {
			return n.Text
		}
	}
	return ""
}
