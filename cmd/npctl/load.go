package main

import (
	"fmt"
	"os"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/config"
	"github.com/npctl/npctl/internal/syntax"
)

// variableOptions holds -var and -var-file.
type variableOptions struct {
	vars, files []string
}

func (v *variableOptions) flags() []cli.Flag {
	return []cli.Flag{
		&stringsFlag{cli.StringSliceFlag{Name: "var", Destination: &v.vars, Usage: "value of a variable as `NAME=VALUE`; may be given several times"}, blockNames("variable", "=")},
		&cli.StringSliceFlag{Name: "var-file", Destination: &v.files, TakesFile: true, Usage: "`FILE` with values of variables, HCL or JSON; may be given several times"},
	}
}

func (a *app) compactFlag() cli.Flag {
	return &cli.BoolFlag{Name: "compact-warnings", Category: categoryOutput, Destination: &a.ui.Compact, Usage: "show each warning in one line"}
}

// configuration is the result of reading a configuration, with the registry that it refers to.
type configuration struct {
	*config.Result
	registry registry
	warnings *diagnosed // nil if there are none
}

// load reads the configuration. It returns all errors as one error and keeps the warnings, which are printed once.
func (a *app) load(v variableOptions) (*configuration, error) {
	return a.read(v, config.Options{})
}

// loadToCheck reads the configuration to check it. Variables need no values; Unset lists those without one.
func (a *app) loadToCheck(v variableOptions) (*configuration, error) {
	return a.read(v, config.Options{CheckOnly: true})
}

func (a *app) read(v variableOptions, opts config.Options) (*configuration, error) {
	path := a.global.config
	a.inputs.Begin()
	if err := checkThere(path); err != nil {
		return nil, err
	}
	reg := newRegistry()
	opts.Path, opts.Inputs = path, a.inputs
	result, diags := config.Load(a.withSources(opts, reg, v))
	var files map[string]*hcl.File
	if result != nil {
		files = result.Files
	}
	if diags.HasErrors() {
		return nil, &diagnosed{diags, files}
	}
	a.inputs.Complete()
	c := &configuration{Result: result, registry: reg}
	if len(diags) > 0 {
		c.warnings = &diagnosed{diags, files}
	}
	return c, nil
}

// withSources returns options of config.Load with the fields that are the same for every configuration.
func (a *app) withSources(opts config.Options, reg registry, v variableOptions) config.Options {
	opts.Vars, opts.VarFiles, opts.LookupEnv = v.vars, v.files, a.lookupEnv
	opts.Drivers, opts.Builders, opts.States = reg.driverSchemas(), reg.builderSchemas(), reg.states
	opts.Version, opts.Stopped = version(), a.signals.stopped
	return opts
}

// loadAndWarn reads the configuration and prints the warnings at once. Commands that only read use load: validate, plan,
// apply, import and watch have printed the warnings.
func (a *app) loadAndWarn(v variableOptions) (*configuration, error) {
	return a.readAndWarn(v, config.Options{})
}

func (a *app) readAndWarn(v variableOptions, opts config.Options) (*configuration, error) {
	c, err := a.read(v, opts)
	if err == nil && c.warnings != nil {
		a.diagnostics(c.warnings)
	}
	return c, err
}

// checkThere returns an error if there is no configuration to read.
func checkThere(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return hint(fmt.Errorf("read configuration: %w", err), "name a file or a directory with -config, or change to it with -chdir")
	}
	if !info.IsDir() {
		return nil
	}
	entries, err := os.ReadDir(path)
	if err != nil { // for example too many open files
		return fmt.Errorf("read configuration: %w", err)
	}
	if !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return syntax.IsSource(e.Name()) }) {
		return hint(fmt.Errorf("there is no configuration in %s", path), "npctl init writes one to start from; -config names another directory")
	}
	return nil
}
