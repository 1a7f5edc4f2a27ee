package reconcile

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/plan"
)

// asksAtOnce is how many sources and build hosts are asked at a time.
const asksAtOnce = 8

// elsewhere asks the sources of images that are fetched what they have, and the hosts that keep builds which ones. Those
// that do not answer have the reason in their view; only ctx ending is an error.
func (e *Engine) elsewhere(ctx context.Context, seen *plan.Observed) error {
	seen.Sources, seen.Hosts = map[string]plan.SourceView{}, map[string]plan.HostsView{}
	var mu sync.Mutex // guards both maps
	var group errgroup.Group
	group.SetLimit(asksAtOnce)
	for i := range e.Desired.Images {
		image := &e.Desired.Images[i]
		sourced, ok := e.Builders[image.Builder].(builders.Sourced)
		if !ok {
			continue
		}
		group.Go(func() error {
			var view plan.SourceView
			versions, err := sourced.Versions(ctx, image.Config, e.Desired.Settings.Dir)
			if view.Versions = versions; err != nil {
				view.Err = err.Error()
			}
			mu.Lock()
			defer mu.Unlock()
			seen.Sources[image.Name] = view
			return nil
		})
	}
	for kind, builder := range e.Builders {
		remote, ok := builder.(builders.Remote)
		if !ok {
			continue
		}
		group.Go(func() error {
			var view plan.HostsView
			held, err := remote.Held(ctx)
			if view.Held = held; err != nil {
				view.Err = err.Error()
			}
			mu.Lock()
			defer mu.Unlock()
			seen.Hosts[kind] = view
			return nil
		})
	}
	_ = group.Wait() // the goroutines return no errors
	return ctx.Err()
}
