package main

import (
	"cmp"
	"context"
	"fmt"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/plan/planfile"
	"github.com/npctl/npctl/plan/render"
)

const graphDescription = `Prints the steps of a plan as a graph: an arrow leads from each step to the steps it depends on. The
plan is computed as npctl plan does, or read from PLANFILE.

Examples:
  npctl graph | dot -Tsvg > plan.svg
  npctl graph -destroy -type=json
  npctl graph tonight.plan

Exit codes: 0, or 1 on an error or when the plan has problems.`

// graphTypes are the values of -type.
var graphTypes = choices{"dot", "json"}

// graphCommand implements npctl graph.
type graphCommand struct {
	*app
	planOptions
	kind string
}

func newGraphCommand(a *app) *cli.Command {
	c := &graphCommand{app: a}
	return &cli.Command{
		Name: "graph", Category: categoryOther, Usage: "print the steps of a plan as a graph", ArgsUsage: "[PLANFILE]", Description: graphDescription,
		Flags: append([]cli.Flag{
			&stringFlag{cli.StringFlag{Name: "type", Category: categoryOutput, Destination: &c.kind, Value: "dot", Usage: "`TYPE` of output: " + graphTypes.String()}, graphTypes.source},
			c.destroyFlag(),
		}, c.flags()...),
		Action: c.run,
	}
}

func (c *graphCommand) run(ctx context.Context, cmd *cli.Command) error {
	if err := cmp.Or(graphTypes.check("option -type:", c.kind), c.check()); err != nil {
		return err
	}
	p, err := c.plan(ctx, cmd.Args().First())
	if err != nil {
		return err
	}
	text := render.Graph(p) + "\n"
	if c.kind == "json" {
		report, err := render.GraphJSON(p)
		if err != nil {
			return err
		}
		text = string(report)
	}
	if err := c.ui.Write(text); err != nil {
		return err
	}
	if p.Summary().Empty() && len(p.Problems) == 0 {
		c.ui.Message("The graph is empty, because the plan has no steps. %s", p.Summary())
	}
	if len(p.Problems) > 0 {
		return hint(fmt.Errorf("%s", problemSentence(p)), "npctl plan shows the problems")
	}
	return nil
}

func (c *graphCommand) plan(ctx context.Context, path string) (plan.Plan, error) {
	if path != "" {
		file, err := planfile.Read(path)
		return file.Plan, err
	}
	s, err := c.loadSession(ctx, c.variables, c.parallelism, readState)
	if err != nil {
		return plan.Plan{}, err
	}
	defer s.close()
	return s.plan(ctx, &c.planOptions, c.compute())
}
