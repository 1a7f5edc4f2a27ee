package main

import (
	"context"
	"errors"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/config"
)

const validateDescription = `Reads the configuration and reports every error in it, with file, line and a suggestion.
It queries no cloud and reads no state, so npctl plan checks names that only a cloud has
(flavors, networks, images). Variables need no values: expressions that depend on a variable
without a value are checked as far as possible.

Examples:
  npctl validate
  npctl validate -config=nodes.hcl -var-file=prod.vars.hcl
  npctl validate -json
  npctl validate -strict    (failed checks and other warnings are errors)

Exit codes: 0 the configuration is valid (warnings are allowed), 1 it is not, or
it has warnings and -strict is given.`

func newValidateCommand(a *app) *cli.Command {
	var v variableOptions
	asJSON, strict := false, false
	return &cli.Command{
		Name: "validate", Category: categoryMain, Usage: "check the configuration", Description: validateDescription,
		Flags: append(v.flags(), a.compactFlag(), &cli.BoolFlag{Name: "strict", Destination: &strict, Usage: "fail when there are warnings, such as failed checks"},
			&cli.BoolFlag{Name: "json", Destination: &asJSON, Usage: "print one JSON document (see docs/json.md)"}),
		Action: func(_ context.Context, cmd *cli.Command) error {
			if asJSON {
				return a.validateJSON(v, strict)
			}
			c, err := a.loadToCheck(v)
			if err != nil {
				return err
			}
			if strict && c.warnings != nil {
				a.diagnostics(c.warnings)
				return errors.New("the configuration has warnings, which are errors with -strict")
			}
			return a.valid(c)
		},
	}
}

// valid prints the warnings and the names of variables without a value.
func (a *app) valid(c *configuration) error {
	with := ""
	if c.warnings != nil {
		a.diagnostics(c.warnings)
		with = ", with the warnings above"
	}
	if len(c.Unset) > 0 {
		a.ui.Message("Without a value, and checked only as far as possible: var.%s.", strings.Join(c.Unset, ", var."))
	}
	return a.ui.Print("The configuration is valid%s.", with)
}

func (a *app) validateJSON(v variableOptions, strict bool) error {
	c, err := a.loadToCheck(v)
	wrong := &diagnosed{}
	switch {
	case errors.As(err, &wrong):
	case err != nil:
		return err
	case c.warnings != nil:
		wrong = c.warnings
	}
	doc := config.JSON(wrong.diags, wrong.files)
	if err == nil {
		doc.Unset = c.Unset
	}
	if printErr := a.printJSON(doc); printErr != nil {
		return printErr
	}
	if err != nil || strict && c.warnings != nil {
		return exitCode(1)
	}
	return nil
}
