package reconcile

import (
	"context"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// LendMachines returns the instance provider of a build with that ID, and the function that ends it. The build is
// recorded as running on this host.
func LendMachines(ctx context.Context, e *Engine, seen plan.Observed, buildID string) (builders.Instances, func(), error) {
	x, err := begin(ctx, e, seen)
	if err != nil {
		return nil, nil, err
	}
	now := e.Now()
	b := &resources.Build{ID: buildID, Image: "golden", Kind: resources.DiskImage, State: resources.StateBuilding, StateTime: now,
		Created: now, Builder: "snapshot", Host: e.host}
	return &instanceProvider{x: x, step: plan.Step{ID: "build diskimage.golden", Image: "golden"}, build: buildID}, x.pollers.end, x.cache.put(ctx, b)
}

// begin returns an execution with a record cache of its own.
func begin(ctx context.Context, e *Engine, seen plan.Observed) (*execution, error) {
	shared, err := newRun(ctx, e.Store)
	return &execution{Engine: e, sharedRun: shared, seen: seen}, err
}
