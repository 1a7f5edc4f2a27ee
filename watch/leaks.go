package watch

import (
	"context"
	"log/slog"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
)

// leakRecorder records sightings of objects that carry the ownership tags of this installation and have no record. They
// are deleted after leak_age.
type leakRecorder struct {
	runner     *reconcile.Runner
	suspension *suspension
	log        *slog.Logger
	readOnly   bool // record does nothing
}

// record records the leaks in an observed state without records. where names its source in the log.
func (l *leakRecorder) record(ctx context.Context, seen plan.Observed, where string) {
	if seen.Installation == "" || l.readOnly {
		return
	}
	l.runner.FillFromRunner(&seen)
	if err := l.suspension.unlessSuspended(func() error { return l.runner.Sight(ctx, seen) }); err != nil && ctx.Err() == nil {
		l.log.Error("leaks could not be recorded", "where", where, "error", err)
	}
}

// recordFiles is record for the images directory: another builder may have deleted the records of files here.
func (l *leakRecorder) recordFiles(ctx context.Context, engine *reconcile.Engine, installation string) {
	seen := plan.Observed{Now: engine.Now(), Installation: installation}
	if err := engine.Files(&seen); err == nil { // passes log the error
		l.record(ctx, seen, "images directory")
	}
}
