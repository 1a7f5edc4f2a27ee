package reconcile

import (
	"context"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// LendMachines is what a build of that id gets to boot machines with, and how to end it. The build is recorded as being
// made here.
func LendMachines(ctx context.Context, e *Engine, seen plan.Observed, buildID string) (builders.Machines, func(), error) {
	x, err := e.begin(ctx, seen)
	if err != nil {
		return nil, nil, err
	}
	now := e.Now()
	b := &resources.Build{ID: buildID, Image: "golden", Kind: resources.DiskImage, State: resources.StateBuilding, StateTime: now,
		Created: now, Builder: "snapshot", Host: e.host}
	return x.machines(plan.Step{ID: "build diskimage.golden", Image: "golden"}, buildID), x.end, x.ledger.put(ctx, b)
}
