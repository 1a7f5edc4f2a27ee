package main

import (
	"fmt"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/internal/terminal"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/plan/render"
)

// allowKinds are the values of -allow-destroy.
var allowKinds = choices{string(plan.AllowNone), string(plan.AllowNodes), string(plan.AllowImages), string(plan.AllowAll)}

// planOptions holds the options of every command that computes a plan.
type planOptions struct {
	variables                  variableOptions
	targets, excludes, replace []string
	refresh                    bool
	refreshOnly, destroy       bool
	allow                      string
	parallelism                int
	verbose                    bool
	json                       bool
	input                      bool
	imports                    []plan.ImportKey // of npctl import
	moves                      bool             // only these, for npctl state mv
	lockTimeout                time.Duration
	against                    string // revision or directory of the base; "" without a comparison
	snapshot                   string // file or URL; "" to observe the state and the clouds
	snapshotAge                time.Duration
}

func (o *planOptions) flags() []cli.Flag {
	flags := []cli.Flag{
		&stringsFlag{cli.StringSliceFlag{Name: "target", Category: categoryPlanning, Destination: &o.targets, Usage: "plan only objects at or below this `ADDRESS`, and their dependencies; may be given several times"}, addressCandidates},
		&stringsFlag{cli.StringSliceFlag{Name: "exclude", Category: categoryPlanning, Destination: &o.excludes, Usage: "exclude objects at or below this `ADDRESS`, and their dependents; may be given several times"}, addressCandidates},
		&stringsFlag{cli.StringSliceFlag{Name: "replace", Category: categoryPlanning, Destination: &o.replace, Usage: "replace the object at this `ADDRESS`: diskimage.NAME, provider.NAME.image.IMAGE or node.ID; may be given several times"}, replaceCandidates},
		&cli.BoolFlag{Name: "refresh", Category: categoryPlanning, Destination: &o.refresh, Value: true, Usage: "list the clouds; -refresh=false uses the state instead"},
		&cli.BoolFlag{Name: "refresh-only", Category: categoryPlanning, Destination: &o.refreshOnly, Usage: "only update the state from the clouds; create and delete nothing"},
		&stringFlag{cli.StringFlag{Name: "allow-destroy", Category: categoryPlanning, Destination: &o.allow, Usage: "`KIND` of objects that changes of the configuration may delete: " + allowKinds.String() + "; npctl refuses a plan that deletes others. Without this option npctl refuses a plan that deletes more than 10 objects, or more than half. Old builds and failed, used and aged nodes may always be deleted"}, allowKinds.source},
	}
	return append(append(flags, o.runFlags()...), o.variables.flags()...)
}

// runFlags returns the options that do not affect the plan.
func (o *planOptions) runFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "input", Category: categoryRun, Destination: &o.input, Value: true, Usage: "ask for approval; -input=false fails instead (npctl plan never asks)"},
		lockTimeoutFlag(&o.lockTimeout),
		&cli.IntFlag{Name: "parallelism", DefaultText: parallelismDefault, Category: categoryRun, Destination: &o.parallelism, Usage: "at most `N` steps at a time in one provider, if its max_concurrency is not lower"},
		&cli.BoolFlag{Name: "verbose", Category: categoryOutput, Destination: &o.verbose, Usage: "show all values in full"},
	}
}

const parallelismDefault = "0, no further limit"

func lockTimeoutFlag(wait *time.Duration) cli.Flag {
	return &cli.DurationFlag{Name: "lock-timeout", DefaultText: "0s, do not wait", Category: categoryRun, Destination: wait, Usage: "wait for a `DURATION` such as 5m while another npctl works on the state"}
}

func (o *planOptions) destroyFlag() cli.Flag {
	return &cli.BoolFlag{Name: "destroy", Category: categoryPlanning, Destination: &o.destroy, Usage: "plan to remove everything that npctl has created"}
}

func (o *planOptions) againstFlag() cli.Flag {
	return &cli.StringFlag{Name: "against", Category: categoryPlanning, Destination: &o.against, TakesFile: true, Usage: "plan only the effect of the change since `REVISION`: a revision of the git repository, such as HEAD^1, or a directory with another configuration"}
}

func (o *planOptions) snapshotFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "snapshot", Category: categoryPlanning, Destination: &o.snapshot, TakesFile: true, Usage: "plan with a snapshot instead of the state and the clouds: a `FILE` of npctl snapshot, or the URL of npctl watch (with NPCTL_TOKEN and NPCTL_CA). The configuration may come from anyone: npctl runs no program and reads no file outside of its repository"},
		&cli.DurationFlag{Name: "snapshot-age", DefaultText: "0s, any age", Category: categoryPlanning, Destination: &o.snapshotAge, Usage: "refuse a snapshot older than this `DURATION`"},
	}
}

// check returns an error if options contradict each other.
func (o *planOptions) check() error {
	if o.allow != "" {
		if err := allowKinds.check("option -allow-destroy:", o.allow); err != nil {
			return err
		}
	}
	switch {
	case o.against != "" && (o.destroy || o.refreshOnly || len(o.replace) > 0):
		return fmt.Errorf("-against is about a change of the configuration, so it cannot be combined with -destroy, -refresh-only and -replace")
	case o.snapshot != "" && (!o.refresh || o.refreshOnly):
		return fmt.Errorf("-snapshot cannot be combined with -refresh=false and -refresh-only, because it replaces the listings of the clouds")
	case o.refreshOnly && o.destroy:
		return fmt.Errorf("-refresh-only and -destroy contradict each other")
	case o.refreshOnly && !o.refresh:
		return fmt.Errorf("-refresh-only and -refresh=false contradict each other")
	case o.refreshOnly && len(o.replace) > 0, o.destroy && len(o.replace) > 0:
		return fmt.Errorf("-replace cannot be combined with -refresh-only or -destroy")
	}
	return nil
}

// compute returns the options for plan.Compute.
func (o *planOptions) compute() plan.Options {
	return plan.Options{Targets: addresses(o.targets), Excludes: addresses(o.excludes), Replace: addresses(o.replace),
		Destroy: o.destroy, RefreshOnly: o.refreshOnly, NoRefresh: !o.refresh, AllowDestroy: plan.Allow(o.allow), Imports: o.imports, Moves: o.moves}
}

// narrowed reports whether an option affects the content of the plan.
func (o *planOptions) narrowed() bool {
	return len(o.targets)+len(o.excludes)+len(o.replace) > 0 || o.destroy || o.refreshOnly || o.allow != ""
}

func addresses(texts []string) []plan.Address {
	var all []plan.Address
	for _, t := range texts {
		all = append(all, plan.Address(addressOf(t)))
	}
	return all
}

// printPlan prints the text of a plan on stdout.
func (a *app) printPlan(p plan.Plan, o *planOptions, now time.Time) error {
	return terminal.OutputError(render.Text(a.ui.Out, p, render.TextOptions{Color: a.ui.OutColor, Width: a.ui.OutWidth(), Verbose: o.verbose, Now: now}))
}

// printReport prints a plan as a JSON document.
func (a *app) printReport(p plan.Plan, meta plan.Meta) error {
	report, err := render.Report(p, meta)
	if err != nil {
		return err
	}
	return a.ui.Write(string(report))
}
