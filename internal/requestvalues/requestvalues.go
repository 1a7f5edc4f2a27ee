// Package requestvalues fills placeholders such as {request.tenant_name} with the values of a request.
package requestvalues

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"

	plaintext "github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/resources"
)

// values are the values of the placeholders by name; all are empty without a request.
func values(r *resources.Request) map[string]string {
	v := map[string]string{"id": "", "labels": "", "requestor": "", "requestor_data": "", "relative_priority": "", "event_id": "", "created_time": "", "tenant_name": ""}
	if r == nil {
		return v
	}
	v["id"], v["labels"], v["requestor"], v["event_id"], v["tenant_name"] = r.ID, strings.Join(r.Labels, ","), r.Requestor, r.EventID, r.Tenant
	v["relative_priority"] = strconv.FormatInt(r.RelativePriority, 10)
	if !r.Created.IsZero() {
		v["created_time"] = strconv.FormatInt(r.Created.Unix(), 10)
	}
	v["requestor_data"] = string(r.Data)
	var text string
	if len(r.Data) > 0 && json.Unmarshal(r.Data, &text) == nil {
		v["requestor_data"] = text
	}
	return v
}

// parts matches the parts of a template that are not literal text.
var parts = regexp.MustCompile(`\{\{|\}\}|\{[^{}]*\}|[{}]`)

// prefix starts the name of each placeholder.
const prefix = "request."

// Fill replaces the placeholders in a template that Check accepts, and {{ and }} by single braces. Without a request
// placeholders are empty.
func Fill(template string, r *resources.Request) string {
	all := values(r)
	return parts.ReplaceAllStringFunc(template, func(part string) string {
		if part == "{{" || part == "}}" {
			return part[:1]
		}
		return all[strings.TrimPrefix(strings.Trim(part, "{}"), prefix)]
	})
}

// Check returns an error if a template contains an unknown placeholder or a single brace.
func Check(template string) error {
	names := make([]string, 0, 8)
	for _, name := range slices.Sorted(maps.Keys(values(nil))) {
		names = append(names, "{"+prefix+name+"}")
	}
	for _, part := range parts.FindAllString(template, -1) {
		switch {
		case slices.Contains(names, part) || part == "{{" || part == "}}":
		case len(part) == 1:
			return fmt.Errorf("a single %s; write %s%s for a brace that is no placeholder", part, part, part)
		default:
			hint := "valid placeholders: " + plaintext.And(names)
			if near := plaintext.Nearest(part, names); near != "" {
				hint = "did you mean " + near + "?"
			}
			return fmt.Errorf("unknown placeholder %s; %s", part, hint)
		}
	}
	return nil
}

// CheckMap returns the check of an attribute request_properties. names checks the map by the rules of the cloud.
func CheckMap(names func(cty.Value) error) func(cty.Value) error {
	return func(v cty.Value) error {
		if err := names(v); err != nil {
			return err
		}
		return checkValues(v)
	}
}

// checkValues is Check for each value of a map; the error names its key.
func checkValues(v cty.Value) error {
	for key, value := range v.AsValueMap() {
		if value.IsNull() || !value.IsKnown() {
			continue
		}
		if err := Check(value.AsString()); err != nil {
			return fmt.Errorf("property %q: %w", key, err)
		}
	}
	return nil
}
