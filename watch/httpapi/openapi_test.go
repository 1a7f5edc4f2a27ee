package httpapi_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/watch"
)

// described is the part of the OpenAPI description that the test reads.
type described struct {
	OpenAPI string `json:"openapi"`
	Paths   map[string]map[string]struct {
		OperationID string         `json:"operationId"`
		Summary     string         `json:"summary"`
		RequestBody map[string]any `json:"requestBody"`
		Responses   map[string]struct {
			Description string                    `json:"description"`
			Content     map[string]map[string]any `json:"content"`
		} `json:"responses"`
	} `json:"paths"`
	Components struct {
		Schemas map[string]map[string]any `json:"schemas"`
	} `json:"components"`
}

// strict makes a schema reject unknown members, so that the description must name every member.
func strict(schema map[string]any) {
	if properties, ok := schema["properties"].(map[string]any); ok {
		schema["additionalProperties"] = false
		for _, p := range properties {
			if inner, ok := p.(map[string]any); ok {
				strict(inner)
			}
		}
	}
	if items, ok := schema["items"].(map[string]any); ok {
		strict(items)
	}
}

func (l *lab) description() (text string, doc described) {
	l.t.Helper()
	status, _, text := l.raw("GET", "/openapi.json", "")
	if status != http.StatusOK {
		l.t.Fatalf("description: %d", status)
	}
	unmarshal(l.t, text, &doc)
	return text, doc
}

// checker returns a function that validates responses against the description.
func checker(t *testing.T, text string) func(schema map[string]any, answer string) error {
	t.Helper()
	var whole map[string]any
	unmarshal(t, text, &whole)
	for _, s := range whole["components"].(map[string]any)["schemas"].(map[string]any) {
		strict(s.(map[string]any))
	}
	return func(schema map[string]any, answer string) error {
		compiler := jsonschema.NewCompiler()
		compiler.DefaultDraft(jsonschema.Draft2020)
		compiler.AssertFormat()
		inner, err := json.Marshal(schema)
		if err != nil {
			return err
		}
		var pointed any
		_ = json.Unmarshal([]byte(strings.ReplaceAll(string(inner), `"#/`, `"api.json#/`)), &pointed)
		if err := compiler.AddResource("api.json", whole); err != nil {
			return err
		}
		if err := compiler.AddResource("answer.json", pointed); err != nil {
			return err
		}
		compiled, err := compiler.Compile("answer.json")
		if err != nil {
			return err
		}
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(answer))
		if err != nil {
			return fmt.Errorf("%w: %.200s", err, answer)
		}
		return compiled.Validate(value)
	}
}

