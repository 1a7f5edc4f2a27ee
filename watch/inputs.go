package watch

import (
	"context"
	"log/slog"
	"time"

	"github.com/npctl/npctl/reconcile"
)

// inputPoller queries the input files of images, image sources and build hosts.
type inputPoller struct {
	observer    *reconcile.Observer
	leaks       *leakRecorder
	refresh     time.Duration // between two queries without a trigger
	trigger     <-chan struct{}
	triggerPass func()
	log         *slog.Logger
}

// run queries the inputs repeatedly until ctx is done.
func (p *inputPoller) run(ctx context.Context) {
	for {
		switch err := p.observer.QueryInputs(ctx); {
		case ctx.Err() != nil:
			return
		case err != nil:
			p.log.Error("inputs of images could not be queried", "error", err)
		default:
			p.leaks.record(ctx, "images directory", func() error { return p.observer.SightFiles(ctx) })
			p.triggerPass()
		}
		select {
		case <-time.After(p.refresh):
		case <-p.trigger:
		case <-ctx.Done():
			return
		}
	}
}
