package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/config"
	"github.com/npctl/npctl/internal/complete"
	"github.com/npctl/npctl/internal/terminal"
	"github.com/npctl/npctl/internal/text"
)

// app is one invocation of npctl.
type app struct {
	ui        *terminal.UI
	signals   *signals
	lookupEnv func(string) (string, bool)
	log       *slog.Logger
	global    globalOptions
	inputs    *config.Inputs // nil without -reload-on-change
	lockID    string         // ID of the state lock that this command holds
}

// globalOptions are accepted before and after the command.
type globalOptions struct {
	chdir, config, state string
	noColor              bool
	logLevel, logFormat  string
}

func newApp(s terminal.Streams, lookupEnv func(string) (string, bool)) *app {
	a := &app{ui: terminal.New(s, lookupEnv), signals: &signals{stopped: make(chan struct{})}, lookupEnv: lookupEnv, log: slog.New(slog.DiscardHandler)}
	a.ui.Cells = stateStyles
	return a
}

// run executes a command line and returns the exit code. It prints every error before it returns.
func (a *app) run(ctx context.Context, args []string) int {
	if len(args) > 1 && args[1] == complete.Command {
		return a.complete(ctx, args[2:])
	}
	return a.report(ctx, a.command().Run(ctx, args))
}

const rootDescription = `npctl manages CI test nodes and their images declaratively, from HCL files.
It compares the files with the recorded state and the live clouds, shows what would be
built, uploaded, launched and deleted and why, and then applies exactly that plan.

The usual way:
  npctl init       write a configuration to start from (a cloud inside npctl, no account needed)
  npctl plan       show the changes
  npctl apply      apply them
  npctl plan       confirm that no changes are left
  npctl destroy    remove everything again

Options are written with one dash or two, before or behind the command: -json is --json.
"npctl COMMAND -help" explains a command.

Environment:
  NO_COLOR         any value: no colors
  NPCTL_LOG        level of the log on stderr: debug, info, warn, error; or debug,json
  NPCTL_VAR_name   value of the variable "name"
  NPCTL_SOCKET     unix socket of npctl watch, or its URL (then NPCTL_TOKEN, NPCTL_CA)
  OS_*             as for every OpenStack tool

Exit codes: 0 done, 1 error, 2 there are changes (only with plan -detailed-exitcode),
130 interrupted.`

// command returns the root of the command tree.
func (a *app) command() *cli.Command {
	replaceHelp()
	root := &cli.Command{
		Name:                      "npctl",
		StopOnNthArg:              new(1), // as in prepare
		Usage:                     "plan and apply fleets of CI test nodes and their images",
		Description:               rootDescription,
		Version:                   version(),
		HideHelpCommand:           true, // replaced by helpCommand
		DisableSliceFlagSeparator: true, // -var 'list=["a","b"]'
		Reader:                    a.ui.In,
		Writer:                    a.ui.Out,
		ErrWriter:                 a.ui.Err,
		ExitErrHandler:            func(context.Context, *cli.Command, error) {}, // run reports
		OnUsageError:              usageError,
		Flags:                     a.globalFlags(),
		Before:                    a.before,
		Action:                    rootAction,
		Commands: []*cli.Command{
			newInitCommand(a), newConvertCommand(a), newValidateCommand(a), newFmtCommand(a),
			newPlanCommand(a), newReviewCommand(a), newApplyCommand(a), newDestroyCommand(a), newTestCommand(a), newWatchCommand(a),
			newRequestCommand(a), newNodeCommand(a), newStatusCommand(a), newWhyCommand(a), newEventsCommand(a), newCostCommand(a), newFreezeCommand(a), newThawCommand(a), newReloadCommand(a),
			newImageCommand(a), newBuilderCommand(a), newShowCommand(a), newGraphCommand(a), newStateCommand(a), newAuditCommand(a), newSnapshotCommand(a), newImportCommand(a), newUnmanagedCommand(a), newForceUnlockCommand(a),
			newDriverCommand(a), newConsoleCommand(a), newOutputCommand(a), newProvidersCommand(a), newVersionCommand(a), newCompletionCommand(a), newHelpCommand(), newDocsCommand(a),
		},
	}
	for _, c := range root.Commands {
		a.prepare(c)
	}
	return root
}

