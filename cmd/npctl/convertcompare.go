package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/npctl/npctl/internal/convert"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/resources"
)

// convertComparison is the comparison of a translation with what Nodepool does with its input.
type convertComparison struct {
	Compared    int                 `json:"compared"`
	Differences []convertDifference `json:"differences"`
	Deliberate  []convertDifference `json:"deliberate"`

	name string // of the input
}

type convertDifference struct {
	Path     string `json:"path"`
	Line     int    `json:"line,omitempty"`
	Nodepool string `json:"nodepool"`
	Npctl    string `json:"npctl"`
	Reason   string `json:"reason,omitempty"`
}

// compareConverted compares the configuration with Nodepool's effective model of the input. Values are shown only if all of them
// are in nodepool.yaml itself, because those of the secure file and of the environment can be secrets.
func compareConverted(in convert.Input, r *convert.Result, d resources.Desired, env func(string) (string, bool)) (*convertComparison, error) {
	all, err := convert.Compare(in, env, d)
	if err != nil && (in.Secure != nil || len(r.Env) > 0) {
		err = errors.New("a value of the environment or of the secure file may be wrong")
	}
	if err != nil {
		return nil, fmt.Errorf("%s cannot be compared with the translation: %w", in.Name, err)
	}
	shown := func(from []convert.Difference) []convertDifference {
		to := []convertDifference{}
		for _, d := range from {
			if in.Secure != nil || len(r.Env) > 0 || d.Secret() {
				d.Nodepool, d.Npctl = "(sensitive)", "(sensitive)"
			}
			to = append(to, convertDifference{d.Path, d.Line, d.Nodepool, d.Npctl, d.Reason})
		}
		return to
	}
	return &convertComparison{all.Compared, shown(all.Differences), shown(all.Deliberate), filepath.Base(in.Name)}, nil
}

func (c *convertComparison) summary() string {
	result := "equal"
	if n := len(c.Differences); n > 0 {
		result = text.Count(n, "difference", "differences")
	}
	if n := len(c.Deliberate); n > 0 {
		result += fmt.Sprintf(", and %s on purpose", text.Count(n, "difference", "differences"))
	}
	return fmt.Sprintf("Compared %s with %s: %s.", text.Count(c.Compared, "attribute", "attributes"), c.name, result)
}

// lines describes each difference on one line.
func (c *convertComparison) lines() []string {
	var lines []string
	for _, d := range append(append([]convertDifference{}, c.Differences...), c.Deliberate...) {
		line := fmt.Sprintf("%s: Nodepool has %s, npctl has %s", d.Path, d.Nodepool, d.Npctl)
		if d.Line > 0 {
			line = fmt.Sprintf("%s:%d: %s", c.name, d.Line, line)
		}
		if d.Reason != "" {
			line += ": " + d.Reason
		}
		lines = append(lines, text.Line(line))
	}
	return lines
}

// report returns the comparison as the end of a report.
func (c *convertComparison) report(markdown bool) string {
	lines := c.lines()
	if !markdown {
		return strings.Join(append(lines, c.summary()), "\n") + "\n"
	}
	out := "\n## Comparison\n\n" + c.summary() + "\n"
	for i, line := range lines {
		if i == 0 {
			out += "\n"
		}
		out += "- `" + strings.ReplaceAll(line, "`", "'") + "`\n"
	}
	return out
}

const maxDifferences = 20 // that an error lists

// err returns an error if there are differences.
func (c *convertComparison) err() error {
	if len(c.Differences) == 0 {
		return nil
	}
	lines := c.lines()[:len(c.Differences)]
	if more := len(lines) - maxDifferences; more > 0 {
		lines = append(lines[:maxDifferences:maxDifferences], fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("the translation describes another state than %s; nothing was written\n%s\n%s", c.name, c.summary(), strings.Join(lines, "\n"))
}

const differencesHint = "correct the values in the YAML or in the environment, or write the files all the same with -allow-differences; " +
	"other differences are bugs in npctl convert"
