package httpapi

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/watch/httpapi/wire"
)

// object is a JSON object of the OpenAPI description.
type object map[string]any

// describe generates the OpenAPI description from the route table and the response types, so that it is complete.
// Routes that need the role local are not described.
func (s *Server) describe() []byte {
	schemas := schemas{object{}}
	paths := object{}
	for i := range s.routes {
		r := &s.routes[i]
		if r.need == local {
			continue
		}
		at, _ := paths[r.path].(object)
		if at == nil {
			at = object{}
			paths[r.path] = at
		}
		at[strings.ToLower(r.method)] = r.describe(schemas)
	}
	problem := object{"description": "An error.", "content": object{wire.MediaProblem: object{"schema": schemas.of(reflect.TypeFor[wire.Problem]())}}}
	doc := object{
		"openapi": "3.1.0",
		"info": object{"title": "npctl", "version": wire.Version, "license": object{"name": "Apache-2.0", "identifier": "Apache-2.0"},
			"description": "Requests for CI test nodes, and the state of the npctl daemon. Within " + wire.Version + " the API only grows: clients ignore unknown names in responses. The daemon rejects unknown names in request bodies."},
		"servers":  []object{{"url": "/"}},
		"security": []object{{"token": []string{}}},
		"paths":    paths,
		"components": object{
			"schemas":   schemas.named,
			"responses": object{"Problem": problem},
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer",
				"description": "Not needed on the unix socket, which its permissions protect."}},
		},
	}
	text, err := json.Marshal(doc)
	if err != nil {
		panic(fmt.Sprintf("describe the API: %v", err)) // doc consists of maps and strings
	}
	return text
}

var pathParameter = regexp.MustCompile(`\{(\w+)\}`)

func (r *route) describe(s schemas) object {
	op := object{"operationId": r.name, "summary": r.summary, "responses": r.responses(s)}
	var parameters []object
	for _, found := range pathParameter.FindAllStringSubmatch(r.path, -1) {
		parameters = append(parameters, object{"name": found[1], "in": "path", "required": true, "schema": object{"type": "string", "maxLength": idLength, "pattern": `^[^\x00-\x1f\x7f\\]+$`}})
	}
	for _, p := range r.query {
		parameters = append(parameters, p.describe())
	}
	if parameters != nil {
		op["parameters"] = parameters
	}
	if r.body != nil {
		t := reflect.TypeOf(r.body)
		op["requestBody"] = object{"required": !r.bodyless, "content": object{"application/json": object{"schema": s.of(t)}}}
		s.named[t.Name()].(object)["additionalProperties"] = false
	}
	switch r.need {
	case anonymous:
		op["security"] = []object{}
	case full:
		op["description"] = "Requires a token with the role full."
	}
	return op
}

// describe returns the description of a query parameter.
func (p *param) describe() object {
	described := object{"name": p.name, "in": "query", "description": p.summary}
	switch p.kind {
	case "duration":
		described["schema"] = object{"type": "string", "examples": []string{"30s"}}
	case "integer":
		described["schema"] = object{"type": "integer", "minimum": 0, "maximum": math.MaxInt32}
	case "subject":
		described["schema"] = object{"type": "string", "pattern": "^(node|request|label|image|provider)/.+"}
		described["required"] = true
	case requestStates:
		described["schema"] = statesSchema(resources.KindRequest)
	case nodeStates:
		described["schema"] = statesSchema(resources.KindNode)
	case "boolean":
		described["schema"] = object{"type": p.kind}
	default:
		described["schema"] = object{"type": p.kind, "maxLength": idLength}
	}
	return described
}

// statesSchema describes a comma-separated list of states of records.
func statesSchema(kind resources.Kind) object {
	one := "(" + strings.Join(wire.StateNames(kind), "|") + ")"
	return object{"type": "string", "maxLength": idLength, "pattern": "^(" + one + "(," + one + ")*)?$"}
}

func (r *route) responses(s schemas) object {
	success := object{"description": "Success."}
	status := http.StatusNoContent
	if r.answer != nil {
		status = max(r.status, http.StatusOK)
		media := r.media
		if media == "" {
			media = "application/json"
		}
		content := object{media: object{"schema": s.of(reflect.TypeOf(r.answer))}}
		if r.name == "listEvents" {
			content["text/event-stream"] = object{"schema": object{"type": "string", "description": "Each data line is an Event."}}
		}
		success = object{"description": "Success.", "content": content}
	}
	all := object{strconv.Itoa(status): success, "default": object{"$ref": "#/components/responses/Problem"}}
	if r.name == "ready" {
		all["503"] = object{"description": "Not ready.", "content": success["content"]}
	}
	return all
}

// schemas holds the JSON schemas of Go types, by the name of the type.
type schemas struct{ named object }

// of returns the schema of a type. Each struct is described once and referenced elsewhere.
func (s schemas) of(t reflect.Type) object {
	if t == reflect.TypeFor[json.RawMessage]() {
		return object{} // anything
	}
	if t.PkgPath() == "time" && t.Name() == "Time" {
		return object{"type": "string", "format": "date-time"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.of(t.Elem())
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Int, reflect.Int64:
		return object{"type": "integer"}
	case reflect.Uint64:
		return object{"type": "integer", "minimum": 0}
	case reflect.Slice:
		return object{"type": "array", "items": s.of(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.Struct:
		return s.structure(t)
	default:
		panic("the API cannot describe a " + t.String())
	}
}

func (s schemas) structure(t reflect.Type) object {
	ref := object{"$ref": "#/components/schemas/" + t.Name()}
	if s.named[t.Name()] != nil {
		return ref
	}
	described := object{"type": "object"}
	s.named[t.Name()] = described
	properties, required := object{}, []string{}
	s.members(t, properties, &required)
	described["properties"] = properties
	if len(required) > 0 {
		described["required"] = required
	}
	return ref
}

// addLimits adds the limits of a struct tag, such as "minItems=1,items.maxLength=1024".
func addLimits(property object, tag string) {
	if tag == "" {
		return
	}
	for _, limit := range strings.Split(tag, ",") {
		name, text, _ := strings.Cut(limit, "=")
		number, err := strconv.Atoi(text)
		if err != nil {
			panic("a limit of the API is not a number: " + limit)
		}
		if item, ok := strings.CutPrefix(name, "items."); ok {
			property["items"].(object)[item] = number
		} else {
			property[name] = number
		}
	}
}

// members adds the members of a struct and of its embedded structs.
func (s schemas) members(t reflect.Type, properties object, required *[]string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			s.members(f.Type, properties, required)
			continue
		case name == "" || name == "-":
			continue
		}
		property := s.of(f.Type)
		if doc := f.Tag.Get("doc"); doc != "" {
			property["description"] = doc
		}
		addLimits(property, f.Tag.Get("limits"))
		properties[name] = property
		if !strings.Contains(options, "omitempty") && !strings.Contains(options, "omitzero") {
			*required = append(*required, name)
		}
	}
}
