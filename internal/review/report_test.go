package review

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	gmtext "github.com/yuin/goldmark/text"
	"pgregory.net/rapid"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/plan/planfile"
	"github.com/npctl/npctl/plan/plantest"
	"github.com/npctl/npctl/plan/render"
	"github.com/npctl/npctl/resources"
)

// checkGolden compares got with a file; NPCTL_UPDATE=1 writes it.
func checkGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("NPCTL_UPDATE") != "" {
		testutil.Must(t, os.WriteFile(path, []byte(got), 0o600))
	}
	if diff := cmp.Diff(testutil.ReadFile(t, path), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s\nif this is intended: NPCTL_UPDATE=1 go test ./internal/review", path, diff)
	}
}

// full returns a report with every part of an effect.
func full() Report {
	e := plantest.Effect()
	e.Problems = append(e.Problems, plan.Problem{Text: "no place"}, plan.Problem{Address: "provider.x", Text: "elsewhere", Source: resources.Source{File: "other.hcl", Line: 3}})
	return Report{Effect: e, Files: map[string]planfile.ConfigurationFile{"main.hcl": {Path: "ci/main.hcl", Touched: true}, "other.hcl": {Path: "ci/other.hcl"}}}
}

func TestGoldens(t *testing.T) {
	for name, write := range Documents {
		doc, err := write(full())
		testutil.Must(t, err)
		var indented bytes.Buffer
		testutil.Must(t, json.Indent(&indented, doc, "", "  "))
		checkGolden(t, map[string]string{"zuul": "zuul-return.json"}[name]+map[string]string{"sarif": "sarif.json", "code-quality": "code-quality.json"}[name], indented.String())
	}
	for _, k := range kinds {
		d := newDouble(t)
		d.open(k)
		k.post(t, d, full(), Posted)
		checkGolden(t, strings.ReplaceAll(k.name, " ", "-")+".txt", k.text(d))
	}
}

func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		effect plan.Effect
		want   Verdict
	}{
		{plan.Effect{}, Passed},
		{sample().Effect, Passed},
		{plan.Effect{CommonProblems: []plan.Problem{{Text: "x"}}}, Passed},
		{plan.Effect{Deferred: []string{"ovh"}}, Incomplete},
		{plan.Effect{Deferred: []string{"ovh"}, Problems: []plan.Problem{{Text: "x"}}}, Failed},
	} {
		if got := (Report{Effect: c.effect}).Verdict(); got != c.want {
			t.Errorf("%s: %s, want %s", c.effect, got, c.want)
		}
	}
}

func TestDigestDependsOnTheContent(t *testing.T) {
	base := full().Digest()
	moment := full()
	for i := range moment.Effect.Added {
		moment.Effect.Added[i].Estimate += 7
	}
	if moment.Effect.Added[0].Estimate == full().Effect.Added[0].Estimate || moment.Digest() != base {
		t.Error("the digest depends on estimates")
	}
	for name, change := range map[string]func(*Report){
		"setting": func(r *Report) { r.Effect.Differences[1].After = "3" },
		"line":    func(r *Report) { r.Effect.Differences[1].Source.Line++ },
		"step":    func(r *Report) { r.Effect.Added = r.Effect.Added[1:] },
		"problem": func(r *Report) { r.Effect.Problems[0].Text = "other" },
		"verdict": func(r *Report) { r.Effect.Problems = nil },
		"listing": func(r *Report) { r.Effect.Deferred = nil },
	} {
		r := full()
		if change(&r); r.Digest() == base {
			t.Errorf("the digest does not depend on the %s", name)
		}
	}
}

func TestPathsOfFiles(t *testing.T) {
	for path, want := range map[string]bool{
		"npctl.hcl": true, "ci/fleet/npctl.hcl": true, "a b.hcl": true, "ümlaut.hcl": true,
		"": false, "/COMMIT_MSG": false, "../x": false, "a/../../x": false, "a/../b": false, "./a": false, "a//b": false, "a\nb": false, "a\u202eb": false,
	} {
		if got := isPath(path); got != want {
			t.Errorf("%q: %v", path, got)
		}
	}
}

