package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"github.com/npctl/npctl/resources"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"
)

func sampleMeta() Meta {
	return Meta{NpctlVersion: "0.1.0", Lineage: "7d0f9f6e-3c1b-4b52-9d2c-1a1f6f0f8f11", Serial: 4711, Digest: "sha256:00ff",
		Created: sampleNow, Options: Options{Targets: []Address{"provider.vexxhost"}, AllowDestroy: AllowNodes}}
}

func renderReport(t testing.TB, p Plan) []byte {
	t.Helper()
	report, err := p.MarshalReport(sampleMeta())
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func TestReportGolden(t *testing.T) {
	var indented bytes.Buffer
	if err := json.Indent(&indented, renderReport(t, samplePlan()), "", "  "); err != nil {
		t.Fatal(err)
	}
	renderGolden(t, "report.json", indented.String())
}

// reportSchema compiles a strict version of the published schema: our reports must not have fields that it does not
// describe, although readers must ignore such fields.
func reportSchema(t *testing.T, pointer string) *jsonschema.Schema {
	t.Helper()
	file, err := os.Open("../docs/schemas/plan.json")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	doc, err := jsonschema.UnmarshalJSON(file)
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("plan.json", schemaClosed(doc)); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("plan.json" + pointer)
	if err != nil {
		t.Fatal(err)
	}
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
	for name, p := range map[string]Plan{"sample": samplePlan(), "empty": {}, "hostile": hostilePlan(), "every field": everyField(t)} {
		if err := schemaCheck(schema, renderReport(t, p)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, doc := range map[string]string{
		"no object":      `[]`,
		"no version":     strings.Replace(string(renderReport(t, Plan{})), `"format_version"`, `"version"`, 1),
		"another major":  strings.Replace(string(renderReport(t, Plan{})), `"format_version":"1.`, `"format_version":"2.`, 1),
		"unknown action": strings.Replace(string(renderReport(t, samplePlan())), `"action":"build"`, `"action":"bild"`, 1),
		"missing lists":  strings.Replace(string(renderReport(t, Plan{})), `"steps":[],`, ``, 1),
	} {
		if err := schemaCheck(schema, []byte(doc)); err == nil {
			t.Errorf("%s: the schema takes it: %s", name, doc)
		}
	}
}

// everyField is a plan in which each field of a step has a value, so that a new field is not forgotten here.
func everyField(t *testing.T) Plan {
	t.Helper()
	p := samplePlan()
	s := sampleReplace(1)[0]
	value := reflect.ValueOf(&s).Elem()
	for i := range value.NumField() {
		switch f := value.Field(i); {
		case !f.IsZero():
		case f.Kind() == reflect.String:
			f.SetString("x")
		case f.CanInt():
			f.SetInt(3)
		case f.CanFloat():
			f.SetFloat(1.5)
		case f.Kind() == reflect.Bool:
			f.SetBool(true)
		case f.Type() == reflect.TypeFor[[]string]():
			f.Set(reflect.ValueOf([]string{"x"}))
		case value.Type().Field(i).Name == "Files":
			s.Files = []FileChange{{"files/motd", FileChanged}}
		case value.Type().Field(i).Name == "Declined":
			s.Declined = []resources.Decline{{Provider: "one", Pool: "main", Reason: "x"}}
		case value.Type().Field(i).Name == "Values":
			s.Values = map[string]string{"flavor": `"small"`, "networks": `["private"]`, "volume_size": "80"}
		case value.Type().Field(i).Name == "Move":
			s.Move = &Move{Node: "0000000001", From: NodePlacement{"west", "main", "large"}, To: NodePlacement{"east", "main", "small"}}
		case value.Type().Field(i).Name == "Source":
			s.Source = sampleSource(3)
		default:
			t.Fatalf("give %s a value here", value.Type().Field(i).Name)
		}
	}
	p.Steps = append(p.Steps, s)
	return p
}

func TestReportContainsEveryFieldOfAStep(t *testing.T) {
	p := everyField(t)
	got, meta, err := UnmarshalReport(renderReport(t, p))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(sampleMeta(), meta); diff != "" {
		t.Errorf("meta (-want +got):\n%s", diff)
	}
}

func TestReportRoundTrips(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := anyPlan(r)
		report := renderReport(t, p)
		for _, c := range string(report[:len(report)-1]) {
			if renderHostile(c) {
				r.Fatalf("%q in %s", c, report)
			}
		}
		got, _, err := UnmarshalReport(report)
		if err != nil {
			r.Fatal(err)
		}
		if diff := cmp.Diff(p, got, cmpopts.EquateEmpty()); diff != "" {
			r.Fatalf("-want +got:\n%s", diff)
		}
		if again := renderReport(t, got); !bytes.Equal(report, again) {
			r.Fatalf("second report differs:\n%s\n%s", report, again)
		}
	})
}

func TestReportStatesWhetherPlanIsApplicable(t *testing.T) {
	for _, c := range []struct {
		name string
		plan Plan
		want [3]bool // applyable, complete, errored
	}{
		{"nothing to do", Plan{}, [3]bool{false, true, false}},
		{"steps", Plan{Steps: []Step{sampleLaunch("a", 0)}}, [3]bool{true, true, false}},
		{"a provider left alone", Plan{Deferred: []string{"ovh"}}, [3]bool{false, false, false}},
		{"problems", Plan{Problems: []Problem{{Text: "x"}}}, [3]bool{false, false, true}},
	} {
		var doc struct{ Applyable, Complete, Errored bool }
		if err := json.Unmarshal(renderReport(t, c.plan), &doc); err != nil {
			t.Fatal(err)
		}
		if got := [3]bool{doc.Applyable, doc.Complete, doc.Errored}; got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

func TestForeignReportIsRejected(t *testing.T) {
	for _, doc := range []string{``, `{}`, `[]`, `{"format_version":1}`, `{"format_version":"2.0","npctl_version":"9.0.0"}`, `{"format_version":"x"}`} {
		if _, _, err := UnmarshalReport([]byte(doc)); !errors.Is(err, ErrReport) {
			t.Errorf("%q: got %v, want %v", doc, err, ErrReport)
		}
	}
	newer := `{"format_version":"1.7","npctl_version":"0.9.0","invented_later":true,"steps":[{"id":"a","action":"launch","invented_later":1}]}`
	if p, _, err := UnmarshalReport([]byte(newer)); err != nil || len(p.Steps) != 1 {
		t.Errorf("a report with additions: got %d steps and %v", len(p.Steps), err)
	}
}

func BenchmarkReport(b *testing.B) {
	p := bigPlan(10_000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.MarshalReport(sampleMeta()); err != nil {
			b.Fatal(err)
		}
	}
}
