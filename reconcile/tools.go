package reconcile

import (
	"os"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/internal/process"
	"github.com/npctl/npctl/internal/qemuimg"
	"github.com/npctl/npctl/plan"
)

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
