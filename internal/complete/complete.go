// Package complete finds the words that a shell may insert at the end of a command line of npctl. Options and commands
// declare where their values and arguments come from; the package knows the declarations, not the values.
package complete

import (
	"embed"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/internal/terminal"
)

// Command is the hidden command that the scripts of the shells call, with the words up to the cursor, of which the last is
// the one to complete. It prints one candidate per line: a whole word, and after a tab its description if it has one.
const Command = "__complete"

// The candidates Files and Dirs make the shell complete file names itself, after "-option=" if the word starts with that.
const (
	Files = ":files"
	Dirs  = ":dirs"
)

//go:embed shells
var scripts embed.FS

// Shells are the names of the shells that have a script.
var Shells = []string{"bash", "zsh", "fish"}

// Script returns the script of a shell.
func Script(shell string) (string, error) {
	script, err := scripts.ReadFile("shells/npctl." + shell)
	return string(script), err
}

// Candidate is a word that a shell may insert.
type Candidate struct{ Text, About string }

// Sourced is an option that declares the source of its values. Package complete only passes the source on.
type Sourced interface{ Source() any }

// Arguments is the key of the source of a command's arguments in its metadata.
const Arguments = "arguments"

// Line is an incomplete command line.
type Line struct {
	Args  []string // the arguments before the current word
	Given []Option // the options before it

	root, command *cli.Command // command is the innermost
	options       []cli.Flag   // options that are valid here; the innermost first
	pending       cli.Flag     // option that takes the current word as its value
	current       string
	literal       bool // after --
}

// Option is an option with its value.
type Option struct {
	Name, Value string
	TakesFile   bool
}

// Parse reads the words of a command line. The last one is the current word.
func Parse(root *cli.Command, words []string) *Line {
	l := &Line{root: root, command: root, options: root.VisibleFlags()}
	if len(words) == 0 {
		return l
	}
	l.current = words[len(words)-1]
	for _, word := range words[:len(words)-1] {
		switch {
		case l.pending != nil:
			l.give(l.pending, word)
			l.pending = nil
		case l.literal || len(word) < 2 || word[0] != '-':
			l.word(word)
		case word == "--":
			l.literal = true
		default:
			l.option(word)
		}
	}
	return l
}

// word handles a subcommand or an argument.
func (l *Line) word(word string) {
	if l.command == l.root && word == "help" {
		return // npctl help image build
	}
	for _, sub := range l.command.Commands {
		if len(l.Args) == 0 && slices.Contains(sub.Names(), word) {
			l.command = sub
			l.options = append(slices.Clone(sub.VisibleFlags()), l.options...)
			return
		}
	}
	l.Args = append(l.Args, word)
}

func (l *Line) option(word string) {
	name, value, given := strings.Cut(strings.TrimLeft(word, "-"), "=")
	flag := l.flag(name)
	switch {
	case flag == nil:
	case given:
		l.give(flag, value)
	case takesValue(flag):
		l.pending = flag
	}
}

func (l *Line) give(f cli.Flag, value string) {
	l.Given = append(l.Given, Option{f.Names()[0], value, takesFile(f)})
}

func (l *Line) flag(name string) cli.Flag {
	for _, f := range l.options {
		if slices.Contains(f.Names(), name) {
			return f
		}
	}
	return nil
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

// Want describes the words that may replace the current one.
type Want struct {
	Known  []Candidate // from the command line itself
	Source any         // of further candidates, as declared, or Files; nil if there is none
	Typed  string      // the beginning of the word, or of the value of an option

	prefix string // before the value of an option
}

// Want returns the wanted words.
func (l *Line) Want() Want {
	name, value, inOption := strings.Cut(l.current, "=")
	switch {
	case l.pending != nil:
		return values(l.pending, "", l.current)
	case l.literal || !strings.HasPrefix(l.current, "-"):
		return Want{Known: l.subcommands(), Source: l.command.Metadata[Arguments], Typed: l.current}
	case !inOption:
		return Want{Known: l.optionNames(), Typed: l.current}
	}
	if f := l.flag(strings.TrimLeft(name, "-")); f != nil {
		return values(f, name+"=", value)
	}
	return Want{}
}

// values returns the wanted values of an option.
func values(f cli.Flag, prefix, typed string) Want {
	w := Want{Typed: typed, prefix: prefix}
	if s, ok := f.(Sourced); ok {
		w.Source = s.Source()
	} else if takesFile(f) {
		w.Source = Files
	} else if !takesValue(f) {
		w.Known = []Candidate{{"true", ""}, {"false", ""}}
	}
	return w
}

func (l *Line) subcommands() (all []Candidate) {
	if len(l.Args) > 0 {
		return nil
	}
	for _, sub := range l.command.Commands {
		if !sub.Hidden {
			all = append(all, Candidate{sub.Name, sub.Usage})
		}
	}
	return all
}

// optionNames returns the options in the form of the documentation, with one dash, unless the user typed two.
func (l *Line) optionNames() []Candidate {
	dashes := "-"
	if strings.HasPrefix(l.current, "--") {
		dashes = "--"
	}
	all := []Candidate{{dashes + "help", "show help"}}
	if l.command == l.root {
		all = append(all, Candidate{dashes + "version", "print the version"})
	}
	seen := map[string]bool{"help": true, "version": true}
	for _, f := range l.options {
		name := f.Names()[0]
		if seen[name] {
			continue
		}
		seen[name] = true
		about := ""
		if doc, ok := f.(cli.DocGenerationFlag); ok {
			about = strings.ReplaceAll(doc.GetUsage(), "`", "")
		}
		text := dashes + name
		if on, ok := f.(*cli.BoolFlag); ok && on.Value {
			text += "=false"
		} else if takesValue(f) {
			text += "="
		}
		all = append(all, Candidate{text, firstClause(about)})
	}
	return all
}

// firstClause returns the part of a usage text that fits beside a candidate.
func firstClause(usage string) string {
	for _, end := range []string{"; ", ". ", " ("} {
		usage, _, _ = strings.Cut(usage, end)
	}
	return terminal.Shorten(usage, 70)
}

// Match returns the candidates that start with the typed text, without duplicates.
func (w Want) Match(all []Candidate) (kept []Candidate) {
	seen := map[string]bool{}
	for _, one := range all {
		if one.Text == Files || one.Text == Dirs {
			return []Candidate{one}
		}
		if !seen[one.Text] && strings.HasPrefix(one.Text, w.Typed) {
			seen[one.Text] = true
			kept = append(kept, Candidate{w.prefix + one.Text, one.About})
		}
	}
	return kept
}
