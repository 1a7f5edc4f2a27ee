package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/urfave/cli/v3"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/npctl/npctl/config"
)

const outputDescription = `Prints the values of the output blocks of the configuration, or the value of one of them. It reads
neither a state nor a cloud. Sensitive values are masked, except with -raw.

Examples:
  npctl output
  npctl output -json | jq -r '.outputs.labels.value[]'
  ssh-keyscan $(npctl output -raw gateway)

Exit codes: 0, or 1 on an error.`

// outputCommand implements npctl output.
type outputCommand struct {
	*app
	variables variableOptions
	json, raw bool
}

func newOutputCommand(a *app) *cli.Command {
	c := &outputCommand{app: a}
	return &cli.Command{
		Name: "output", Category: categoryOther, Usage: "print the outputs of the configuration", ArgsUsage: "[NAME]", Description: outputDescription, Metadata: takes(single(blockNames("output", ""))),
		Flags: append(c.variables.flags(), a.compactFlag(),
			&cli.BoolFlag{Name: "json", Destination: &c.json, Usage: "print one JSON document (see docs/json.md)"},
			&cli.BoolFlag{Name: "raw", Destination: &c.raw, Usage: "print the string, number or bool NAME without quotes, even a sensitive one"}),
		Action: c.run,
	}
}

// outputLine is one output. Value is absent if it is sensitive.
type outputLine struct {
	Value       json.RawMessage `json:"value,omitempty"`
	Sensitive   bool            `json:"sensitive,omitempty"`
	Description string          `json:"description,omitempty"`
}

func (c *outputCommand) run(_ context.Context, cmd *cli.Command) error {
	name := cmd.Args().First()
	if c.json && c.raw {
		return hint(errors.New("npctl output prints either JSON or raw text"), "choose -json or -raw")
	}
	if c.raw && name == "" {
		return hint(errors.New("option -raw needs the name of an output"), "write npctl output -raw NAME")
	}
	loaded, err := c.load(c.variables)
	if err != nil {
		return err
	}
	outputs := loaded.Outputs
	if name != "" {
		one, ok := outputs[name]
		if !ok {
			return unknownOutput(name, outputs)
		}
		outputs = map[string]config.Output{name: one}
	}
	switch {
	case c.json:
		return c.printOutputs(outputs)
	case c.raw:
		return c.printRaw(name, outputs[name].Value)
	case name != "":
		return c.ui.Print("%s", outputText(outputs[name]))
	case len(outputs) == 0:
		c.ui.Message("The configuration has no output blocks.")
	}
	for _, name := range slices.Sorted(maps.Keys(outputs)) {
		if err := c.ui.Print("%s = %s", name, outputText(outputs[name])); err != nil {
			return err
		}
	}
	return nil
}

func unknownOutput(name string, outputs map[string]config.Output) error {
	err := fmt.Errorf("the configuration has no output %q", name)
	return didYouMean(err, name, slices.Sorted(maps.Keys(outputs)), "npctl output lists the outputs")
}

func outputText(o config.Output) string {
	if o.Sensitive {
		return "(sensitive value)"
	}
	return config.ExpressionText(o.Value)
}

func (c *outputCommand) printOutputs(outputs map[string]config.Output) error {
	lines := map[string]outputLine{}
	for name, o := range outputs {
		line := outputLine{Sensitive: o.Sensitive, Description: o.Description}
		if !o.Sensitive {
			value, err := ctyjson.Marshal(o.Value, o.Value.Type())
			if err != nil {
				return fmt.Errorf("output %q: %w", name, err)
			}
			line.Value = value
		}
		lines[name] = line
	}
	return c.printDocument(map[string]any{"outputs": lines})
}

func (c *outputCommand) printRaw(name string, value cty.Value) error {
	plain, err := config.PlainText(value)
	if err != nil {
		return hint(fmt.Errorf("output %q: %w", name, err), "-json prints values of every type")
	}
	return c.ui.Write(plain)
}
