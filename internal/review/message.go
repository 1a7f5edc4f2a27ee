package review

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/plan/render"
)

// messageLimit is the limit of a message in Markdown in bytes: that of GitHub in characters, which are never more than the bytes. Readers
// profit from no longer message where a longer one is possible.
const messageLimit = 65_535

const (
	textLineLimit = 2000 // bytes of one line of Text
	indent        = "    "
)

// Markdown returns the message for places that show Markdown and HTML, of at most limit bytes. The verdict is its first line.
func (r Report) Markdown(limit int, left []render.Comment) (string, error) {
	tail := r.footer("`", left)
	var b bytes.Buffer
	if err := render.EffectMarkdown(&b, r.Effect, limit-len(tail)); err != nil {
		return "", err
	}
	return b.String() + tail, nil
}

// footer returns the last lines of a message: the number of comments that have no line, and the digest for apply.
func (r Report) footer(quote string, left []render.Comment) string {
	var lines string
	if more := leftLine(left); more != "" {
		lines += "\n(" + more + ")\n"
	}
	if !r.Effect.Empty() && r.Verdict() != Failed {
		lines += "\nTo apply the reviewed effect after the merge: " + quote + "npctl apply -against=HEAD^1 -expect=" + r.Effect.Digest() + quote + "\n"
	}
	return lines
}

// Text returns the message as plain text of at most limit bytes, with last as its last line. The verdict is its first line. All other text is
// indented by four columns, which Markdown and the earlier syntax of Gerrit show without interpretation.
func (r Report) Text(limit int, left []render.Comment, last string) (string, error) {
	lines, err := r.lines()
	if err != nil {
		return "", err
	}
	head, tail := r.Effect.String()+"\n\n", r.footer("", left)+"\n"+last
	budget := limit - len(head) - len(tail) - 80 // the line that counts the missing ones
	if budget < 0 {
		return "", fmt.Errorf("effect as text in %d bytes: the limit is too small", limit)
	}
	var b strings.Builder
	for i, line := range lines {
		if b.Len()+len(line)+1 > budget {
			fmt.Fprintf(&b, "%s(%s left out; the job has them)\n", indent, text.Count(len(lines)-i, "more line", "more lines"))
			break
		}
		b.WriteString(line + "\n")
	}
	return head + b.String() + tail, nil
}

// lines returns the indented lines of the effect, its problems first.
func (r Report) lines() ([]string, error) {
	problems, rest := plan.Effect{Problems: r.Effect.Problems}, r.Effect
	rest.Problems = nil
	var lines []string
	for _, e := range []plan.Effect{problems, rest} {
		var b strings.Builder
		if err := render.EffectText(&b, e, render.TextOptions{}); err != nil {
			return nil, err
		}
		body := strings.TrimSuffix(strings.TrimSuffix(b.String(), "\n"), e.String()) // the first line has the summary
		for line := range strings.Lines(body) {
			if line = strings.TrimRight(line, "\n"); line != "" || len(lines) > 0 && lines[len(lines)-1] != "" {
				lines = append(lines, strings.TrimRight(indent+text.Cut(unmentioned(line), textLineLimit), " "))
			}
		}
	}
	if n := len(lines); n > 0 && lines[n-1] == "" {
		lines = lines[:n-1]
	}
	return lines, nil
}

// marker identifies a comment of npctl in its first line, which readers do not see.
type marker struct {
	Name   string `json:"name"` // of the fleet
	Commit string `json:"commit"`
	Digest string `json:"digest"`
}

const (
	markerBegin = "<!-- npctl review "
	markerEnd   = " -->"
)

// String returns the first line of a comment. JSON escapes < and >, so that no value ends the HTML comment.
func (m marker) String() string {
	doc, err := json.Marshal(m)
	if err != nil {
		return "" // strings always have JSON
	}
	return markerBegin + string(doc) + markerEnd + "\n"
}

// markerOf returns the marker of a comment, and whether it has one.
func markerOf(body string) (m marker, ok bool) {
	line, _, _ := strings.Cut(body, "\n")
	doc, ok := strings.CutPrefix(strings.TrimRight(line, "\r "), markerBegin)
	if !ok {
		return m, false
	}
	doc, ok = strings.CutSuffix(doc, markerEnd)
	return m, ok && json.Unmarshal([]byte(doc), &m) == nil
}
