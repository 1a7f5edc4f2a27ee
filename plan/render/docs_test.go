package render

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/itchyny/gojq"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/plan/plantest"
)

// docsPart compares the text between <!-- name --> and <!-- /name --> in a page with want.
func docsPart(t *testing.T, page, name, want string) {
	t.Helper()
	content := testutil.ReadFile(t, page)
	open, shut := "<!-- "+name+" -->\n", "<!-- /"+name+" -->"
	before, rest, found := strings.Cut(content, open)
	got, after, ended := strings.Cut(rest, shut)
	if !found || !ended {
		t.Fatalf("%s has no part between %q and %q", page, open, shut)
	}
	if got == want {
		return
	}
	if !*updateGolden {
		t.Errorf("%s is out of date; update it with go test ./plan/render -update\ngot:\n%s\nwant:\n%s", page, got, want)
		return
	}
	testutil.Must(t, os.WriteFile(page, []byte(before+open+want+shut+after), 0o644))
}

func TestSampleInReadingPlansIsCurrent(t *testing.T) {
	sample := "\n```text\n" + textOf(t, plantest.Plan(), TextOptions{Now: plantest.Now, Width: 118}) + "```\n\n"
	docsPart(t, "../../docs/reading-plans.md", "sample", sample)
}

func TestEveryReasonIsDocumented(t *testing.T) {
	table := "\n| code | why |\n| --- | --- |\n"
	for _, r := range plan.Reasons() {
		table += fmt.Sprintf("| `%s` | %s |\n", r, r.Text())
	}
	docsPart(t, "../../docs/plan-json.md", "reasons", table+"\n")
}

// TestPolicyInDocs runs the policy of docs/plan-json.md.
func TestPolicyInDocs(t *testing.T) {
	page := testutil.ReadFile(t, "../../docs/plan-json.md")
	_, rest, _ := strings.Cut(page, "<!-- policy -->\n\n```jq\n")
	program, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("docs/plan-json.md has no policy")
	}
	query, err := gojq.Parse(program)
	testutil.Must(t, err)
	for flavor, want := range map[string]string{`"medium"`: "", `"large"`: "provider.vexxhost.pool.main.label.small: flavor large, image diskimage.debian"} {
		launch := plantest.Launch("small", 1)
		launch.Values = map[string]string{"flavor": flavor, "image": `"diskimage.debian"`}
		var report any
		testutil.Must(t, json.Unmarshal(reportJSON(t, plan.Plan{Steps: []plan.Step{launch}}), &report))
		var got []string
		for iter := query.Run(report); ; {
			value, more := iter.Next()
			if !more {
				break
			}
			if err, failed := value.(error); failed {
				t.Fatal(err)
			}
			got = append(got, value.(string))
		}
		if strings.Join(got, "\n") != want {
			t.Errorf("flavor %s: the policy says %q, want %q", flavor, got, want)
		}
	}
}

// TestMoveInReadingPlansIsCurrent prints the plan that package plan computes in TestMoveNamesPoolOfSuccessor.
func TestMoveInReadingPlansIsCurrent(t *testing.T) {
	content, err := os.ReadFile("../testdata/move.json")
	testutil.Must(t, err)
	var p plan.Plan
	testutil.Must(t, json.Unmarshal(content, &p))
	text, markdown := textOf(t, p, TextOptions{Width: 118}), markdownOf(t, p, 0)
	for _, want := range []string{"move node 0000000001 small from west/main (medium) to east/main (small)",
		"delete node 0000000001 small in west/main, cloud id server-0000000001, moved to east/main (small)"} {
		if !strings.Contains(text, want) || !strings.Contains(markdown, want) {
			t.Errorf("text and Markdown lack %q:\n%s\n%s", want, text, markdown)
		}
	}
	for _, not := range []string{"large", "replacement", "replace node"} {
		if strings.Contains(text, not) || strings.Contains(markdown, not) {
			t.Errorf("text or Markdown has %q:\n%s\n%s", not, text, markdown)
		}
	}
	docsPart(t, "../../docs/reading-plans.md", "move", "\n```text\n"+text+"```\n\n")
}
