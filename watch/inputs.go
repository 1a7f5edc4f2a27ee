package watch

import (
	"context"
	"log/slog"
	"time"
)

// inputPoller queries the input files of images, image sources and build hosts.
type inputPoller struct {
	config      *configuration
	leaks       *leakRecorder
	refresh     time.Duration // between two queries without a trigger
	trigger     <-chan struct{}
	triggerPass func()
	log         *slog.Logger
}

// run queries the inputs repeatedly until ctx is done.
func (p *inputPoller) run(ctx context.Context) {
	for {
		engine := p.config.current()
		inputs, err := engine.ObserveInputs(ctx, true)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			p.log.Error("inputs of images could not be queried", "error", err)
		default:
			p.config.setInputs(engine, inputs)
			p.leaks.recordFiles(ctx, engine, inputs.Installation)
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
