package reconcile

import (
	"context"
	"os"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/internal/process"
	"github.com/npctl/npctl/internal/qemuimg"
	"github.com/npctl/npctl/plan"
)

// maxParallelQueries is how many image sources and build hosts are queried at a time.
const maxParallelQueries = 8

// queryExternalSources queries the versions of images with an external source, and the builds on build hosts. If a
// query fails, its view contains the error; queryExternalSources returns an error only if ctx ends.
func (e *Engine) queryExternalSources(ctx context.Context, seen *plan.Observed) error {
	seen.Versions, seen.Hosts = map[string]plan.SourceView{}, map[string]plan.HostsView{}
	var mu sync.Mutex // guards both maps
	var group errgroup.Group
	group.SetLimit(maxParallelQueries)
	for i := range e.Desired.Images {
		image := &e.Desired.Images[i]
		sourced, ok := e.Builders[image.Builder].(builders.Versioned)
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
			seen.Versions[image.Name] = view
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
			held, err := remote.ListBuilds(ctx)
			if view.Builds = held; err != nil {
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

// findTools observes which programs that builds and conversions need are missing on this host.
func (e *Engine) findTools(seen *plan.Observed) {
	path := process.Getenv(process.BaseEnv(os.Environ()), "PATH")
	if e.RunQemuImg == nil && !process.Installed(qemuimg.Program, path) {
		seen.Converter = []plan.Program{{Name: qemuimg.Program, Package: qemuimg.Package}}
	}
	seen.Tools = map[string]plan.Tools{}
	for _, image := range e.Desired.Images {
		tooled, ok := e.Builders[image.Builder].(builders.ToolUser)
		if !ok {
			continue
		}
		needs := tooled.Tools(image.Config)
		tools := plan.Tools{Formats: needs.Formats}
		for _, p := range needs.Programs {
			if !process.Installed(p.Name, p.Path) {
				tools.Missing = append(tools.Missing, plan.Program{Name: p.Name, Package: p.Package})
			}
		}
		seen.Tools[image.Name] = tools
	}
}
