package main

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/internal/terminal"
)

// Shell completion. The shell scripts are small: they call `npctl __complete WORD...` with the words up to the cursor,
// of which the last is the one to complete. npctl prints one candidate per line: a whole word, and after a tab its
// description if it has one. The line ":files" or ":dirs" makes the shell complete file names itself, after "-option="
// if the word starts with that.

const completeCommand = "__complete"

//go:embed completion/npctl.bash
var bashCompletion string

//go:embed completion/npctl.zsh
var zshCompletion string

//go:embed completion/npctl.fish
var fishCompletion string

const completionDescription = `Prints the script that completes commands, options and names in a shell. Names come from the
configuration and the state; no cloud is queried.

Examples:
  source <(npctl completion bash)                                      (in ~/.bashrc)
  source <(npctl completion zsh)                                       (in ~/.zshrc)
  npctl completion fish > ~/.config/fish/completions/npctl.fish

Exit codes: 0, or 1 on an error.`

func newCompletionCommand(a *app) *cli.Command {
	scripts := map[string]string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}
	return &cli.Command{
		Name: "completion", Category: categoryOther, Usage: "print a script for completion in a shell", ArgsUsage: "bash|zsh|fish",
		Description: completionDescription,
		Action: func(_ context.Context, cmd *cli.Command) error {
			shell := cmd.Args().First()
			script, known := scripts[shell]
			switch {
			case shell == "":
				return hint(fmt.Errorf("npctl completion needs the name of a shell"), "write bash, zsh or fish")
			case !known:
				return hint(fmt.Errorf("npctl has no completion for %q", shell), "write bash, zsh or fish")
			}
			return a.ui.Write(script)
		},
	}
}

// candidate is a word that a shell may insert.
type candidate struct{ text, about string }

// completeFiles and completeDirs make the shell complete file names.
const completeFiles, completeDirs = ":files", ":dirs"

// completionTime limits the time of one completion.
const completionTime = 3 * time.Second

// complete prints the candidates for the last word. It reports no errors; the command reports them when it runs.
func (a *app) complete(ctx context.Context, words []string) int {
	ctx, cancel := context.WithTimeout(ctx, completionTime)
	defer cancel()
	a.log = slog.New(slog.DiscardHandler)
	found := make(chan []candidate, 1)
	go func() {
		defer close(found)
		found <- newCompletion(a, words).candidates(ctx)
	}()
	var b strings.Builder
	select {
	case all := <-found:
		for _, c := range all {
			b.WriteString(strings.TrimSuffix(visibleLine(c.text)+"\t"+visibleLine(c.about), "\t") + "\n")
		}
	case <-ctx.Done():
	}
	_, _ = io.WriteString(a.ui.Out, b.String())
	return 0
}

// completion is an incomplete command line.
type completion struct {
	app     *app
	command *cli.Command // the innermost
	path    string       // its name, such as "image build"
	options []cli.Flag   // options that are valid here; the innermost first
	pending cli.Flag     // option that takes the current word as its value
	args    []string
	vars    variableOptions
	current string
	literal bool // after --
}

// newCompletion parses the words before the current one.
func newCompletion(a *app, words []string) *completion {
	c := &completion{app: a, command: a.command()}
	c.options = c.command.VisibleFlags()
	if len(words) == 0 {
		return c
	}
	c.current = words[len(words)-1]
	for _, word := range words[:len(words)-1] {
		switch {
		case c.pending != nil:
			c.set(c.pending, word)
			c.pending = nil
		case c.literal || !isOption(word):
			c.word(word)
		case word == "--":
			c.literal = true
		default:
			c.option(word)
		}
	}
	return c
}

func isOption(word string) bool { return len(word) > 1 && word[0] == '-' }

// word handles a subcommand or an argument.
func (c *completion) word(word string) {
	if c.path == "" && word == "help" {
		return // npctl help image build
	}
	for _, sub := range c.command.Commands {
		if len(c.args) == 0 && slices.Contains(sub.Names(), word) {
			c.command, c.path = sub, strings.TrimSpace(c.path+" "+sub.Name)
			c.options = append(slices.Clone(sub.VisibleFlags()), c.options...)
			return
		}
	}
	c.args = append(c.args, word)
}

func (c *completion) option(word string) {
	name, value, given := strings.Cut(strings.TrimLeft(word, "-"), "=")
	flag := c.flag(name)
	switch {
	case flag == nil:
	case given:
		c.set(flag, value)
	case takesValue(flag):
		c.pending = flag
	}
}

func (c *completion) flag(name string) cli.Flag {
	for _, f := range c.options {
		if slices.Contains(f.Names(), name) {
			return f
		}
	}
	return nil
}

// set applies the options that locate the configuration and the state.
func (c *completion) set(f cli.Flag, value string) {
	g := &c.app.global
	switch name := f.Names()[0]; {
	case name == "chdir":
		g.chdir = value
	case name == "config":
		g.config = value
	case name == "state" && takesFile(f):
		g.state = value
	case name == "var":
		c.vars.vars = append(c.vars.vars, value)
	case name == "var-file":
		c.vars.files = append(c.vars.files, value)
	}
}

