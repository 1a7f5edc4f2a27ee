package main

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

const importDescription = `Adopts one server or image that exists in a cloud, as an import block does: shows it, asks, writes
npctl's ownership tags to it, and records it. It changes nothing else.

ADDRESS is provider.NAME.pool.NAME.label.NAME for a server, which becomes a node, or
provider.NAME.image.NAME for an image, which becomes a build with an upload. ID is that of the cloud.
The node of a server is on hold, and deleted after npctl node release. With -state=ready it is available
for requests.

Examples:
  npctl import provider.vexxhost.pool.main.label.debian-small 5c01f580-9925-4e70-abc0-c8c329c52b5b
  npctl import -state=ready -auto-approve provider.vexxhost.pool.main.label.debian-small 5c01f580-9925-4e70-abc0-c8c329c52b5b
  npctl import -dry-run provider.vexxhost.image.debian 13b6bdaa-69de-49cb-8323-6804547b32f3

Exit codes: 0 it is imported, 1 error, 130 interrupted.`

// importStates are the values of -state.
var importStates = choices{string(resources.StateHold), string(resources.StateReady)}

// importCommand implements npctl import.
type importCommand struct {
	applyCommand
	state string
}

func newImportCommand(a *app) *cli.Command {
	c := &importCommand{applyCommand: applyCommand{app: a, operation: "import"}}
	return &cli.Command{
		Name: "import", Category: categoryState, Usage: "adopt a server or an image that exists", ArgsUsage: "ADDRESS ID", Description: importDescription, Metadata: events(single(addressCandidates)),
		Flags: append([]cli.Flag{
			&stringFlag{cli.StringFlag{Name: "state", Category: categorySelection, Destination: &c.state, Value: string(resources.StateHold), Usage: "`STATE` of the node of a server: " + importStates.String() + "; before the command, -state names the state file"}, importStates.source},
		}, c.aloneFlags()...),
		Action: c.run,
	}
}

// aloneFlags returns the options of a command that applies one thing of its arguments.
func (c *applyCommand) aloneFlags() []cli.Flag {
	return slices.Concat([]cli.Flag{
		&cli.BoolFlag{Name: "auto-approve", Category: categoryRun, Destination: &c.autoApprove, Usage: "do not ask"},
		&cli.BoolFlag{Name: "dry-run", Category: categoryRun, Destination: &c.dryRun, Usage: "only show the plan"},
		&cli.BoolFlag{Name: "json", Category: categoryOutput, Destination: &c.json, Usage: "print events as JSON, one per line, as apply -json does (see docs/json.md); cannot prompt, so it needs -auto-approve or -dry-run"},
		c.compactFlag(),
	}, c.runFlags(), c.variables.flags())
}

// checkAlone returns an error if the command had to ask and could not.
func (c *applyCommand) checkAlone() error {
	if c.json && !c.autoApprove && !c.dryRun {
		return hint(errors.New("-json cannot prompt"), "add -auto-approve, or -dry-run")
	}
	return nil
}

func (c *importCommand) run(ctx context.Context, cmd *cli.Command) error {
	return c.withEvents(func(events *eventWriter) error {
		one, err := c.object(cmd)
		if err != nil {
			return err
		}
		return c.adopt(ctx, one, events)
	})
}

// object returns the import that the arguments name.
func (c *importCommand) object(cmd *cli.Command) (resources.Import, error) {
	if cmd.NArg() != 2 || cmd.Args().Get(1) == "" {
		return resources.Import{}, hint(errors.New("npctl import needs an address and the ID of an object in the cloud"), "npctl import provider.NAME.pool.NAME.label.NAME ID")
	}
	if err := cmp.Or(importStates.check("option -state:", c.state), c.checkAlone()); err != nil {
		return resources.Import{}, err
	}
	one, err := resources.ParseImport(cmd.Args().First(), cmd.Args().Get(1))
	if one.Kind() == resources.KindNode {
		one.State = resources.State(c.state)
	}
	return one, err
}

// adopt plans and executes the import alone. It replaces an import block with the same ID.
func (c *importCommand) adopt(ctx context.Context, one resources.Import, events *eventWriter) error {
	config, err := c.loadAndWarn(c.variables)
	if err != nil {
		return err
	}
	imports := slices.DeleteFunc(slices.Clone(config.Desired.Imports), func(i resources.Import) bool {
		return i.ID == one.ID && i.Provider == one.Provider && i.Kind() == one.Kind()
	})
	imports = append(imports, one)
	config.Desired.Imports = imports
	c.refresh, c.imports = true, []plan.ImportKey{{Kind: one.Kind(), ID: one.ID}}
	return c.applyAlone(ctx, config, events, func(*session) error { return nil })
}

// applyAlone opens a session, and plans and executes under the lock of the state, unless check rejects the session.
func (c *applyCommand) applyAlone(ctx context.Context, config *configuration, events *eventWriter, check func(*session) error) error {
	s, err := c.openSession(ctx, config, c.parallelism, writeState)
	if err != nil {
		return err
	}
	defer s.close()
	if err := check(s); err != nil {
		return err
	}
	return c.locked(ctx, s.store, c.operation, c.lockTimeout, func(ctx context.Context) error { return c.applyFresh(ctx, s, events) })
}