// mentions reports whether an @ follows no letter.
func mentions(s string) bool {
	return regexp.MustCompile(`(^|[^A-Za-z0-9_])@`).MatchString(s)
}

func TestMentions(t *testing.T) {
	for in, want := range map[string]string{
		"@all": `\x40all`, "a @b@c.org": `a \x40b@c.org`, "(@team/x)": `(\x40team/x)`, "image@sha256": "image@sha256", "@@x": `\x40\x40x`, "_@x": "_@x", "": "",
	} {
		if got := unmentioned(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// drawReport draws a report of a hostile job.
func drawReport(r *rapid.T) Report {
	e := plantest.DrawEffect(r)
	hostile := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "main.hcl", "other.hcl", "```\n@all <b>", "](http://x) @a@b.org", "\x1b[31m\u202e", "/close", "--> <img>"}))
	for i := range e.Differences {
		e.Differences[i].Source = resources.Source{File: hostile.Draw(r, "file"), Line: rapid.Int().Draw(r, "line")}
	}
	for i := range e.Problems {
		e.Problems[i].Text, e.Problems[i].Source.File = hostile.Draw(r, "problem"), hostile.Draw(r, "file")
	}
	e.Against = hostile.Draw(r, "against")
	report := Report{Effect: e, Files: map[string]planfile.ConfigurationFile{}}
	for _, c := range render.Comments(e) {
		report.Files[c.File] = planfile.ConfigurationFile{Path: rapid.OneOf(hostile, rapid.Just("ci/main.hcl")).Draw(r, "path"), Touched: rapid.Bool().Draw(r, "touched")}
	}
	return report
}

// Text is shown by Gerrit as Markdown: all that comes from the report is in indented lines, of which none ends the indent.
func TestHostileReportStaysInTheTextForGerrit(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		report := drawReport(r)
		limit := rapid.IntRange(1500, 20_000).Draw(r, "limit")
		out, err := report.Text(limit, nil, "last line")
		testutil.Must(r, err)
		lines := strings.Split(out, "\n")
		if len(out) > limit || !utf8.ValidString(out) || lines[0] != report.Effect.String() || lines[len(lines)-1] != "last line" {
			r.Fatalf("limit %d, %d bytes:\n%s", limit, len(out), out)
		}
		for _, line := range lines[1 : len(lines)-1] {
			if line != "" && !strings.HasPrefix(line, indent) && !strings.HasPrefix(line, "To apply the reviewed effect") || line != text.Line(line) || mentions(line) {
				r.Fatalf("line %q of\n%s", line, out)
			}
		}
	})
}

func TestLongTextIsAbridgedAtTheLimit(t *testing.T) {
	r := sample()
	for i := range 400 {
		r.Effect.Differences = append(r.Effect.Differences, resources.Difference{Address: fmt.Sprintf("label.ä%c%d", '語', i), Attribute: "min_ready", After: "1"})
	}
	r.Effect.Problems = []plan.Problem{{Text: "the problem"}}
	whole, err := r.Text(1<<20, nil, "last")
	testutil.Must(t, err)
	most := len(whole) + 80 // the reserve for the line that counts the missing ones
	for limit, complete := range map[int]bool{most - 1: false, most: true, most + 1: true, gerritLimit: false} {
		out, err := r.Text(limit, nil, "last")
		testutil.Must(t, err)
		if (out == whole) != complete || len(out) > limit || !utf8.ValidString(out) || !strings.Contains(out, "error: the problem") ||
			strings.Contains(out, "left out; the job has them") == complete {
			t.Errorf("limit %d of %d: %d bytes\n%s", limit, most, len(out), out)
		}
	}
	if _, err := r.Text(100, nil, "last"); err == nil {
		t.Error("a text without its verdict")
	}
}

