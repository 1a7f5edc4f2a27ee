package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"
	"github.com/mitchellh/go-wordwrap"
	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/internal/terminal"
)

// Headings of options in help texts, in the order in which they are printed.
const (
	categoryGeneral    = ""
	categoryPlanning   = "Planning"
	categorySelection  = "Selection"
	categoryFilter     = "Filters"
	categoryRequest    = "Request"
	categoryService    = "Service"
	categoryListen     = "API and metrics"
	categoryRun        = "Execution"
	categoryOutput     = "Output"
	categoryVariables  = "Variables"
	categoryConnection = "Connection"
)

var optionCategories = []string{categoryGeneral, categoryPlanning, categorySelection, categoryFilter, categoryRequest, categoryService,
	categoryListen, categoryRun, categoryOutput, categoryVariables, categoryConnection}

// commandCategories are the headings of commands, in the order in which they are printed.
var commandCategories = []string{"", categoryMain, categoryDaemon, categoryState, categoryOther}

// helpWidth is the maximum width of help texts in columns.
const helpWidth = 100

// replaceHelp makes the command line library print all help texts and the version in the format of npctl.
func replaceHelp() {
	cli.ShowRootCommandHelp = func(cmd *cli.Command) error { return showHelp(cmd.Root()) }
	cli.ShowSubcommandHelp = showHelp
	cli.ShowCommandHelp = func(_ context.Context, cmd *cli.Command, name string) error {
		if sub := cmd.Command(name); sub != nil {
			return showHelp(sub)
		}
		if len(cmd.Commands) > 0 {
			return unknownCommand(cmd, cmd.FullName(), name)
		}
		return showHelp(cmd) // the name is an argument of the command
	}
	cli.VersionPrinter = func(cmd *cli.Command) { _, _ = fmt.Fprintln(cmd.Root().Writer, versionLine()) }
}

func newHelpCommand() *cli.Command {
	return &cli.Command{
		Name: "help", Aliases: []string{"h"}, Category: categoryOther, Usage: "show how to use npctl or one of its commands", ArgsUsage: "[COMMAND...]",
		Description: `Prints the description of a command, its options with their defaults, and examples. The same as
npctl COMMAND -help.

Examples:
  npctl help
  npctl help image build

Exit codes: 0, or 1 when there is no such command.`,
		Action: func(_ context.Context, cmd *cli.Command) error {
			of := cmd.Root()
			for _, name := range cmd.Args().Slice() {
				sub := of.Command(name)
				if sub == nil {
					return unknownCommand(of, of.FullName(), name)
				}
				of = sub
			}
			return showHelp(of)
		},
	}
}

// showHelp prints the help text of a command.
func showHelp(cmd *cli.Command) error {
	_, err := io.WriteString(cmd.Root().Writer, helpText(cmd, helpColumns(cmd.Root().Writer)))
	return terminal.OutputError(err)
}

func helpColumns(w io.Writer) int {
	if columns := terminal.Width(w); columns > 0 {
		return min(columns, helpWidth)
	}
	return helpWidth
}

func helpText(cmd *cli.Command, columns int) string {
	h := &help{columns: columns}
	h.section("NAME", cmd.FullName()+" - "+cmd.Usage)
	h.section("USAGE", usageLine(cmd))
	h.section("DESCRIPTION", cmd.Description)
	h.commands(cmd)
	title, options := "OPTIONS", visibleOptions(cmd)
	if cmd == cmd.Root() {
		title = "GLOBAL OPTIONS"
	}
	h.options(title, options)
	if cmd != cmd.Root() {
		h.options("GLOBAL OPTIONS", cmd.VisiblePersistentFlags())
	}
	return strings.TrimPrefix(h.b.String(), "\n")
}

func usageLine(cmd *cli.Command) string {
	line := cmd.FullName()
	if len(cmd.Commands) > 0 {
		return line + " [options] COMMAND"
	}
	if len(visibleOptions(cmd)) > 0 {
		line += " [options]"
	}
	return strings.TrimSpace(line + " " + cmd.ArgsUsage)
}

// visibleOptions returns the options of a command. It omits -help, which only the root command lists.
func visibleOptions(cmd *cli.Command) []cli.Flag {
	return slices.DeleteFunc(slices.Clone(cmd.VisibleFlags()), func(f cli.Flag) bool {
		return cmd != cmd.Root() && slices.Contains(f.Names(), "help")
	})
}

