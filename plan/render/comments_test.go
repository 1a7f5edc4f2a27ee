package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

func inProject(file string) (string, bool) { return "ci/" + file, file == "main.hcl" }

func TestZuulReturnGolden(t *testing.T) {
	e := sampleEffect()
	e.Problems = append(e.Problems, plan.Problem{Text: "no place"}, plan.Problem{Address: "provider.x", Text: "elsewhere", Source: resources.Source{File: "other.hcl", Line: 3}})
	out, err := ZuulReturn(e, inProject)
	testutil.Must(t, err)
	var indented bytes.Buffer
	testutil.Must(t, json.Indent(&indented, out, "", "  "))
	checkGolden(t, "zuul-return.json", indented.String())
}

// Zuul drops all comments of a build for one key that it does not know, and Gerrit rejects a review for one comment that is too long.
func TestZuulReturnHasOnlyValidComments(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		e := drawEffect(r)
		for i := range e.Differences {
			e.Differences[i].Source = resources.Source{File: rapid.SampledFrom([]string{"", "main.hcl", "other.hcl"}).Draw(r, "file"), Line: 1 + i%9}
		}
		out, err := ZuulReturn(e, inProject)
		testutil.Must(r, err)
		var doc map[string]map[string]json.RawMessage
		testutil.Must(r, json.Unmarshal(out, &doc))
		var comments map[string][]map[string]any
		testutil.Must(r, json.Unmarshal(doc["zuul"]["file_comments"], &comments))
		for path, list := range comments {
			if path != "ci/main.hcl" || len(list) > commentLimit {
				r.Fatalf("%d comments in %s", len(list), path)
			}
			for _, c := range list {
				message, _ := c["message"].(string)
				if _, isLine := c["line"].(float64); len(c) != 3 || !isLine || message == "" || len(message) > commentLength+100 || strings.ContainsFunc(strings.ReplaceAll(message, "\n", ""), text.Hostile) {
					r.Fatalf("comment %v", c)
				}
			}
		}
	})
}

func TestMostImportantCommentsStay(t *testing.T) {
	var e plan.Effect
	for i := range 80 {
		e.Differences = append(e.Differences, resources.Difference{Address: fmt.Sprint("label.l", i), Attribute: "min_ready", After: "1", Class: "in place", Source: resources.Source{File: "main.hcl", Line: 10 + i}})
	}
	e.Problems = []plan.Problem{{Address: "label.z", Text: "wrong", Source: resources.Source{File: "main.hcl", Line: 900}}}
	out, err := ZuulReturn(e, inProject)
	testutil.Must(t, err)
	if n := strings.Count(string(out), `"line"`); n != commentLimit || !strings.Contains(string(out), `"line":900,"level":"error"`) || !strings.Contains(string(out), "31 more lines") {
		t.Errorf("%d comments: %s", n, out)
	}
}