func TestMarkdownKeepsItsLimit(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		report := drawReport(r)
		limit := rapid.IntRange(3000, 20_000).Draw(r, "limit")
		out, err := report.Markdown(limit, render.Comments(report.Effect))
		testutil.Must(r, err)
		if len(out) > limit || !strings.HasPrefix(out, "### "+report.Effect.String()+"\n") {
			r.Fatalf("limit %d, %d bytes:\n%s", limit, len(out), out)
		}
	})
	for _, k := range kinds[1:] {
		r := Report{Effect: plan.Effect{Added: plantest.BigPlan(10_000).Steps}}
		d := newDouble(t)
		d.open(k)
		k.post(t, d, r, Posted)
		if n := len(k.text(d)); n > messageLimit || n < messageLimit*3/4 {
			t.Errorf("%s: %d bytes", k.name, n)
		}
	}
}

// Names of a report appear only in code, where no place interprets anything.
func TestHostileNamesStayInCode(t *testing.T) {
	const name = "zzz"
	parser := goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser()
	rapid.Check(t, func(r *rapid.T) {
		around := rapid.SampledFrom([]string{"@%s", "`%s", "```\n%s", "~~~\n%s", "</code></details>%s", "<!-- %s", "--> %s", "| %s |", "[%s](http://x)", "https://%s.org", "\n\n# %s", "/close %s", "![%s]", "$%s$", "#1 %s"})
		draw := func(what string) string { return fmt.Sprintf(around.Draw(r, what), name) }
		e := plantest.HostilePlan()
		report := Report{Effect: plan.Effect{Against: draw("against"), Added: e.Steps, Deferred: []string{draw("provider")},
			Differences: []resources.Difference{{Address: draw("address"), Attribute: draw("attribute"), Before: draw("before"), After: draw("after"), Source: resources.Source{File: draw("file"), Line: 1}}},
			Problems:    []plan.Problem{{Address: plan.Address(draw("address")), Text: draw("text"), Hint: draw("hint")}}}}
		for i := range report.Effect.Added {
			report.Effect.Added[i].Provider, report.Effect.Added[i].Label = draw("provider"), draw("label")
		}
		out, err := report.Markdown(20_000, render.Comments(report.Effect))
		testutil.Must(r, err)
		source := []byte(marker{Name: draw("name"), Commit: draw("commit")}.String() + out)
		found := 0
		check := func(n ast.Node, entering bool) (ast.WalkStatus, error) {
			lines := ""
			switch n := n.(type) {
			case *ast.Text:
				if lines = string(n.Segment.Value(source)); n.Parent().Kind() == ast.KindCodeSpan {
					return ast.WalkContinue, nil
				}
			case *ast.HTMLBlock: // a fold, with the name in <code>, or the marker
				for i := range n.Lines().Len() {
					at := n.Lines().At(i)
					lines += string(at.Value(source))
				}
				_, title, inFold := strings.Cut(lines, "<summary><code>")
				title, rest, closed := strings.Cut(title, "</code>")
				if inFold && closed && !strings.ContainsAny(title, "<>") {
					lines = rest
				} else if body, ok := strings.CutPrefix(strings.TrimSuffix(lines, " -->\n"), markerBegin); ok && !strings.ContainsAny(body, "<>") {
					lines = ""
				}
			case *ast.FencedCodeBlock:
				if entering {
					found++
				}
			}
			if strings.Contains(lines, name) {
				r.Fatalf("%q is outside of code in\n%s", lines, source)
			}
			return ast.WalkContinue, nil
		}
		testutil.Must(r, ast.Walk(parser.Parse(gmtext.NewReader(source)), check))
		if found < 3 {
			r.Fatalf("%d blocks of code in\n%s", found, source)
		}
		for line := range strings.Lines(out) { // GitLab executes lines that start with a slash
			if strings.HasPrefix(strings.TrimSpace(line), "/") && strings.HasPrefix(line, "/") {
				r.Fatalf("line %q", line)
			}
		}
	})
}

