package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v3"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/external"
	"github.com/npctl/npctl/drivers/external/conformance"
	"github.com/npctl/npctl/internal/terminal"
)

const driverTestDescription = `Checks a program that a provider of type external can run, with its arguments, and prints a table of
the checks. docs/drivers/external.md describes the protocol.

It creates up to eight machines with the settings of -setting, deletes them, and changes no other
machines. Use a project in which this is harmless. The directory of the program is temporary,
unless -directory names one. Write -- before arguments of the program that start with a dash.

Examples:
  npctl driver test -setting flavor=small -setting image=debian ./driver.sh
  npctl driver test -provider-setting url=https://rack.example.com -secret token=RACK_TOKEN -setting size=1 ./driver.sh
  npctl driver test -protocol=garm -provider-setting config_file=config.toml -setting flavor=m1.small -setting image=debian garm-provider-openstack

Exit codes: 0 all checks passed, 1 a check failed, or an error, 130 interrupted.`

// driverTestCommand implements npctl driver test.
type driverTestCommand struct {
	*app
	settings, providerSettings, secrets, env, passEnv []string
	protocol, directory                               string
	timeout, settle                                   time.Duration
	json                                              bool
}

func newDriverCommand(a *app) *cli.Command {
	c := &driverTestCommand{app: a}
	return &cli.Command{
		Name: "driver", Category: categoryOther, Usage: "check a driver that you write",
		Description: "Helps authors of programs for the driver external.",
		Commands: []*cli.Command{{
			Name: "test", ArgsUsage: "PROGRAM ARGUMENT...", Usage: "check a program against the protocol", Description: driverTestDescription,
			Flags: []cli.Flag{
				&cli.StringSliceFlag{Name: "setting", Destination: &c.settings, Usage: "a setting of the label, `NAME=VALUE`; may be given several times"},
				&cli.StringSliceFlag{Name: "provider-setting", Destination: &c.providerSettings, Usage: "a setting of the provider, `NAME=VALUE`; may be given several times"},
				&cli.StringSliceFlag{Name: "secret", Destination: &c.secrets, Usage: "a secret of the provider, `NAME=VARIABLE`: the value is that of the environment variable; may be given several times"},
				&cli.StringSliceFlag{Name: "env", Destination: &c.env, Usage: "an environment variable of the program, `NAME=VALUE`; may be given several times"},
				&cli.StringSliceFlag{Name: "pass-env", Destination: &c.passEnv, Usage: "pass the environment variable `NAME` on; may be given several times"},
				&cli.StringFlag{Name: "protocol", Destination: &c.protocol, Value: "npctl", Usage: "`PROTOCOL` of the program: npctl or garm"},
				&cli.StringFlag{Name: "directory", Destination: &c.directory, TakesFile: true, Usage: "`DIRECTORY` of the program; default: a temporary one"},
				&cli.DurationFlag{Name: "timeout", Destination: &c.timeout, Value: time.Minute, Usage: "`TIME` limit of one call"},
				&cli.DurationFlag{Name: "settle", Destination: &c.settle, Value: 5 * time.Minute, Usage: "`TIME` in which a machine becomes ready, or disappears"},
				&cli.BoolFlag{Name: "json", Destination: &c.json, Usage: "print the results as JSON (see docs/json.md)"},
			},
			Action: c.run,
		}},
	}
}

// driverTestReport is the document of npctl driver test -json.
type driverTestReport struct {
	Status conformance.Status   `json:"status"` // ok or failed
	Checks []conformance.Result `json:"checks"`
}

func (c *driverTestCommand) run(ctx context.Context, cmd *cli.Command) error {
	if cmd.NArg() == 0 {
		return hint(errors.New("npctl driver test needs a program"), "name it: npctl driver test -setting NAME=VALUE ./driver.sh")
	}
	options, remove, err := c.options(cmd.Args().Slice())
	if err != nil {
		return err
	}
	defer remove()
	report := driverTestReport{Status: conformance.OK}
	conformance.Run(ctx, options, func(r conformance.Result) {
		report.Checks = append(report.Checks, r)
		if r.Status == conformance.Failed {
			report.Status = conformance.Failed
		}
	})
	if err := c.print(report); err != nil {
		return err
	}
	switch {
	case errors.Is(context.Cause(ctx), errSignal):
		return exitCode(exitInterrupted)
	case report.Status != conformance.OK:
		return exitCode(1)
	}
	return nil
}

