// Package review shows the effect of a change of the configuration in code reviews and in their files.
package review

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan/planfile"
	"github.com/npctl/npctl/plan/render"
)

// A report may come from a job that ran the author's code, so its effect and its files are hostile. Everything in it is escaped for the
// place, paths and lines are checked, and project, change and commit come from elsewhere.

// Report is a change with its effect, as npctl plan has saved it.
type Report planfile.Change

// Verdict says in one word what a reviewer has to know.
type Verdict string

const (
	Passed     Verdict = "passed"     // the effect is known and has no problem
	Incomplete Verdict = "incomplete" // a part of the effect is not known
	Failed     Verdict = "failed"     // the change has problems that prevent an apply
)

// Verdict returns the verdict on the change. Problems that it did not cause do not count.
func (r Report) Verdict() Verdict {
	switch {
	case len(r.Effect.Problems) > 0:
		return Failed
	case r.Effect.Incomplete() != "":
		return Incomplete
	default:
		return Passed
	}
}

// Digest identifies the content for readers: two runs with the same digest need only one post. Estimates and facts of the moment, which the
// messages also have, do not count.
func (r Report) Digest() string {
	words := append([]string{string(r.Verdict()), r.Effect.String()}, r.Effect.Outline()...)
	for _, c := range render.Comments(r.Effect) {
		words = append(words, c.File, strconv.Itoa(c.Line), string(c.Level), c.Text)
	}
	for _, p := range r.Effect.Problems {
		words = append(words, string(p.Address), p.Text)
	}
	return digest(words...)
}

// digest returns 32 hexadecimal digits for words.
func digest(words ...string) string {
	sum := sha256.New()
	for _, w := range words {
		sum.Write([]byte(strconv.Quote(w))) //nolint:errcheck // a hash returns no error
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// Limits of comments that all places accept.
const (
	commentLimit = 50        // comments of one post
	lineLimit    = 1_000_000 // the greatest line of a comment
)

// remark is a comment at a line of a file in the repository.
type remark struct {
	path  string
	line  int
	level render.Level
	text  string
}

// remarks returns at most commentLimit comments, the most important first, at lines of files that accept permits, and the comments that
// are left.
func (r Report) remarks(accept func(planfile.ConfigurationFile) bool) (all []remark, left []render.Comment) {
	for _, c := range render.Comments(r.Effect) {
		file, known := r.Files[c.File]
		if !known || !isPath(file.Path) || c.Line < 1 || c.Line > lineLimit || !accept(file) || len(all) == commentLimit {
			left = append(left, c)
			continue
		}
		all = append(all, remark{file.Path, c.Line, c.Level, unmentioned(c.Text)})
	}
	return all, left
}

// isPath reports whether a path is inside of the repository and has no characters that a place might interpret.
func isPath(path string) bool {
	return filepath.IsLocal(path) && path == filepath.ToSlash(filepath.Clean(path)) && path == text.Line(path) && !strings.HasPrefix(path, "/")
}

func touched(f planfile.ConfigurationFile) bool { return f.Touched }

// at is an @ with the letter before it, if any. Without a letter, it may call a person.
var at = regexp.MustCompile(`[A-Za-z0-9_]?@`)

// unmentioned returns text in which an @ calls no person.
func unmentioned(s string) string {
	return at.ReplaceAllStringFunc(s, func(found string) string {
		if found == "@" {
			return `\x40`
		}
		return found
	})
}

// leftLine says how many comments have no line in the review, or "".
func leftLine(left []render.Comment) string {
	if len(left) == 0 {
		return ""
	}
	return text.Count(len(left), "line with an effect has", "lines with an effect have") + " no comment: outside the files of the change, or over the limit of " +
		strconv.Itoa(commentLimit)
}

// problemsWithoutLine returns the problems that have no line.
func (r Report) problemsWithoutLine() (lines []string) {
	for _, p := range r.Effect.Problems {
		if p.Source.File == "" {
			lines = append(lines, unmentioned(text.Line(strings.TrimPrefix(string(p.Address)+": "+p.Text, ": "))))
		}
	}
	return slices.Clip(lines)
}
