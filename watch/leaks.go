package watch

import (
	"context"
	"log/slog"
)

// leakRecorder records sightings of objects that carry the ownership tags of this installation and have no record. They
// are deleted after leak_age.
type leakRecorder struct {
	suspension *suspension
	log        *slog.Logger
	readOnly   bool // record does nothing
}

// record calls sight, which records leaks. where names their place in the log.
func (l *leakRecorder) record(ctx context.Context, where string, sight func() error) {
	if l.readOnly {
		return
	}
	if err := l.suspension.unlessSuspended(sight); err != nil && ctx.Err() == nil {
		l.log.Error("leaks could not be recorded", "where", where, "error", err)
	}
}
