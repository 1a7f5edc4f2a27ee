package render

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/plan/plantest"
)

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
	checkGolden(t, "effect.txt", effectText(t, plantest.Effect(), TextOptions{}))
	checkGolden(t, "effect-80.txt", effectText(t, plantest.Effect(), TextOptions{Width: 80}))
	checkGolden(t, "effect.md", effectMarkdownOf(t, plantest.Effect(), 0))
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

func TestEffectInMarkdownNeverExceedsTheLimit(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		e := plantest.DrawEffect(r)
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
	testutil.Must(t, check(plantest.Effect()))
	testutil.Must(t, check(plan.Effect{}))
	rapid.Check(t, func(r *rapid.T) { testutil.Must(r, check(plantest.DrawEffect(r))) })
}