// TestResponsesMatchTheDescription makes every described call and validates the responses against the description.
func TestResponsesMatchTheDescription(t *testing.T) {
	t.Parallel()
	l := newLab(t, fleet, nil)
	l.await("the daemon is ready", func() bool { ready, err := l.Ready(t.Context()); return ready && err == nil })
	text, doc := l.description()
	valid := checker(t, text)
	if valid(map[string]any{"$ref": "#/components/schemas/Health"}, `{"status":"ok","undescribed":1}`) == nil {
		t.Fatal("a member that is not described is let through, so this test finds nothing")
	}
	servers, metal := l.taken(0, "small", "small"), l.taken(60e9, "metal")[0]
	small, other := servers[0], servers[1]
	called := map[string]bool{}
	call := func(method, template, path, body string, want int, header ...string) string {
		t.Helper()
		operation, ok := doc.Paths[template][strings.ToLower(method)]
		if !ok {
			t.Fatalf("%s %s is not described", method, template)
		}
		called[method+" "+template] = true
		status, got, answer := l.raw(method, path, body, header...)
		if status != want {
			t.Errorf("%s %s: %d %s, want %d", method, path, status, answer, want)
			return answer
		}
		told, ok := operation.Responses[fmt.Sprint(status)]
		if !ok && status >= http.StatusBadRequest {
			told, ok = operation.Responses["default"]
		}
		if !ok {
			t.Errorf("%s %s: an answer with %d is not described", method, path, status)
		}
		media, _, _ := strings.Cut(got.Get("Content-Type"), ";")
		content := told.Content[media]
		switch {
		case len(told.Content) == 0:
			if answer != "" {
				t.Errorf("%s %s: it says %s, and nothing is described", method, path, answer)
			}
		case content == nil:
			t.Errorf("%s %s: media type %q is not described", method, path, media)
		case media == "application/json":
			if err := valid(content["schema"].(map[string]any), answer); err != nil {
				t.Errorf("%s %s: %v\n%s", method, path, err, answer)
			}
		}
		return answer
	}
	for _, path := range []string{"/livez", "/readyz", "/openapi.json", "/v1/status", "/v1/requests", "/v1/nodes", "/v1/labels", "/v1/images", "/v1/providers",
		"/v1/plan", "/v1/snapshot", "/v1/steps", "/v1/events"} {
		call("GET", path, path, "", 200)
	}
	call("GET", "/metrics", "/metrics", "", 200)
	for _, subject := range []string{"label/small", "image/debian", "provider/one", "node/" + small.ID} {
		call("GET", "/v1/why", "/v1/why?subject="+subject, "", 200)
	}
	call("GET", "/v1/audit", "/v1/audit?limit=5", "", 200)
	call("GET", "/v1/labels/{id}", "/v1/labels/metal", "", 200)
	call("GET", "/v1/images/{id}", "/v1/images/debian", "", 200)
	call("POST", "/v1/images/{id}/pause", "/v1/images/debian/pause", `{"reason":"test"}`, 200)
	call("POST", "/v1/images/{id}/unpause", "/v1/images/debian/unpause", "", 200)
	call("GET", "/v1/providers/{id}", "/v1/providers/one", "", 200)
	call("POST", "/v1/providers/{id}/freeze", "/v1/providers/one/freeze", "", 200)
	call("POST", "/v1/providers/{id}/thaw", "/v1/providers/one/thaw", "", 200)
	var made wire.Request
	unmarshal(t, call("POST", "/v1/requests", "/v1/requests?wait=10s", `{"labels":["metal"],"requestor":"me","tenant":"t","event_id":"e","data":{"a":[1]},"deadline":"2099-01-01T00:00:00Z"}`, 201), &made)
	call("GET", "/v1/requests/{id}", "/v1/requests/"+made.ID+"?wait=10s", "", 200)
	call("GET", "/v1/why", "/v1/why?subject=request/"+made.ID, "", 200)
	call("POST", "/v1/requests/{id}/take", "/v1/requests/"+made.ID+"/take", `{"holder":"me"}`, 200)
	unmarshal(t, call("POST", "/v1/requests", "/v1/requests", `{"labels":["small"]}`, 201), &made)
	call("DELETE", "/v1/requests/{id}", "/v1/requests/"+made.ID, "", 204)
	call("GET", "/v1/nodes/{id}", "/v1/nodes/"+metal.ID+"?wait=1s&state=in-use", "", 200)
	call("GET", "/v1/nodes/{id}/access", "/v1/nodes/"+metal.ID+"/access?holder=tester", "", 409) // its driver issues no credentials
	call("POST", "/v1/nodes/{id}/renew", "/v1/nodes/"+metal.ID+"/renew", `{"holder":"tester"}`, 200)
	call("POST", "/v1/nodes/{id}/hold", "/v1/nodes/"+metal.ID+"/hold", `{"reason":"look","until":"2099-01-01T00:00:00Z"}`, 200)
	call("POST", "/v1/nodes/{id}/release", "/v1/nodes/"+metal.ID+"/release", "", 200)
	call("POST", "/v1/nodes/{id}/return", "/v1/nodes/"+small.ID+"/return", "", 200)
	call("DELETE", "/v1/nodes/{id}", "/v1/nodes/"+other.ID+"?force=true&reason=test", "", 200)
	call("POST", "/v1/reload", "/v1/reload", `{"allow_destroy":false}`, 200)
	for path, methods := range doc.Paths {
		for method, operation := range methods {
			if !called[strings.ToUpper(method)+" "+path] {
				t.Errorf("%s %s is described, and this test does not call it", method, path)
			}
			if operation.Summary == "" || operation.OperationID == "" || operation.Responses["default"].Content == nil && !strings.Contains(text, "#/components/responses/Problem") {
				t.Errorf("%s %s is described incompletely", method, path)
			}
		}
	}
	for _, path := range []string{"/v1/nodes/none", "/v1/nodes?x=1", "/nowhere"} {
		_, _, answer := l.raw("GET", path, "")
		if err := valid(map[string]any{"$ref": "#/components/schemas/Problem"}, answer); err != nil {
			t.Errorf("%s: %v\n%s", path, err, answer)
		}
	}
}

// TestDescriptionIsValid validates the description against the schema that the OpenAPI Initiative publishes for
// version 3.1.
func TestDescriptionIsValid(t *testing.T) {
	l := newLab(t, fleet, nil)
	text, doc := l.description()
	file, err := os.Open("testdata/openapi-3.1.schema.json")
	testutil.Must(t, err)
	defer file.Close()
	schema, err := jsonschema.UnmarshalJSON(file)
	testutil.Must(t, err)
	compiler := jsonschema.NewCompiler()
	testutil.Must(t, compiler.AddResource("openapi.json", schema))
	compiled, err := compiler.Compile("openapi.json")
	testutil.Must(t, err)
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	testutil.Must(t, err)
	if err := compiled.Validate(value); err != nil {
		t.Error(err)
	}
	ids := map[string]string{}
	for path, methods := range doc.Paths {
		for method, operation := range methods {
			if other := ids[operation.OperationID]; other != "" {
				t.Errorf("%s %s and %s have the same operationId", method, path, other)
			}
			ids[operation.OperationID] = method + " " + path
			if strings.Contains(path, "/store") {
				t.Errorf("%s is described", path)
			}
		}
	}
	for name, s := range doc.Components.Schemas {
		if !strings.Contains(text, `"#/components/schemas/`+name+`"`) {
			t.Errorf("schema %s is used nowhere: %v", name, slices.Sorted(maps.Keys(s)))
		}
	}
}