func takesValue(f cli.Flag) bool {
	doc, ok := f.(cli.DocGenerationFlag)
	return ok && doc.TakesValue()
}

func takesFile(f cli.Flag) bool {
	switch f := f.(type) {
	case *cli.StringFlag:
		return f.TakesFile
	case *cli.StringSliceFlag:
		return f.TakesFile
	default:
		return false
	}
}

// candidates returns the candidates for the current word.
func (c *completion) candidates(ctx context.Context) []candidate {
	begun, value, inOption := strings.Cut(c.current, "=")
	switch {
	case c.pending != nil:
		return c.values(ctx, c.pending, "", c.current)
	case c.literal || !strings.HasPrefix(c.current, "-"):
		return c.wordCandidates(ctx)
	case !inOption:
		return c.optionCandidates()
	}
	if f := c.flag(strings.TrimLeft(begun, "-")); f != nil {
		return c.values(ctx, f, begun+"=", value)
	}
	return nil
}

func (c *completion) wordCandidates(ctx context.Context) []candidate {
	var all []candidate
	if len(c.args) == 0 {
		for _, sub := range c.command.Commands {
			if !sub.Hidden {
				all = append(all, candidate{sub.Name, sub.Usage})
			}
		}
	}
	if source := argumentSources[c.path]; source != nil {
		all = append(all, c.from(ctx, source, "")...)
	}
	return c.matching(all, "", c.current)
}

// optionCandidates returns the options in the form of the documentation, with one dash, unless the user typed two.
func (c *completion) optionCandidates() []candidate {
	dashes := "-"
	if strings.HasPrefix(c.current, "--") {
		dashes = "--"
	}
	all := []candidate{{dashes + "help", "show help"}}
	if c.path == "" {
		all = append(all, candidate{dashes + "version", "print the version"})
	}
	seen := map[string]bool{"help": true, "version": true}
	for _, f := range c.options {
		name := f.Names()[0]
		if seen[name] {
			continue
		}
		seen[name] = true
		about := ""
		if doc, ok := f.(cli.DocGenerationFlag); ok {
			_, about = unquoteUsage(doc.GetUsage())
		}
		text := dashes + name
		if on, ok := f.(*cli.BoolFlag); ok && on.Value {
			text += "=false"
		} else if takesValue(f) {
			text += "="
		}
		all = append(all, candidate{text, firstClause(about)})
	}
	return c.matching(all, "", c.current)
}

// firstClause returns the part of a usage text that fits beside a candidate.
func firstClause(usage string) string {
	for _, end := range []string{"; ", ". ", " ("} {
		usage, _, _ = strings.Cut(usage, end)
	}
	return terminal.Shorten(usage, 70)
}

// values completes the value of an option and puts prefix before each candidate.
func (c *completion) values(ctx context.Context, f cli.Flag, prefix, value string) []candidate {
	name := f.Names()[0]
	source := valueSources[c.path+" -"+name]
	if source == nil {
		source = valueSources["-"+name]
	}
	switch {
	case !takesValue(f):
		return c.matching([]candidate{{"true", ""}, {"false", ""}}, prefix, value)
	case name == "chdir":
		return []candidate{{text: completeDirs}}
	case takesFile(f):
		source = files
	case source == nil:
		return nil
	}
	return c.matching(c.from(ctx, source, value), prefix, value)
}

// from queries a source in the directory of -chdir, as the command itself would.
func (c *completion) from(ctx context.Context, source completionSource, value string) []candidate {
	if c.app.global.chdir != "" && os.Chdir(c.app.global.chdir) != nil {
		return nil
	}
	if c.app.global.config == "" {
		c.app.global.config = "."
	}
	return source(ctx, c, value)
}

// matching returns the candidates that start with the typed text, without duplicates.
func (c *completion) matching(all []candidate, prefix, typed string) []candidate {
	seen := map[string]bool{}
	var kept []candidate
	for _, one := range all {
		if one.text == completeFiles {
			return []candidate{one}
		}
		if !seen[one.text] && strings.HasPrefix(one.text, typed) {
			seen[one.text] = true
			kept = append(kept, candidate{prefix + one.text, one.about})
		}
	}
	return kept
}

// files lets the shell complete file names. With -chdir it lists the files itself, because the shell does not know that
// directory.
func files(_ context.Context, c *completion, value string) []candidate {
	if c.app.global.chdir == "" {
		return []candidate{{text: completeFiles}}
	}
	dir, _ := filepath.Split(value)
	entries, err := os.ReadDir(filepath.Clean(dir + "."))
	if err != nil {
		return nil
	}
	var all []candidate
	for _, e := range entries {
		name := dir + e.Name()
		if e.IsDir() {
			name += "/"
		}
		all = append(all, candidate{text: name})
	}
	return all
}
