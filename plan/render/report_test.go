package render

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/plan/plantest"
)

func reportJSON(t testing.TB, p plan.Plan) []byte {
	t.Helper()
	report, err := Report(p, plantest.Meta())
	testutil.Must(t, err)
	return report
}

func TestReportGolden(t *testing.T) {
	var indented bytes.Buffer
	testutil.Must(t, json.Indent(&indented, reportJSON(t, plantest.Plan()), "", "  "))
	checkGolden(t, "report.json", indented.String())
}

// reportSchema compiles a strict version of the published schema: our reports must not have fields that it does not
// describe, although readers must ignore such fields.
func reportSchema(t *testing.T, pointer string) *jsonschema.Schema {
	t.Helper()
	file, err := os.Open("../../docs/schemas/plan.json")
	testutil.Must(t, err)
	defer file.Close()
	doc, err := jsonschema.UnmarshalJSON(file)
	testutil.Must(t, err)
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	testutil.Must(t, c.AddResource("plan.json", schemaClosed(doc)))
	schema, err := c.Compile("plan.json" + pointer)
	testutil.Must(t, err)
	return schema
}

func schemaClosed(node any) any {
	switch n := node.(type) {
	case map[string]any:
		for key, value := range n {
			n[key] = schemaClosed(value)
		}
		if _, described := n["properties"].(map[string]any); described {
			n["additionalProperties"] = false
		}
	case []any:
		for i := range n {
			n[i] = schemaClosed(n[i])
		}
	}
	return node
}

func schemaCheck(schema *jsonschema.Schema, doc []byte) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(doc))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

func TestReportsMatchSchema(t *testing.T) {
	schema := reportSchema(t, "")
	for name, p := range map[string]plan.Plan{"sample": plantest.Plan(), "empty": {}, "hostile": plantest.HostilePlan(), "every field": plantest.EveryField(t)} {
		if err := schemaCheck(schema, reportJSON(t, p)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, doc := range map[string]string{
		"no object":      `[]`,
		"no version":     strings.Replace(string(reportJSON(t, plan.Plan{})), `"format_version"`, `"version"`, 1),
		"another major":  strings.Replace(string(reportJSON(t, plan.Plan{})), `"format_version":"1.`, `"format_version":"2.`, 1),
		"unknown action": strings.Replace(string(reportJSON(t, plantest.Plan())), `"action":"build"`, `"action":"bild"`, 1),
		"missing lists":  strings.Replace(string(reportJSON(t, plan.Plan{})), `"steps":[],`, ``, 1),
	} {
		if err := schemaCheck(schema, []byte(doc)); err == nil {
			t.Errorf("%s: the schema takes it: %s", name, doc)
		}
	}
}

func TestReportContainsEveryFieldOfAStep(t *testing.T) {
	p := plantest.EveryField(t)
	got, meta, err := parseReport(reportJSON(t, p))
	testutil.Must(t, err)
	if diff := cmp.Diff(p, got, cmpopts.EquateEmpty(), cmpopts.EquateComparable(plan.Kind{})); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(plantest.Meta(), meta); diff != "" {
		t.Errorf("meta (-want +got):\n%s", diff)
	}
}

func TestReportRoundTrips(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := plantest.DrawPlan(r)
		report := reportJSON(t, p)
		for _, c := range string(report[:len(report)-1]) {
			if text.Hostile(c) {
				r.Fatalf("%q in %s", c, report)
			}
		}
		got, _, err := parseReport(report)
		testutil.Must(r, err)
		if diff := cmp.Diff(p, got, cmpopts.EquateEmpty(), cmpopts.EquateComparable(plan.Kind{})); diff != "" {
			r.Fatalf("-want +got:\n%s", diff)
		}
		if again := reportJSON(t, got); !bytes.Equal(report, again) {
			r.Fatalf("second report differs:\n%s\n%s", report, again)
		}
	})
}

func TestReportStatesWhetherPlanIsApplicable(t *testing.T) {
	for _, c := range []struct {
		name string
		plan plan.Plan
		want [3]bool // applyable, complete, errored
	}{
		{"nothing to do", plan.Plan{}, [3]bool{false, true, false}},
		{"steps", plan.Plan{Steps: []plan.Step{plantest.Launch("a", 0)}}, [3]bool{true, true, false}},
		{"a provider left alone", plan.Plan{Deferred: []string{"ovh"}}, [3]bool{false, false, false}},
		{"problems", plan.Plan{Problems: []plan.Problem{{Text: "x"}}}, [3]bool{false, false, true}},
	} {
		var doc struct{ Applyable, Complete, Errored bool }
		testutil.Must(t, json.Unmarshal(reportJSON(t, c.plan), &doc))
		if got := [3]bool{doc.Applyable, doc.Complete, doc.Errored}; got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

func BenchmarkReport(b *testing.B) {
	p := plantest.BigPlan(10_000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Report(p, plantest.Meta()); err != nil {
			b.Fatal(err)
		}
	}
}