// The categories of commands in the help text.
const (
	categoryMain  = "Main commands"
	categoryState = "State"
	categoryOther = "Other commands"
)

func (a *app) prepare(c *cli.Command) {
	c.OnUsageError = usageError
	c.DisableSliceFlagSeparator = true
	if c.Action == nil {
		c.Action = subcommandNeeded
	} else {
		c.Action = a.checked(c.Action)
	}
	if len(c.Commands) > 0 {
		c.StopOnNthArg = new(1) // the parser does not know the options of a command that does not exist
	}
	for _, f := range c.Flags {
		neverNegative(f)
		categorize(f)
	}
	for _, sub := range c.Commands {
		a.prepare(sub)
	}
}

// events is takes for a command that prints events with -json, with the error as the last one.
func events(s source) map[string]any {
	return map[string]any{"events": true, complete.Arguments: s}
}

// checked returns the action of a command. It checks the number of arguments, and prints an error as JSON if -json is
// set, so that a reader of stdout always gets a document.
func (a *app) checked(do cli.ActionFunc) cli.ActionFunc {
	return func(ctx context.Context, cmd *cli.Command) error {
		err := arguments(cmd)
		if err == nil {
			err = do(ctx, cmd)
		}
		if _, reported := errors.AsType[exitCode](err); err != nil && !reported && cmd.Bool("json") && cmd.Metadata["events"] == nil {
			err = cmp.Or(a.printJSON(failureDocument(err)), err)
		}
		return err
	}
}

func (a *app) globalFlags() []cli.Flag {
	g := &a.global
	return []cli.Flag{
		&stringFlag{cli.StringFlag{Name: "chdir", Destination: &g.chdir, Usage: "change to `DIR` first"}, dirs},
		&cli.StringFlag{Name: "config", Destination: &g.config, Value: ".", Usage: "configuration: a `PATH` of one file, or of a directory with *.hcl files", TakesFile: true},
		&cli.StringFlag{Name: "state", Destination: &g.state, Usage: "state file `PATH`, instead of the one in the configuration", TakesFile: true},
		&cli.BoolFlag{Name: "no-color", Destination: &g.noColor, Usage: "no colors (as with NO_COLOR in the environment)"},
		&stringFlag{cli.StringFlag{Name: "log-level", Destination: &g.logLevel, Usage: "lowest `LEVEL` of the log on stderr: " + logLevels.String()}, logLevels.source},
		&stringFlag{cli.StringFlag{Name: "log-format", Destination: &g.logFormat, Usage: "`FORMAT` of the log: " + logFormats.String()}, logFormats.source},
	}
}

// before applies the global options.
func (a *app) before(ctx context.Context, cmd *cli.Command) (context.Context, error) {
	if a.global.noColor {
		a.ui.OutColor, a.ui.ErrColor = false, false
	}
	if err := a.openLog(); err != nil {
		return ctx, err
	}
	if a.global.chdir != "" {
		if err := os.Chdir(a.global.chdir); err != nil {
			return ctx, fmt.Errorf("option -chdir: %w", err)
		}
	}
	if cmd.IsSet("config") && a.global.config == "" {
		return ctx, hint(fmt.Errorf("option -config is empty"), "name a file or a directory, or leave the option out for the current directory")
	}
	return ctx, nil
}

// rootAction runs if the command line names no command or an unknown one.
func rootAction(_ context.Context, cmd *cli.Command) error {
	if name := cmd.Args().First(); name != "" {
		return unknownCommand(cmd, "npctl", name)
	}
	return showHelp(cmd)
}

func subcommandNeeded(_ context.Context, cmd *cli.Command) error {
	if name := cmd.Args().First(); name != "" && name != "help" {
		return unknownCommand(cmd, cmd.FullName(), name)
	}
	return showHelp(cmd)
}

