package requestvalues

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/resources"
)

func TestPlaceholdersHaveTheValuesOfTheRequest(t *testing.T) {
	r := &resources.Request{ID: "100-0000000007", Labels: []string{"small", "large"}, Requestor: "zuul", RelativePriority: 3, EventID: "e-1",
		Tenant: "acme", Created: time.Unix(1700000000, 5e8), Data: json.RawMessage(`{"job": "unit {request.id}"}`)}
	for template, want := range map[string]string{
		"{request.id}":                                 "100-0000000007",
		"{request.labels}":                             "small,large",
		"{request.requestor}":                          "zuul",
		"{request.requestor_data}":                     `{"job": "unit {request.id}"}`, // values are not templates
		"{request.relative_priority}":                  "3",
		"{request.event_id}":                           "e-1",
		"{request.created_time}":                       "1700000000",
		"for {request.tenant_name}/{request.id}, {{}}": "for acme/100-0000000007, {}",
		"{{request.id}}":                               "{request.id}",
		"fixed":                                        "fixed",
		"":                                             "",
	} {
		if err := Check(template); err != nil {
			t.Errorf("%q: %v", template, err)
		}
		if got := Fill(template, r); got != want {
			t.Errorf("%q: got %q, want %q", template, got, want)
		}
	}
	r.Data = json.RawMessage(`"plain"`)
	if got := Fill("{request.requestor_data}", r); got != "plain" {
		t.Errorf("a JSON string as requestor data: got %q", got)
	}
}

func TestPlaceholdersAreEmptyWithoutRequest(t *testing.T) {
	for name := range values(nil) {
		if got := Fill("a{request."+name+"}b", nil); got != "ab" {
			t.Errorf("%s: got %q", name, got)
		}
		if got := values(&resources.Request{})[name]; name != "relative_priority" && got != "" {
			t.Errorf("%s of an empty request: got %q", name, got)
		}
	}
}

func TestInvalidTemplatesAreRejected(t *testing.T) {
	for template, want := range map[string]string{
		"{request.tenant}":      "unknown placeholder {request.tenant}; valid placeholders: {request.created_time}",
		"{request.tenant_nane}": "did you mean {request.tenant_name}?",
		"{request.ID}":          "did you mean {request.id}?",
		"{tenant_name}":         "unknown placeholder {tenant_name}",
		"{request.labels[0]}":   "unknown placeholder {request.labels[0]}",
		"{}":                    "unknown placeholder {}",
		"{request.id":           "a single {; write {{",
		"request.id}":           "a single }; write }}",
		"{{request.id}":         "a single }",
	} {
		if err := Check(template); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", template, err, want)
		}
	}
}
