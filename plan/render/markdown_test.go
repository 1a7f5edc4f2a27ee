package render

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer/html"
	"pgregory.net/rapid"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/plan/plantest"
)

func TestMarkdownGolden(t *testing.T) {
	checkGolden(t, "review.md", markdownOf(t, plantest.Plan(), 0))
	checkGolden(t, "review-hostile.md", markdownOf(t, plantest.HostileNode(), 0))
}

func TestMarkdownNeverExceedsTheLimit(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := plantest.DrawPlan(r)
		limit := rapid.IntRange(markdownLeast, 20_000).Draw(r, "limit")
		text := markdownOf(t, p, limit)
		if len(text) > limit {
			r.Fatalf("%d bytes, limit %d:\n%s", len(text), limit, text)
		}
		if summary := p.Summary().String(); !strings.HasPrefix(text, "### "+summary+"\n") || !strings.HasSuffix(text, "\n"+summary+"\n") {
			r.Fatalf("no summary at both ends of\n%s", text)
		}
	})
	big := plantest.BigPlan(10_000)
	for _, limit := range []int{markdownLeast, 5000, 0} {
		text := markdownOf(t, big, limit)
		if limit == 0 {
			limit = 65535
		}
		if len(text) > limit || !strings.Contains(text, "left out for lack of space") {
			t.Errorf("limit %d: %d bytes\n%s", limit, len(text), text[:1000])
		}
		if limit == 65535 && len(text) < limit*3/4 {
			t.Errorf("only %d of %d bytes used", len(text), limit)
		}
	}
}

func TestMarkdownLimitBelowSummaryIsRejected(t *testing.T) {
	if err := Markdown(io.Discard, plantest.Plan(), 1000); err == nil || err.Error() != "plan as Markdown in 1000 bytes: at least 1024 are needed" {
		t.Errorf("got %v", err)
	}
}

func TestBlocksAreShortenedBeforeTheyAreOmitted(t *testing.T) {
	var p plan.Plan
	for i := range 30 {
		s := plantest.Delete(i, fmt.Sprintf("label-%02d", i), plan.ReasonFailed, plan.Fact{Name: "error", Value: strings.Repeat("x", 200)})
		p.Steps = append(p.Steps, s)
	}
	text := markdownOf(t, p, 6000)
	if strings.Contains(text, "because") || !strings.Contains(text, "- delete node 0000000029 label-29 in vexxhost/main, cloud id 9a1b6c52-7f0e-4d9b-8b1e-000000000029 (failed)") {
		t.Errorf("got\n%s", text)
	}
}

// markdownHTML renders Markdown as a forge does before it removes unsafe HTML.
func markdownHTML(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	md := goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithRendererOptions(html.WithUnsafe()))
	testutil.Must(t, md.Convert([]byte(text), &b))
	return b.String()
}

var (
	htmlCode = regexp.MustCompile(`(?s)<code[^>]*>(.*?)</code>`)
	htmlTag  = regexp.MustCompile(`<[^>]*>`)
	ownTag   = regexp.MustCompile(`^</?(h3|table|thead|tbody|tr|th|td|details|summary|pre|p|strong)( style="text-align:right"| open| align="right")?>$`)
)

func TestForeignTextInMarkdownIsAlwaysCode(t *testing.T) {
	check := func(fail func(string, ...any), p plan.Plan, limit int) {
		page := markdownHTML(t, markdownOf(t, p, limit))
		for _, code := range htmlCode.FindAllStringSubmatch(page, -1) {
			if strings.Contains(code[1], "<") {
				fail("a tag in code: %s\nof\n%s", code[0], page)
			}
		}
		rest := htmlCode.ReplaceAllString(page, "")
		for _, tag := range htmlTag.FindAllString(rest, -1) {
			if !ownTag.MatchString(tag) {
				fail("%s in\n%s", tag, page)
			}
		}
		if words := htmlTag.ReplaceAllString(rest, " "); strings.ContainsAny(words, "@#[]`<>|\\") || strings.Contains(words, "evil") {
			fail("foreign text outside code: %q\nof\n%s", words, page)
		}
		if opened, closed := strings.Count(rest, "<details"), strings.Count(rest, "</details>"); opened != closed {
			fail("%d folds opened, %d closed in\n%s", opened, closed, page)
		}
	}
	check(t.Errorf, plantest.HostilePlan(), 0)
	check(t.Errorf, plantest.HostileNode(), 0)
	rapid.Check(t, func(r *rapid.T) {
		check(r.Fatalf, plantest.DrawPlan(r), rapid.IntRange(markdownLeast, 20_000).Draw(r, "limit"))
	})
}

func BenchmarkMarkdown(b *testing.B) {
	p := plantest.BigPlan(10_000)
	b.ReportAllocs()
	for b.Loop() {
		testutil.Must(b, Markdown(io.Discard, p, 0))
	}
}