func unknownCommand(cmd *cli.Command, parent, name string) error {
	var names []string
	for _, c := range cmd.Commands {
		if !c.Hidden {
			names = append(names, c.Names()...)
		}
	}
	err := fmt.Errorf("%s has no command %q", parent, name)
	_, within, _ := strings.Cut(parent+" ", " ")
	if other := alternativeHint(within + name); other != "" {
		return hint(err, other)
	}
	return didYouMean(err, name, names, parent+" -help lists the commands")
}

// usageError converts an error of the option parser into one with a hint.
func usageError(_ context.Context, cmd *cli.Command, err error, _ bool) error {
	reason := err.Error()
	if name, ok := strings.CutPrefix(reason, "flag provided but not defined: -"); ok {
		return unknownOption(cmd, name)
	}
	if name, ok := strings.CutPrefix(reason, "flag needs an argument: "); ok {
		err = fmt.Errorf("option %s needs a value", name)
	}
	if rest, ok := strings.CutPrefix(reason, "invalid value "); ok {
		value, why, _ := strings.Cut(rest, " for flag ")
		option, fault, _ := strings.Cut(why, ": ")
		err = valueError(cmd, option, value, fault)
	}
	return hint(err, cmd.FullName()+" -help explains the options")
}

func unknownOption(cmd *cli.Command, name string) error {
	err := fmt.Errorf("%s has no option -%s", cmd.FullName(), name)
	if other := alternativeOptions[cmd.Name][name]; other != "" {
		return hint(err, other)
	}
	if near := text.Nearest(name, optionNames(cmd)); near != "" {
		return hint(err, fmt.Sprintf("did you mean -%s?", near))
	}
	return hint(err, cmd.FullName()+" -help explains the options")
}

func optionNames(cmd *cli.Command) []string {
	var names []string
	for _, f := range append(cmd.VisibleFlags(), cmd.VisiblePersistentFlags()...) {
		names = append(names, f.Names()...)
	}
	return names
}

// arguments returns an error if a command has more arguments than its usage names.
func arguments(cmd *cli.Command) error {
	most := len(strings.Fields(cmd.ArgsUsage))
	if cmd.NArg() <= most || strings.Contains(cmd.ArgsUsage, "...") {
		return nil
	}
	return hint(fmt.Errorf("%s: unexpected argument %q", cmd.FullName(), cmd.Args().Get(most)),
		cmd.FullName()+" -help lists its arguments; write the value of an option as -option=value")
}

// The values of -log-level and -log-format.
var (
	logLevels  = choices{"debug", "info", "warn", "error"}
	logFormats = choices{"text", "json"}
)

// openLog sets up the log on stderr. Without a level it prints only warnings, as sentences; the command itself reports
// errors.
func (a *app) openLog() error {
	level, format := a.global.logLevel, a.global.logFormat
	if text, ok := a.lookupEnv("NPCTL_LOG"); ok && level == "" {
		var inner string
		level, inner, _ = strings.Cut(text, ",")
		format = cmp.Or(format, inner)
	}
	format = cmp.Or(format, "text")
	if err := logFormats.check("log format", format); err != nil {
		return err
	}
	if level == "" || level == "off" {
		a.log = a.ui.Warnings()
		return nil
	}
	var from slog.Level
	if err := from.UnmarshalText([]byte(level)); err != nil {
		return logLevels.check("log level", level)
	}
	a.log = slog.New(slog.NewTextHandler(a.ui.Err, &slog.HandlerOptions{Level: from}))
	if format == "json" {
		a.log = slog.New(slog.NewJSONHandler(a.ui.Err, &slog.HandlerOptions{Level: from, ReplaceAttr: inSeconds}))
	}
	return nil
}

// inSeconds writes durations as seconds and adds that unit to the name: took becomes took_seconds. JSON has no unit for
// durations.
func inSeconds(_ []string, attr slog.Attr) slog.Attr {
	if attr.Value.Kind() != slog.KindDuration {
		return attr
	}
	return slog.Float64(attr.Key+"_seconds", attr.Value.Duration().Seconds())
}