// help builds a help text.
type help struct {
	b       strings.Builder
	columns int
	tables  int // in this section
}

func (h *help) section(title, text string) {
	if text != "" {
		h.b.WriteString("\n" + title + ":\n   " + strings.ReplaceAll(strings.ReplaceAll(text, "\n", "\n   "), "\n   \n", "\n\n") + "\n")
	}
}

func (h *help) commands(cmd *cli.Command) {
	all := slices.DeleteFunc(slices.Clone(cmd.Commands), func(c *cli.Command) bool { return c.Hidden })
	if len(all) == 0 {
		return
	}
	h.b.WriteString("\nCOMMANDS:\n")
	h.tables = 0
	for _, category := range commandCategories {
		var rows [][2]string
		for _, sub := range all {
			if sub.Category == category {
				rows = append(rows, [2]string{strings.Join(sub.Names(), ", "), sub.Usage})
			}
		}
		h.table(category, rows)
	}
}

func (h *help) options(title string, options []cli.Flag) {
	if len(options) == 0 {
		return
	}
	h.b.WriteString("\n" + title + ":\n")
	h.tables = 0
	for _, category := range optionCategories {
		var rows [][2]string
		for _, f := range options {
			if optionCategory(f) == category {
				name, about := optionHelp(f)
				rows = append(rows, [2]string{name, about})
			}
		}
		h.table(category, rows)
	}
}

// table writes two columns below an optional heading.
func (h *help) table(heading string, rows [][2]string) {
	if len(rows) == 0 {
		return
	}
	if h.tables++; h.tables > 1 {
		h.b.WriteByte('\n')
	}
	margin := "   "
	if heading != "" {
		h.b.WriteString("   " + heading + ":\n")
		margin = "     "
	}
	left := 0
	for _, row := range rows {
		left = max(left, runewidth.StringWidth(row[0]))
	}
	indent := len(margin) + left + 2
	for _, row := range rows {
		lines := strings.Split(wordwrap.WrapString(row[1], uint(max(h.columns-indent, 20))), "\n")
		h.b.WriteString(margin + runewidth.FillRight(row[0], left) + "  " + strings.Join(lines, "\n"+strings.Repeat(" ", indent)) + "\n")
	}
}

// optionCategory returns the heading of an option.
func optionCategory(f cli.Flag) string {
	if c, ok := f.(cli.CategorizableFlag); ok {
		return c.GetCategory()
	}
	return categoryGeneral
}

// optionHelp returns an option in the form of the documentation, with one dash, and its description.
func optionHelp(f cli.Flag) (name, about string) {
	doc, ok := f.(cli.DocGenerationFlag)
	if !ok {
		return f.String(), ""
	}
	placeholder, about := unquoteUsage(doc.GetUsage())
	names := make([]string, len(f.Names()))
	for i, name := range f.Names() {
		names[i] = "-" + name
		if doc.TakesValue() {
			names[i] += "=" + placeholder
		}
	}
	if value := optionDefault(f, doc); value != "" {
		about += " (default: " + value + ")"
	}
	return strings.Join(names, ", "), about
}

// optionDefault returns the default value of an option, or "" if it is an empty text, an empty list or false.
func optionDefault(f cli.Flag, doc cli.DocGenerationFlag) string {
	if text := doc.GetDefaultText(); text != "" {
		return text
	}
	switch f := f.(type) {
	case *cli.DurationFlag:
		return durationText(f.Value)
	case *cli.IntFlag, *cli.Int64Flag:
		return doc.GetValue()
	case *cli.StringFlag:
		return f.Value
	case *stringFlag:
		return f.Value
	case *cli.BoolFlag:
		if f.Value {
			return "true"
		}
	}
	return ""
}

// durationText formats a duration without the parts that are zero.
func durationText(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// unquoteUsage returns the placeholder of a usage text and the text without its backquotes.
func unquoteUsage(usage string) (placeholder, plain string) {
	before, rest, found := strings.Cut(usage, "`")
	name, after, closed := strings.Cut(rest, "`")
	if !found || !closed {
		return "VALUE", usage
	}
	return name, before + name + after
}
