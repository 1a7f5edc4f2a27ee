package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/internal/complete"
)

const completionDescription = `Prints the script that completes commands, options and names in a shell. Names come from the
configuration and the state; no cloud is queried.

Examples:
  source <(npctl completion bash)                                      (in ~/.bashrc)
  source <(npctl completion zsh)                                       (in ~/.zshrc)
  npctl completion fish > ~/.config/fish/completions/npctl.fish

Exit codes: 0, or 1 on an error.`

func newCompletionCommand(a *app) *cli.Command {
	shells := choices(complete.Shells)
	return &cli.Command{
		Name: "completion", Category: categoryOther, Usage: "print a script for completion in a shell", ArgsUsage: "bash|zsh|fish",
		Description: completionDescription, Metadata: takes(single(shells.source)),
		Action: func(_ context.Context, cmd *cli.Command) error {
			shell := cmd.Args().First()
			switch {
			case shell == "":
				return hint(fmt.Errorf("npctl completion needs the name of a shell"), "write "+shells.String())
			case !slices.Contains(shells, shell):
				return hint(fmt.Errorf("npctl has no completion for %q", shell), "write "+shells.String())
			}
			script, err := complete.Script(shell)
			if err != nil {
				return err
			}
			return a.ui.Write(script)
		},
	}
}

// source returns the candidates for an argument, or for the value of an option that starts with typed.
type source func(ctx context.Context, c *completion, typed string) []candidate

type candidate = complete.Candidate

// stringFlag is a cli.StringFlag that declares the source of its values.
type stringFlag struct {
	cli.StringFlag
	values source
}

// Source implements complete.Sourced.
func (f *stringFlag) Source() any { return f.values }

// stringsFlag is a cli.StringSliceFlag that declares the source of its values.
type stringsFlag struct {
	cli.StringSliceFlag
	values source
}

// Source implements complete.Sourced.
func (f *stringsFlag) Source() any { return f.values }

// takes returns the metadata of a command with the source of its arguments.
func takes(s source) map[string]any { return map[string]any{complete.Arguments: s} }

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
			b.WriteString(strings.TrimSuffix(visibleLine(c.Text)+"\t"+visibleLine(c.About), "\t") + "\n")
		}
	case <-ctx.Done():
	}
	_, _ = io.WriteString(a.ui.Out, b.String())
	return 0
}

// completion is an incomplete command line of an invocation.
type completion struct {
	*complete.Line
	app  *app
	vars variableOptions
}

// newCompletion applies the options that locate the configuration and the state.
func newCompletion(a *app, words []string) *completion {
	c := &completion{Line: complete.Parse(a.command(), words), app: a}
	for _, o := range c.Given {
		switch {
		case o.Name == "chdir":
			a.global.chdir = o.Value
		case o.Name == "config":
			a.global.config = o.Value
		case o.Name == "state" && o.TakesFile:
			a.global.state = o.Value
		case o.Name == "var":
			c.vars.vars = append(c.vars.vars, o.Value)
		case o.Name == "var-file":
			c.vars.files = append(c.vars.files, o.Value)
		}
	}
	return c
}

// candidates returns the candidates for the current word. It queries a source in the directory of -chdir, as the command
// itself would.
func (c *completion) candidates(ctx context.Context) []candidate {
	want := c.Want()
	all := want.Known
	ask, _ := want.Source.(source)
	if want.Source == complete.Files {
		ask = files
	}
	if g := &c.app.global; ask != nil && (g.chdir == "" || os.Chdir(g.chdir) == nil) {
		g.config = cmp.Or(g.config, ".")
		all = append(all, ask(ctx, c, want.Typed)...)
	}
	return want.Match(all)
}

// files lets the shell complete file names. With -chdir it lists the files itself, because the shell does not know that
// directory.
func files(_ context.Context, c *completion, value string) []candidate {
	if c.app.global.chdir == "" {
		return []candidate{{Text: complete.Files}}
	}
	dir, _ := filepath.Split(value)
	entries, err := os.ReadDir(filepath.Clean(dir + "."))
	if err != nil {
		return nil
	}
	return candidates(entries, func(e os.DirEntry) candidate {
		if e.IsDir() {
			return candidate{Text: dir + e.Name() + "/"}
		}
		return candidate{Text: dir + e.Name()}
	})
}

// dirs lets the shell complete the names of directories.
func dirs(context.Context, *completion, string) []candidate {
	return []candidate{{Text: complete.Dirs}}
}
