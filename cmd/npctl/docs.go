package main

import (
	"context"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/config"
)

// newDocsCommand prints docs/configuration.md; "make docs" runs it.
func newDocsCommand(a *app) *cli.Command {
	return &cli.Command{
		Name: "docs", Hidden: true, Usage: "print the reference of the configuration language as Markdown",
		Action: func(_ context.Context, cmd *cli.Command) error {
			reg := newRegistry()
			return a.ui.Write(config.Reference(reg.driverSchemas(), reg.builderSchemas(), reg.states))
		},
	}
}
