package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/urfave/cli/v3"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/npctl/npctl/config"
	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

const consoleDescription = `Evaluates expressions of the configuration language and prints their values: var, local, references
to blocks, all functions, "desired" (the configuration after evaluation) and "state" (the records).
docs/testing.md lists the content of desired and state. Sensitive values are masked.

Without -expr it reads one expression per line, on a terminal with editing and a history; ^D ends it.
It queries no cloud, changes nothing, and opens the state only for an expression that uses it.

Examples:
  npctl console
  npctl console -expr='[for n in state.nodes : n.hostname if n.state == "in-use"]'
  echo 'upper(var.region)' | npctl console -var=region=east
  npctl console -json -expr=desired.labels | jq '.value | keys'

Exit codes: 0 all expressions have a value, 1 on an error, 130 interrupted.`

// maxExpressionBytes limits the length of a line on stdin.
const maxExpressionBytes = 1 << 20

// consoleCommand implements npctl console.
type consoleCommand struct {
	*app
	variables variableOptions
	exprs     []string
	json      bool

	config *configuration
	roots  map[string]cty.Value // desired, and state once an expression has used it
}

func newConsoleCommand(a *app) *cli.Command {
	c := &consoleCommand{app: a}
	return &cli.Command{
		Name: "console", Category: categoryOther, Usage: "evaluate expressions", Description: consoleDescription,
		Flags: append(c.variables.flags(), a.compactFlag(),
			&cli.StringSliceFlag{Name: "expr", Category: categoryGeneral, Destination: &c.exprs, Usage: "evaluate this `EXPRESSION` instead of reading stdin; may be given several times"},
			&cli.BoolFlag{Name: "json", Destination: &c.json, Usage: "print one JSON document for each expression, one per line (see docs/json.md)"}),
		Action: c.run,
	}
}

// evaluated is the document of npctl console -json.
type evaluated struct {
	FormatVersion string                  `json:"format_version"`
	Expression    string                  `json:"expression"`
	Value         ctyjson.SimpleJSONValue `json:"value"`
	Sensitive     bool                    `json:"sensitive,omitempty"`
}

func (c *consoleCommand) run(ctx context.Context, _ *cli.Command) (err error) {
	if c.config, err = c.load(c.variables); err != nil {
		return err
	}
	for _, expr := range c.exprs {
		if strings.TrimSpace(expr) == "" {
			return hint(errors.New("the EXPRESSION of -expr is empty"), "write -expr=var.name; without -expr the command reads stdin")
		}
		if err := c.evaluate(ctx, expr, "<expression>"); err != nil {
			return err
		}
	}
	if len(c.exprs) > 0 {
		return nil
	}
	if readLine := c.ui.Editor("> "); readLine != nil {
		return c.interactive(ctx, readLine)
	}
	return c.lines(ctx)
}

// lines evaluates the lines of stdin up to the first error.
func (c *consoleCommand) lines(ctx context.Context) error {
	scanner := bufio.NewScanner(c.ui.In)
	scanner.Buffer(nil, maxExpressionBytes)
	for n := 1; scanner.Scan() && ctx.Err() == nil; n++ {
		if err := c.evaluate(ctx, scanner.Text(), fmt.Sprintf("<stdin line %d>", n)); err != nil {
			return err
		}
	}
	if errors.Is(scanner.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("a line on stdin is longer than %s", text.Bytes(maxExpressionBytes))
	}
	return errors.Join(scanner.Err(), context.Cause(ctx))
}

// interactive evaluates lines that the operator types, until ^D, ^C or exit.
func (c *consoleCommand) interactive(ctx context.Context, readLine func(context.Context) (string, error)) error {
	c.ui.Message("Enter an expression such as var.name, desired.labels or state.nodes. ^D ends the console.")
	for {
		line, err := readLine(ctx)
		switch {
		case errors.Is(err, io.EOF), strings.TrimSpace(line) == "exit":
			c.ui.Message("")
			return nil
		case err != nil:
			return err
		}
		if err := c.evaluate(ctx, line, "<console>"); err != nil {
			c.report(ctx, err)
		}
	}
}

// evaluate prints the value of an expression. name stands for the file in diagnostics.
func (c *consoleCommand) evaluate(ctx context.Context, expr, name string) error {
	if expr = strings.TrimSpace(expr); expr == "" || strings.HasPrefix(expr, "#") {
		return nil
	}
	if err := c.addRoots(ctx, expr); err != nil {
		return err
	}
	value, diags := c.config.Scope.Evaluate([]byte(expr), name, c.roots)
	if diags.HasErrors() {
		return &diagnosed{diags, sources(c.config.Files, map[string]*hcl.File{name: {Bytes: []byte(expr)}})}
	}
	if c.json {
		return c.printJSONLine(evaluated{jsonVersion, expr, ctyjson.SimpleJSONValue{Value: config.Masked(value)}, config.IsSensitive(value)})
	}
	return c.ui.Print("%s", visible(config.ExpressionText(value)))
}

// addRoots adds desired, and state for the first expression that may use it.
func (c *consoleCommand) addRoots(ctx context.Context, expr string) error {
	_, hasState := c.roots["state"]
	needsState := strings.Contains(expr, "state")
	if c.roots != nil && (hasState || !needsState) {
		return nil
	}
	var records plan.Records
	if needsState {
		var err error
		if records, err = c.records(ctx); err != nil {
			return err
		}
	}
	all := inspect.ExpressionRoots(c.config.Desired, records)
	if !needsState {
		delete(all, "state")
	}
	var err error
	c.roots, err = expressionValues(all)
	return err
}

// records returns the records of the state, none if there is no state.
func (c *consoleCommand) records(ctx context.Context) (plan.Records, error) {
	place, err := c.stateOf(c.config.Desired.Settings)
	if err != nil || place.IsEmpty() {
		return plan.Records{}, err
	}
	store, err := place.open(ctx, readState)
	if err != nil {
		return plan.Records{}, err
	}
	defer store.Close() //nolint:errcheck // read-only
	return listRecords(ctx, store, resources.PlannedKinds()...)
}