// options returns the options of the checks, and a function that removes the temporary directory.
func (c *driverTestCommand) options(command []string) (conformance.Options, func(), error) {
	none := func() {}
	provider, offer, err := c.configuration(command)
	if err != nil {
		return conformance.Options{}, none, err
	}
	dir, remove := c.directory, none
	if dir == "" {
		if dir, err = os.MkdirTemp("", "npctl-driver-test"); err != nil {
			return conformance.Options{}, none, err
		}
		remove = func() { _ = os.RemoveAll(dir) }
	}
	o := conformance.Options{Installation: conformance.NewInstallation(), Config: offer, Settle: c.settle, Poll: 200 * time.Millisecond}
	env := drivers.Env{Log: c.log, Provider: "conformance", Installation: o.Installation, Dir: filepath.Join(dir, "conformance")}
	o.Open = func(ctx context.Context) (drivers.Cloud, error) {
		ctx, cancel := context.WithTimeout(ctx, c.timeout)
		defer cancel()
		cloud, err := external.New().Open(ctx, env, provider)
		if err != nil {
			return nil, err
		}
		return drivers.Decorate(cloud, drivers.DecorateOptions{Provider: env.Provider, Log: c.log, Timeout: c.timeout, Attempts: 1}), nil
	}
	return o, remove, nil
}

// configuration returns the provider block and the offer of the options, as if they were in a file.
func (c *driverTestCommand) configuration(command []string) (provider, offer cty.Value, err error) {
	schema := external.New().Schema()
	values, label := schema.Provider.Null().AsValueMap(), schema.Label.Null().AsValueMap()
	values["command"], values["protocol"], values["pass_env"] = stringList(command), cty.StringVal(c.protocol), stringList(c.passEnv)
	secrets := func(name string) (string, bool) { return c.lookupEnv(name) }
	for _, option := range []struct {
		name   string
		words  []string
		into   map[string]cty.Value
		key    string
		lookup func(string) (string, bool)
	}{
		{"setting", c.settings, label, "settings", nil},
		{"provider-setting", c.providerSettings, values, "settings", nil},
		{"secret", c.secrets, values, "secrets", secrets},
		{"env", c.env, values, "env", nil},
	} {
		if option.into[option.key], err = stringMap(option.name, option.words, option.lookup); err != nil {
			return provider, offer, err
		}
	}
	for name, block := range map[string]map[string]cty.Value{"provider": values, "label": label} {
		body := schema.Provider
		if name == "label" {
			body = schema.Label
		}
		for _, a := range body.Attributes {
			value := block[a.Name]
			if a.Check != nil && !value.IsNull() {
				err = errors.Join(err, a.Check(value))
			}
			if len(a.OneOf) > 0 && !value.IsNull() && !strings.Contains(" "+strings.Join(a.OneOf, " ")+" ", " "+value.AsString()+" ") {
				err = errors.Join(err, fmt.Errorf("-%s: %q is none of %s", a.Name, value.AsString(), strings.Join(a.OneOf, ", ")))
			}
		}
	}
	return cty.ObjectVal(values), cty.ObjectVal(label), err
}

func stringList(words []string) cty.Value {
	if len(words) == 0 {
		return cty.ListValEmpty(cty.String)
	}
	values := make([]cty.Value, len(words))
	for i, word := range words {
		values[i] = cty.StringVal(word)
	}
	return cty.ListVal(values)
}

// stringMap reads NAME=VALUE words; with lookup, the value is the name of what lookup returns.
func stringMap(option string, words []string, lookup func(string) (string, bool)) (cty.Value, error) {
	values := map[string]cty.Value{}
	for _, word := range words {
		name, value, ok := strings.Cut(word, "=")
		if !ok || name == "" {
			return cty.NilVal, fmt.Errorf("-%s=%s: write NAME=VALUE", option, word)
		}
		if lookup != nil {
			variable := value
			if value, ok = lookup(variable); !ok {
				return cty.NilVal, fmt.Errorf("-%s=%s: the environment variable %s is not set", option, word, variable)
			}
		}
		values[name] = cty.StringVal(value)
	}
	if len(values) == 0 {
		return cty.MapValEmpty(cty.String), nil
	}
	return cty.MapVal(values), nil
}

func (c *driverTestCommand) print(report driverTestReport) error {
	if c.json {
		return c.printDocument(report)
	}
	rows := [][]string{{"CHECK", "RESULT", "SECONDS"}}
	var details []string
	for _, r := range report.Checks {
		rows = append(rows, []string{r.Check, string(r.Status), fmt.Sprintf("%.1f", r.Seconds)})
		if r.Status == conformance.Failed {
			details = append(details, fmt.Sprintf("Failed: %s: %s", r.Check, visible(r.Detail)))
		}
	}
	if err := c.ui.WideTable(rows); err != nil {
		return err
	}
	for _, line := range details {
		if _, err := fmt.Fprintln(c.ui.Err, line); err != nil {
			return terminal.OutputError(err)
		}
	}
	return nil
}
