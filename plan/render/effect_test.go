package render

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/plan/plantest"
	"github.com/npctl/npctl/resources"
)

// sampleEffect has every part of an effect.
func sampleEffect() plan.Effect {
	p := plantest.Plan()
	at := func(line int) resources.Source { return resources.Source{File: "main.hcl", Line: line} }
	launch := plantest.Launch("debian-small", 0)
	launch.Changes = []plan.Change{{Attribute: "flavor", Before: `"small"`, After: `"large"`}}
	return plan.Effect{Against: "HEAD^1", Common: 7, Differences: []resources.Difference{
		{Address: "diskimage.debian", Attribute: plan.InputFiles, After: "files/motd (changed)", Class: "replacing", Source: at(3)},
		{Address: "label.debian-small", Attribute: "min_ready", Before: "1", After: "2", Class: "in place", Source: at(9)},
		{Address: "label.new", Block: resources.BlockAdded, Source: at(12)},
		{Address: "provider.old", Block: resources.BlockRemoved, Source: at(20)},
		{Address: "provider.vexxhost.pool.main", Attribute: "max_servers", Before: "5", Class: "in place", Source: at(30)},
	}, Added: p.Steps, Dropped: []plan.Step{plantest.Upload("debian", "ovh", 3)}, Altered: []plan.Step{launch},
		Problems: p.Problems, CommonProblems: []plan.Problem{{Text: "x"}}, Notes: p.Notes, Deferred: p.Deferred}
}

func effectText(t testing.TB, e plan.Effect, o TextOptions) string {
	t.Helper()
	var b strings.Builder
	testutil.Must(t, EffectText(&b, e, o))
	return b.String()
}

func effectMarkdownOf(t testing.TB, e plan.Effect, limit int) string {
	t.Helper()
	var b strings.Builder
	testutil.Must(t, EffectMarkdown(&b, e, limit))
	return b.String()
}

func TestEffectGolden(t *testing.T) {
	checkGolden(t, "effect.txt", effectText(t, sampleEffect(), TextOptions{}))
	checkGolden(t, "effect-80.txt", effectText(t, sampleEffect(), TextOptions{Width: 80}))
	checkGolden(t, "effect.md", effectMarkdownOf(t, sampleEffect(), 0))
}

func TestEmptyEffectIsOneLine(t *testing.T) {
	for _, c := range []struct {
		effect plan.Effect
		want   string
	}{
		{plan.Effect{}, "No effect.\n"},
		{plan.Effect{Common: 2}, "(2 steps that are due with and without the change hidden)\n\nNo effect.\n"},
		{plan.Effect{Deferred: []string{"ovh"}}, "Skipped, because they could not be listed\n  provider.ovh\n\nNo known effect; 1 provider could not be listed.\n"},
	} {
		if got := effectText(t, c.effect, TextOptions{}); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

// drawEffect draws an effect with hostile names.
func drawEffect(t *rapid.T) plan.Effect {
	p, q := plantest.DrawPlan(t), plantest.DrawPlan(t)
	e := plan.Effect{Added: p.Steps, Dropped: q.Steps, Altered: q.Steps, Notes: p.Notes, Problems: p.Problems, Deferred: p.Deferred, Common: len(q.Notes)}
	for range rapid.IntRange(0, 30).Draw(t, "differences") {
		e.Differences = append(e.Differences, resources.Difference{Address: rapid.String().Draw(t, "address"), Attribute: rapid.String().Draw(t, "attribute"),
			Before: rapid.SampledFrom([]string{"", "```\n@all <b>", "\x1b[31m", "|"}).Draw(t, "before"), After: rapid.String().Draw(t, "after")})
	}
	return e
}

func TestEffectInMarkdownNeverExceedsTheLimit(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		e := drawEffect(r)
		limit := rapid.IntRange(effectLeast, 20_000).Draw(r, "limit")
		text := effectMarkdownOf(t, e, limit)
		if len(text) > limit {
			r.Fatalf("%d bytes, limit %d:\n%s", len(text), limit, text)
		}
		if !strings.HasPrefix(text, "### "+e.String()+"\n") || !strings.HasSuffix(text, "\n"+e.String()+"\n") {
			r.Fatalf("no summary at both ends of\n%s", text)
		}
	})
	if err := EffectMarkdown(&strings.Builder{}, plan.Effect{}, 1000); err == nil || err.Error() != "effect as Markdown in 1000 bytes: at least 2048 are needed" {
		t.Errorf("got %v", err)
	}
}

func TestReportsOfEffectsMatchSchema(t *testing.T) {
	schema := reportSchema(t, "")
	check := func(e plan.Effect) error {
		report, err := EffectReport(plantest.Plan(), plantest.Meta(), e)
		testutil.Must(t, err)
		if bytes.ContainsRune(report, '\x1b') {
			t.Errorf("an escape character in %s", report)
		}
		return schemaCheck(schema, report)
	}
	testutil.Must(t, check(sampleEffect()))
	testutil.Must(t, check(plan.Effect{}))
	rapid.Check(t, func(r *rapid.T) { testutil.Must(r, check(drawEffect(r))) })
}
