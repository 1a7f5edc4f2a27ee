package plan

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// docsPart compares the text between <!-- name --> and <!-- /name --> in a page with want.
func docsPart(t *testing.T, page, name, want string) {
	t.Helper()
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	open, shut := "<!-- "+name+" -->\n", "<!-- /"+name+" -->"
	before, rest, found := strings.Cut(string(content), open)
	got, after, ended := strings.Cut(rest, shut)
	if !found || !ended {
		t.Fatalf("%s has no part between %q and %q", page, open, shut)
	}
	if got == want {
		return
	}
	if !*renderUpdate {
		t.Errorf("%s is out of date; update it with go test ./plan -update-render\ngot:\n%s\nwant:\n%s", page, got, want)
		return
	}
	if err := os.WriteFile(page, []byte(before+open+want+shut+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestSampleInReadingPlansIsCurrent(t *testing.T) {
	sample := "\n```text\n" + renderText(t, samplePlan(), TextOptions{Now: sampleNow, Width: 118}) + "```\n\n"
	docsPart(t, "../docs/reading-plans.md", "sample", sample)
}

func TestEveryReasonIsDocumented(t *testing.T) {
	table := "\n| code | why |\n| --- | --- |\n"
	for _, r := range slices.Sorted(maps.Keys(reasonTexts)) {
		table += fmt.Sprintf("| `%s` | %s |\n", r, r.Text())
	}
	docsPart(t, "../docs/plan-json.md", "reasons", table+"\n")
}
