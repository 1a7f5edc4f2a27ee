package render

import (
	"cmp"
	"slices"
	"strings"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// commentLength is the maximum length of a comment in bytes, which all forges accept.
const commentLength = 4096

// Level says how important a comment is. The values are those of Zuul.
type Level string

const (
	LevelInfo    Level = "info"
	LevelWarning Level = "warning"
	LevelError   Level = "error"
)

func (l Level) rank() int { return slices.Index([]Level{LevelError, LevelWarning, LevelInfo}, l) }

// Comment is a text about a line of a file of the configuration, without characters that a terminal or a browser would interpret.
type Comment struct {
	File  string
	Line  int
	Level Level
	Text  string // lines, separated by line breaks
}

// Comments returns a comment for each line of the configuration with a setting, a step or a problem of the effect, the most
// important first.
func Comments(e plan.Effect) []Comment {
	type place struct {
		file string
		line int
	}
	type draft struct {
		Comment
		lines []string
	}
	at := map[place]*draft{}
	add := func(source resources.Source, l Level, line string) {
		if source.File == "" {
			return
		}
		c := at[place{source.File, source.Line}]
		if c == nil {
			c = &draft{Comment: Comment{File: source.File, Line: source.Line, Level: LevelInfo}}
			at[place{source.File, source.Line}] = c
		}
		if l.rank() < c.Level.rank() {
			c.Level = l
		}
		c.lines = append(c.lines, line)
	}
	for _, p := range e.Problems {
		words := "error: " + problemText(p)
		if p.Hint != "" {
			words += "; " + safe(p.Hint)
		}
		add(p.Source, LevelError, words)
	}
	for _, d := range e.Differences {
		if d.Block == resources.BlockRemoved {
			continue // it has no line any more
		}
		source, l := d.Source, LevelInfo
		if d.Source = (resources.Source{}); d.Class == "replacing" { // the comment is at the line
			l = LevelWarning
		}
		add(source, l, settingDetail(d).String())
	}
	for _, g := range groupSteps(plan.Plan{Steps: e.Steps()}, false) { // steps that are no longer due have no line after the change
		for _, entry := range g.entries {
			l, source := LevelInfo, entry.lead[0].Source
			if entry.lead[0].Removes() {
				l = LevelWarning
			}
			if source.File == "" { // a deletion has no line; its replacement has one
				source = entry.creating()[0].Source
			}
			add(source, l, entry.symbol+" "+titleOf(entry))
		}
	}
	all := make([]Comment, 0, len(at))
	for _, c := range at {
		c.Text = text.Cut(strings.Join(c.lines, "\n"), commentLength)
		all = append(all, c.Comment)
	}
	slices.SortFunc(all, func(a, b Comment) int {
		return cmp.Or(cmp.Compare(a.Level.rank(), b.Level.rank()), cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	return all
}