func TestMarkersSurviveAndHideTheirValues(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		m := marker{rapid.StringMatching(`[ -~]{0,20}`).Draw(r, "name"), headCommit, rapid.SampledFrom([]string{"", "-->", "a\nb"}).Draw(r, "digest")}
		line := m.String()
		if got, ok := markerOf(line + "body"); !ok || got != m || strings.Count(line, "\n") != 1 || strings.Count(line, "-->") != 1 {
			r.Fatalf("%q: %+v, %v", line, got, ok)
		}
	})
	for _, body := range []string{"", "x", "x\n" + marker{}.String(), markerBegin + "{", markerBegin + "[]" + markerEnd} {
		if m, ok := markerOf(body); ok {
			t.Errorf("%q has the marker %+v", body, m)
		}
	}
}

// Zuul drops all comments of a build for one key that it does not know, and Gerrit rejects a review for one comment that is too long.
func TestDocumentsHaveOnlyValidComments(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		report := drawReport(r)
		doc, err := Zuul(report)
		testutil.Must(r, err)
		var data map[string]map[string]json.RawMessage
		testutil.Must(r, json.Unmarshal(doc, &data))
		var comments map[string][]map[string]any
		testutil.Must(r, json.Unmarshal(data["zuul"]["file_comments"], &comments))
		count := 0
		for path, list := range comments {
			count += len(list)
			for _, c := range list {
				message, _ := c["message"].(string)
				line, isLine := c["line"].(float64)
				if !isPath(path) || len(c) != 3 || !isLine || line < 1 || message == "" || len(message) > 4300 || message != text.Block(message) || mentions(message) {
					r.Fatalf("comment %v in %q", c, path)
				}
			}
		}
		var warnings []string
		if list := data["zuul"]["warnings"]; list != nil {
			testutil.Must(r, json.Unmarshal(list, &warnings))
		}
		for _, w := range warnings {
			if w != text.Line(w) || mentions(w) {
				r.Fatalf("warning %q", w)
			}
		}
		if count > commentLimit || len(warnings) > commentLimit+1 {
			r.Fatalf("%d comments, %d warnings", count, len(warnings))
		}
	})
}

func TestMostImportantCommentsStay(t *testing.T) {
	r := Report{Files: map[string]planfile.ConfigurationFile{"main.hcl": {Path: "main.hcl", Touched: true}}}
	for i := range 80 {
		r.Effect.Differences = append(r.Effect.Differences, resources.Difference{Address: fmt.Sprint("label.l", i), Attribute: "min_ready", After: "1", Class: "in place", Source: resources.Source{File: "main.hcl", Line: 10 + i}})
	}
	r.Effect.Problems = []plan.Problem{{Address: "label.z", Text: "wrong", Source: resources.Source{File: "main.hcl", Line: 900}}}
	out, err := Zuul(r)
	testutil.Must(t, err)
	if n := strings.Count(string(out), `"line"`); n != commentLimit || !strings.Contains(string(out), `"line":900,"level":"error"`) || !strings.Contains(string(out), "31 lines with an effect have no comment") {
		t.Errorf("%d comments: %s", n, out)
	}
}

func TestLongLineDoesNotHideTheOthers(t *testing.T) {
	r := sample()
	r.Effect.Differences[0].After = strings.Repeat("語", 10_000)
	out, err := r.Text(gerritLimit, nil, "last")
	testutil.Must(t, err)
	if !strings.Contains(out, "bytes more)\n") || !strings.Contains(out, "provider.acme region: a -> b") {
		t.Errorf("%d bytes: %.300s", len(out), out)
	}
}

func TestWarningsForZuulAreLimited(t *testing.T) {
	var r Report
	for i := range 80 {
		r.Effect.Problems = append(r.Effect.Problems, plan.Problem{Text: fmt.Sprint(i, strings.Repeat("語", 1000))})
	}
	out, err := Zuul(r)
	testutil.Must(t, err)
	var doc zuulReturn
	testutil.Must(t, json.Unmarshal(out, &doc))
	if n := len(doc.Zuul.Warnings); n != commentLimit || len(doc.Zuul.Warnings[0]) > warningLength+40 {
		t.Errorf("%d warnings, the first has %d bytes", n, len(doc.Zuul.Warnings[0]))
	}
}
