package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/internal/terminal"
)

// A hint must name existing commands and options. A hint for a command that npctl has is never printed.
func TestHintsForOtherToolsNameExistingCommands(t *testing.T) {
	root := newApp(terminal.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, os.LookupEnv).command()
	find := func(words []string) (found *cli.Command, rest []string) {
		found = root
		for len(words) > 0 && found.Command(words[0]) != nil {
			found, words = found.Command(words[0]), words[1:]
		}
		return found, words
	}
	invocation := regexp.MustCompile(`npctl ([a-z-]+)((?: -?[a-zA-Z.=]+)*)`)
	check := func(of, hint string) {
		for _, m := range invocation.FindAllStringSubmatch(hint, -1) {
			command, rest := find(append([]string{m[1]}, strings.Fields(m[2])...))
			if command == root && m[1] != "manages" && m[1] != "logs" && m[1] != "changes" {
				t.Errorf("hint for %s: there is no npctl %s", of, m[1])
			}
			for _, word := range rest {
				option, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
				if strings.HasPrefix(word, "-") && optionNamed(command, option) == nil {
					t.Errorf("hint for %s: npctl %s has no option %s", of, m[1], word)
				}
			}
		}
	}
	for name, hint := range alternatives {
		check(name, hint)
		if command, rest := find(strings.Fields(name)); len(rest) == 0 {
			t.Errorf("npctl has the command %s", command.Name)
		}
	}
	for command, options := range alternativeOptions {
		found, rest := find([]string{command})
		if len(rest) > 0 {
			t.Errorf("npctl has no command %s", command)
		}
		for name, hint := range options {
			check(command+" -"+name, hint)
			if optionNamed(found, name) != nil {
				t.Errorf("npctl %s has the option -%s", command, name)
			}
		}
	}
	for name, other := range alternativeNames {
		if alternatives[other] == "" {
			t.Errorf("%s is like %s, for which there is no hint", name, other)
		}
	}
}