// TestRequestBodyMatchesTheDaemonsType checks that wire.NewRequest and watch.NewRequest have the same fields.
func TestRequestBodyMatchesTheDaemonsType(t *testing.T) {
	names := func(typ reflect.Type) (list []string) {
		for i := range typ.NumField() {
			list = append(list, typ.Field(i).Name+" "+typ.Field(i).Tag.Get("json"))
		}
		return list
	}
	if diff := cmp.Diff(names(reflect.TypeFor[watch.NewRequest]()), names(reflect.TypeFor[wire.NewRequest]())); diff != "" {
		t.Error(diff)
	}
}

// TestDescriptionContainsLimits sends documents at and beyond the limits. The daemon must reject exactly the
// documents that the description does not allow.
func TestDescriptionContainsLimits(t *testing.T) {
	t.Parallel()
	l := newLab(t, fleet, nil)
	text, doc := l.description()
	check := checker(t, text)
	long := strings.Repeat("ä", 1024)
	for _, c := range []struct{ path, schema, send string }{
		{"/v1/requests", "NewRequest", `{"labels":["small"]}`},
		{"/v1/requests", "NewRequest", `{"labels":[]}`},
		{"/v1/requests", "NewRequest", `{"labels":[""]}`},
		{"/v1/requests", "NewRequest", `{"labels":["small"` + strings.Repeat(`,"small"`, 99) + `]}`},
		{"/v1/requests", "NewRequest", `{"labels":["small"` + strings.Repeat(`,"small"`, 100) + `]}`},
		{"/v1/requests", "NewRequest", `{"labels":["small"],"priority":1}`},
		{"/v1/requests", "NewRequest", `{"labels":["small"],"priority":0}`},
		{"/v1/requests", "NewRequest", `{"labels":["small"],"priority":999}`},
		{"/v1/requests", "NewRequest", `{"labels":["small"],"priority":1000}`},
		{"/v1/requests", "NewRequest", `{"labels":["small"],"requestor":"` + long + `"}`},
		{"/v1/requests", "NewRequest", `{"labels":["small"],"requestor":"` + long + `x"}`},
		{"/v1/requests", "NewRequest", `{"labels":["small"],"tenant":"` + long + `x"}`},
		{"/v1/requests", "NewRequest", `{"labels":["small"],"event_id":"` + long + `x"}`},
		{"/v1/requests", "NewRequest", `{"labels":["small"],"provider":"` + long + `x"}`},
		{"/v1/requests/0/take", "Take", `{"holder":"` + long + `"}`},
		{"/v1/requests/0/take", "Take", `{"holder":"` + long + `x"}`},
		{"/v1/requests/0/take", "Take", `{"lease_seconds":86400}`},
		{"/v1/requests/0/take", "Take", `{"lease_seconds":86401}`},
		{"/v1/requests/0/take", "Take", `{"lease_seconds":5}`},
		{"/v1/requests/0/take", "Take", `{"lease_seconds":4}`},
		{"/v1/requests/0/take", "Take", `{"lease_seconds":0}`},
		{"/v1/requests/0/take", "Take", `{"lease_seconds":-1}`},
		{"/v1/requests/0/take", "Take", `{"holder":null}`},
		{"/v1/requests", "NewRequest", `{"labels":null}`},
		{"/v1/requests", "NewRequest", `{"labels":["small"],"deadline":null,"priority":null}`},
		{"/v1/nodes/0/hold", "Hold", `{"until":null}`},
		{"/v1/nodes/0/hold", "Hold", `{"reason":"` + long + `"}`},
		{"/v1/nodes/0/hold", "Hold", `{"reason":"` + long + `x"}`},
		{"/v1/images/none/pause", "Pause", `{"reason":"` + long + `x"}`},
	} {
		valid := check(map[string]any{"$ref": "#/components/schemas/" + c.schema}, c.send) == nil
		if status, _, answer := l.raw("POST", c.path, c.send); (status != http.StatusBadRequest) != valid {
			t.Errorf("POST %s %.80s: the description allows it: %v, and the answer is %d %s", c.path, c.send, valid, status, answer)
		}
		if doc.Components.Schemas[c.schema]["additionalProperties"] != false {
			t.Errorf("the description of %s allows members that are refused", c.schema)
		}
	}
	for path, want := range map[string]int{"/v1/why?subject=node/x": http.StatusNotFound, "/v1/why": http.StatusBadRequest, "/v1/requests?limit=-1": http.StatusBadRequest,
		"/v1/requests?limit=2147483647": http.StatusOK, "/v1/requests?limit=2147483648": http.StatusBadRequest} {
		if status, _, answer := l.raw("GET", path, ""); status != want {
			t.Errorf("GET %s: %d %s, want %d", path, status, answer, want)
		}
	}
}
