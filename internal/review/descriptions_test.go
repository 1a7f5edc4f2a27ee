//go:build integration

package review

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/npctl/npctl/internal/testutil"
)

// description is a published description of an API, in OpenAPI 3 or Swagger 2.
type description struct {
	t      testing.TB
	prefix string // of the paths of requests that the description does not have
	doc    map[string]any
	schema *jsonschema.Compiler
	paths  map[string]*regexp.Regexp // by template
}

// readDescription reads the file that an environment variable names; test/review/run.sh fetches them.
func readDescription(t testing.TB, variable string) *description {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		t.Fatalf("set %s: test/review/run.sh does", variable)
	}
	d := &description{t: t, schema: jsonschema.NewCompiler(), paths: map[string]*regexp.Regexp{}}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(testutil.ReadFile(t, path)))
	testutil.Must(t, err)
	d.doc, _ = doc.(map[string]any)
	d.schema.DefaultDraft(jsonschema.Draft4)
	testutil.Must(t, d.schema.AddResource("description.json", doc))
	paths, _ := d.doc["paths"].(map[string]any)
	parameter := regexp.MustCompile(`\\\{[^}]*\\\}`)
	for template := range paths {
		d.paths[template] = regexp.MustCompile("^" + parameter.ReplaceAllString(regexp.QuoteMeta(template), "[^/]+") + "$")
	}
	return d
}

// check returns an error if a request is not in the description, has an unknown parameter, or has a body that does not match.
func (d *description) check(r request) error {
	for template, pattern := range d.paths {
		if !pattern.MatchString(strings.TrimPrefix(r.path, d.prefix)) {
			continue
		}
		paths, _ := d.doc["paths"].(map[string]any)
		methods, _ := paths[template].(map[string]any)
		operation, ok := methods[strings.ToLower(r.method)].(map[string]any)
		if !ok {
			continue
		}
		return d.operation(template, operation, r)
	}
	return fmt.Errorf("%s %s is not in the description", r.method, r.path)
}

func (d *description) operation(template string, operation map[string]any, r request) error {
	known, bodyAt := map[string]bool{}, ""
	at := "description.json#/paths/" + strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(template) + "/" + strings.ToLower(r.method)
	parameters, _ := operation["parameters"].([]any)
	for i, p := range parameters {
		p := d.resolved(p)
		if p["in"] == "query" {
			known[fmt.Sprint(p["name"])] = true
		}
		if p["in"] == "body" {
			bodyAt = fmt.Sprintf("%s/parameters/%d/schema", at, i)
		}
	}
	if operation["requestBody"] != nil {
		bodyAt = at + "/requestBody/content/application~1json/schema"
	}
	for name := range r.query {
		if !known[name] {
			return fmt.Errorf("%s %s has no parameter %s", r.method, template, name)
		}
	}
	if (r.body != nil) != (bodyAt != "") {
		return fmt.Errorf("%s %s with the body %v", r.method, template, r.body)
	}
	if r.body == nil {
		return nil
	}
	schema, err := d.schema.Compile(bodyAt)
	if err != nil {
		return err
	}
	return schema.Validate(any(r.body))
}

// resolved returns a parameter, or the one that it refers to.
func (d *description) resolved(p any) map[string]any {
	parameter, _ := p.(map[string]any)
	ref, ok := parameter["$ref"].(string)
	if !ok {
		return parameter
	}
	found := any(d.doc)
	for part := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		step, _ := found.(map[string]any)
		found = step[part]
	}
	parameter, _ = found.(map[string]any)
	return parameter
}

// requestsOf returns the requests of first, equal and changed reports, with the most comments, of one kind.
func requestsOf(t *testing.T, names ...string) []request {
	t.Helper()
	var all []request
	for _, k := range kinds {
		for _, name := range names {
			if k.name != name {
				continue
			}
			d := newDouble(t)
			d.open(k)
			k.post(t, d, many(), Posted)
			k.post(t, d, many(), Unchanged)
			_, err := k.place(d.target()).Post(t.Context(), failing(sample()))
			testutil.Must(t, err)
			all = append(all, d.requests...)
		}
	}
	return all
}

func TestRequestsMatchTheDescriptionOfGitHub(t *testing.T) {
	d := readDescription(t, "NPCTL_TEST_OPENAPI_GITHUB")
	requests := requestsOf(t, "github check", "github comment")
	double := newDouble(t)
	target := double.target()
	target.Change = 0
	_, err := GitHub{Target: target, Head: "mallory:main"}.Post(t.Context(), sample())
	testutil.Must(t, err)
	d.mustMatch(append(requests, double.requests...), 9)

	// the check can fail: one annotation, one character and one key more
	bad := requests[1]
	if bad.method != http.MethodPost || bad.body["output"] == nil {
		t.Fatalf("the second request is %+v", bad)
	}
	output := bad.body["output"].(map[string]any)
	for name, change := range map[string]func(){
		"annotations": func() {
			output["annotations"] = append(output["annotations"].([]any), output["annotations"].([]any)[0])
		},
		"summary":    func() { output["summary"] = strings.Repeat("ä", 65_536) },
		"conclusion": func() { bad.body["conclusion"] = "good" },
	} {
		before, err := json.Marshal(bad.body)
		testutil.Must(t, err)
		change()
		if d.check(bad) == nil {
			t.Errorf("another value of %s matches", name)
		}
		testutil.Must(t, json.Unmarshal(before, &bad.body))
		output = bad.body["output"].(map[string]any)
	}
}

func TestRequestsMatchTheDescriptionOfGitea(t *testing.T) {
	d := readDescription(t, "NPCTL_TEST_OPENAPI_GITEA")
	d.mustMatch(requestsOf(t, "gitea"), 9)
}

func (d *description) mustMatch(requests []request, least int) {
	d.t.Helper()
	if len(requests) < least {
		d.t.Fatalf("%d requests", len(requests))
	}
	for _, r := range requests {
		if err := d.check(r); err != nil {
			d.t.Errorf("%s %s: %v", r.method, r.path, err)
		}
	}
}

func TestSARIFMatchesItsSchema(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile(os.Getenv("NPCTL_TEST_SARIF_SCHEMA"))
	testutil.Must(t, err)
	for name, r := range map[string]Report{"full": full(), "empty": {}, "many": many()} {
		out, err := SARIF(r)
		testutil.Must(t, err)
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(out)))
		testutil.Must(t, err)
		if err := schema.Validate(doc); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if strings.Contains(string(out), `"startLine":`) {
			doc, err = jsonschema.UnmarshalJSON(strings.NewReader(strings.Replace(string(out), `"startLine":`, `"startLine":-`, 1)))
			testutil.Must(t, err)
			if schema.Validate(doc) == nil {
				t.Error("the schema accepts a negative line")
			}
		}
	}
}
