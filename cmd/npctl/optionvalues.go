package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"
)

// choices are the values that an option accepts.
type choices []string

// String returns the values for a sentence: "a, b or c".
func (c choices) String() string {
	last := len(c) - 1
	return strings.Join(c[:last], ", ") + " or " + c[last]
}

// check returns an error for another value; option precedes the value in it.
func (c choices) check(option, value string) error {
	if slices.Contains(c, value) {
		return nil
	}
	return hint(fmt.Errorf("%s %q does not exist", option, value), "write "+c.String())
}

// source implements source.
func (c choices) source(context.Context, *completion, string) []candidate { return named(c) }

// mustBe starts the errors of validators; the allowed values follow.
const mustBe = "must be "

// atLeast returns a validator that rejects smaller values of an option.
func atLeast[T cmp.Ordered](least T) func(T) error {
	return func(value T) error {
		if value < least {
			return fmt.Errorf(mustBe+"at least %v", least)
		}
		return nil
	}
}

// neverNegative rejects negative numbers and durations for an option without a validator.
func neverNegative(f cli.Flag) {
	switch f := f.(type) {
	case *cli.IntFlag:
		if f.Validator == nil {
			f.Validator = atLeast(0)
		}
	case *cli.DurationFlag:
		if f.Validator == nil {
			f.Validator = atLeast(time.Duration(0))
		}
	}
}

// valueError returns the error for an invalid value of an option, with the allowed values. value is quoted.
func valueError(cmd *cli.Command, option, value, fault string) error {
	switch {
	case strings.HasPrefix(fault, mustBe):
		return fmt.Errorf("option %s %s, not %s", option, fault, strings.Trim(value, `"`))
	case strings.Contains(fault, "out of range"):
		return fmt.Errorf("option %s: %s is too large", option, value)
	}
	switch optionNamed(cmd, strings.TrimLeft(option, "-")).(type) {
	case *cli.IntFlag, *cli.Int64Flag:
		return fmt.Errorf("option %s: %s is not a whole number", option, value)
	case *cli.DurationFlag:
		return fmt.Errorf("option %s: %s is not a duration; write a number with a unit, such as 90s, 10m or 24h", option, value)
	case *cli.BoolFlag:
		return fmt.Errorf("option %s: %s is neither true nor false", option, value)
	default:
		return fmt.Errorf("option %s: %s is not allowed: %s", option, value, fault)
	}
}

func optionNamed(cmd *cli.Command, name string) cli.Flag {
	for _, c := range cmd.Lineage() {
		for _, f := range c.Flags {
			if slices.Contains(f.Names(), name) {
				return f
			}
		}
	}
	return nil
}

// usualCategories maps options that have the same meaning in many commands to their headings, unless a command sets
// another one.
var usualCategories = map[string]string{
	"var": categoryVariables, "var-file": categoryVariables, "json": categoryOutput, "verbose": categoryOutput, "long": categoryOutput,
	"lock-timeout": categoryRun, "dry-run": categoryRun, "force": categoryRun,
}

func categorize(f cli.Flag) {
	if c, ok := f.(cli.CategorizableFlag); ok && c.GetCategory() == "" {
		c.SetCategory(usualCategories[f.Names()[0]])
	}
}

// outputFile is a file that an option names and that a command replaces.
type outputFile struct {
	option, path string
	begins       []string // how files that npctl wrote for this option begin
}

// check refuses files that npctl did not write for this option, and names of configuration files, which npctl would read
// with the next command. Devices and pipes are permitted.
func (o outputFile) check() error {
	if o.path == "" || o.path == "-" {
		return nil
	}
	if strings.HasSuffix(o.path, ".hcl") || strings.HasSuffix(o.path, ".hcl.json") {
		return hint(fmt.Errorf("option -%s: %s is the name of a configuration file", o.option, o.path), "name a file that does not end with .hcl or .hcl.json")
	}
	info, err := os.Stat(o.path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && (!info.Mode().IsRegular() || info.Size() == 0) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("option -%s: %w", o.option, err)
	}
	file, err := os.Open(o.path)
	if err != nil {
		return fmt.Errorf("option -%s: %w", o.option, err)
	}
	defer file.Close() //nolint:errcheck // only read
	head := make([]byte, 64)
	n, err := io.ReadFull(file, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("option -%s: %w", o.option, err)
	}
	if slices.ContainsFunc(o.begins, func(text string) bool { return strings.HasPrefix(string(head[:n]), text) }) {
		return nil
	}
	return hint(fmt.Errorf("option -%s: %s exists, and no earlier npctl command with this option has written it", o.option, o.path), "name another file, or delete it first")
}
