package main

import (
	"context"
	"errors"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/config"
)

const providersSchemaDescription = `Prints the description of the configuration language as JSON: its blocks and those of all
drivers, builders and stores, with labels, attributes, types, defaults, classes and documentation.
docs/json.md explains the document. docs/configuration.md has the same content as text.

With -json-schema it prints a JSON Schema of files that end with .hcl.json. Editors and language
servers complete and check such files with it.

It reads neither a configuration nor a state.

Examples:
  npctl providers schema -json | jq '.blocks.provider.kinds.openstack.blocks.pool.attributes | keys'
  npctl providers schema -json-schema > npctl.schema.json

Exit codes: 0, or 1 on an error.`

// providersSchemaCommand implements npctl providers schema.
type providersSchemaCommand struct {
	*app
	json, jsonSchema bool
}

func newProvidersCommand(a *app) *cli.Command {
	c := &providersSchemaCommand{app: a}
	return &cli.Command{
		Name: "providers", Category: categoryOther, Usage: "describe the drivers and the configuration language",
		Description: "Describes the drivers and the configuration language for programs.",
		Commands: []*cli.Command{{
			Name: "schema", Usage: "print all blocks and attributes as JSON", Description: providersSchemaDescription,
			Flags: []cli.Flag{
				&cli.BoolFlag{Name: "json", Destination: &c.json, Usage: "print the blocks and attributes (see docs/json.md)"},
				&cli.BoolFlag{Name: "json-schema", Category: categoryOutput, Destination: &c.jsonSchema, Usage: "print a JSON Schema of configurations in HCL's JSON syntax"},
			},
			Action: c.run,
		}},
	}
}

func (c *providersSchemaCommand) run(context.Context, *cli.Command) error {
	if c.json == c.jsonSchema {
		return hint(errors.New("npctl providers schema prints one of two documents"), "choose -json or -json-schema")
	}
	language := config.DescribeLanguage(newRegistry().languageOptions())
	if c.jsonSchema {
		return c.printJSON(language.JSONSchema())
	}
	return c.printJSON(language)
}

// languageOptions returns the options that determine the configuration language.
func (r registry) languageOptions() config.Options {
	return config.Options{Drivers: r.driverSchemas(), Builders: r.builderSchemas(), States: r.states, Version: version()}
}
