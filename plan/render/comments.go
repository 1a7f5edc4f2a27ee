package render

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// Limits of comments that all places of review accept.
const (
	commentLimit  = 50   // comments of one review
	commentLength = 4096 // bytes of one comment
)

// level says how important a comment is. The values are those of Zuul and GitHub.
type level string

const (
	levelInfo    level = "info"
	levelWarning level = "warning"
	levelError   level = "error"
)

func (l level) rank() int { return slices.Index([]level{levelError, levelWarning, levelInfo}, l) }

// comment is a text about a line of a file.
type comment struct {
	file  string
	line  int
	level level
	lines []string
}

// commentsOf returns a comment for each line of the configuration with a setting, a step or a problem of the effect, the most
// important first.
func commentsOf(e plan.Effect) []comment {
	type place struct {
		file string
		line int
	}
	at := map[place]*comment{}
	add := func(source resources.Source, l level, line string) {
		if source.File == "" {
			return
		}
		c := at[place{source.File, source.Line}]
		if c == nil {
			c = &comment{file: source.File, line: source.Line, level: levelInfo}
			at[place{source.File, source.Line}] = c
		}
		if l.rank() < c.level.rank() {
			c.level = l
		}
		c.lines = append(c.lines, line)
	}
	for _, p := range e.Problems {
		words := "error: " + problemText(p)
		if p.Hint != "" {
			words += "; " + safe(p.Hint)
		}
		add(p.Source, levelError, words)
	}
	for _, d := range e.Differences {
		if d.Block == resources.BlockRemoved {
			continue // it has no line any more
		}
		source, l := d.Source, levelInfo
		if d.Source = (resources.Source{}); d.Class == "replacing" { // the comment is at the line
			l = levelWarning
		}
		add(source, l, settingDetail(d).String())
	}
	for _, g := range groupSteps(plan.Plan{Steps: e.Steps()}, false) { // steps that are no longer due have no line after the change
		for _, entry := range g.entries {
			l, source := levelInfo, entry.lead[0].Source
			if entry.lead[0].Removes() {
				l = levelWarning
			}
			if source.File == "" { // a deletion has no line; its replacement has one
				source = entry.creating()[0].Source
			}
			add(source, l, entry.symbol+" "+titleOf(entry))
		}
	}
	all := make([]comment, 0, len(at))
	for _, c := range at {
		all = append(all, *c)
	}
	slices.SortFunc(all, func(a, b comment) int {
		return cmp.Or(cmp.Compare(a.level.rank(), b.level.rank()), cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line))
	})
	return all
}

// zuulReturn is the data of a job for zuul_return.
type zuulReturn struct {
	Zuul struct {
		FileComments map[string][]zuulComment `json:"file_comments"`
		Warnings     []string                 `json:"warnings,omitempty"`
	} `json:"zuul"`
}

// zuulComment has only the keys that Zuul knows: another one makes Zuul drop all comments of a build.
type zuulComment struct {
	Line    int    `json:"line"`
	Level   level  `json:"level"`
	Message string `json:"message"`
}

// ZuulReturn returns comments at the lines of an effect as data for zuul_return, one JSON document. pathOf returns the path of a
// configuration file in the project, and false for a file that the change does not touch: Zuul would complain about its
// comments. They, those over the limit, and problems become warnings of the report.
func ZuulReturn(e plan.Effect, pathOf func(file string) (path string, touched bool)) ([]byte, error) {
	var doc zuulReturn
	doc.Zuul.FileComments = map[string][]zuulComment{}
	made, left := 0, 0
	for _, c := range commentsOf(e) {
		path, touched := pathOf(c.file)
		switch {
		case touched && made < commentLimit:
			made++
			doc.Zuul.FileComments[path] = append(doc.Zuul.FileComments[path], zuulComment{c.line, c.level, text.Cut(strings.Join(c.lines, "\n"), commentLength)})
		case c.level == levelError:
			doc.Zuul.Warnings = append(doc.Zuul.Warnings, text.Cut(fmt.Sprintf("%s:%d: %s", safe(c.file), c.line, strings.Join(c.lines, "; ")), commentLength))
		default:
			left++
		}
	}
	for _, p := range e.Problems {
		if p.Source.File == "" {
			doc.Zuul.Warnings = append(doc.Zuul.Warnings, text.Cut(problemText(p), commentLength))
		}
	}
	if len(doc.Zuul.Warnings) > commentLimit {
		doc.Zuul.Warnings = doc.Zuul.Warnings[:commentLimit]
	}
	if left > 0 {
		doc.Zuul.Warnings = append(doc.Zuul.Warnings, "npctl: "+text.Count(left, "more line", "more lines")+" of the configuration with an effect, most of them in files that the change does not touch; the plan has them")
	}
	out, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("data for zuul_return: %w", err)
	}
	return append(out, '\n'), nil
}
