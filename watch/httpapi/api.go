package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	jsonv2 "github.com/go-json-experiment/json"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/watch/httpapi/wire"
)

// configure sets the variables with which huma is configured.
var configure = sync.OnceFunc(func() {
	huma.DefaultArrayNullable, huma.ValidateStrictCasing = false, true
	huma.NewErrorWithContext = newProblem
	huma.NewError = func(status int, message string, errs ...error) huma.StatusError {
		return newProblem(nil, status, message, errs...)
	}
})

// api is a set of operations with one description.
type api struct {
	*Server
	huma.API
}

func (s *Server) newAPI() api {
	configure()
	format := huma.Format{Marshal: writeJSON, Unmarshal: decode}
	config := huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{Title: "npctl", Version: wire.Version, License: &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"},
				Description: "Requests for CI test nodes, and the state of the npctl daemon. Within " + wire.Version + " the API only grows: clients ignore unknown names in responses. The daemon rejects unknown names in request bodies."},
			Servers:  []*huma.Server{{URL: "/"}},
			Security: []map[string][]string{{"token": {}}},
			Components: &huma.Components{
				Schemas: huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer),
				SecuritySchemes: map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer",
					Description: "Not needed on the unix socket, which its permissions protect."}},
			},
		},
		Formats:       map[string]huma.Format{"application/json": format, "json": format}, // json: also of application/problem+json
		DefaultFormat: "application/json",
	}
	config.AllowAdditionalPropertiesByDefault = true
	return api{s, humago.New(s.mux, config)}
}

// option is a property of an operation.
type option int

const (
	longPoll option = iota // the call may wait for a change
	creates                // success is 201
	trusted                // a large body of another npctl, which is not validated
)

// add adds an operation: route is its method and path, name its operationId.
func add[I, T any](a api, need role, route, name, summary string, do func(context.Context, *I) (T, error), options ...option) *huma.Operation {
	method, path, _ := strings.Cut(route, " ")
	op := huma.Operation{Method: method, Path: path, OperationID: name, Summary: summary, BodyReadTimeout: a.BodyTime, MaxBodyBytes: bodySize}
	switch need {
	case anonymous:
		op.Security = []map[string][]string{}
	case full:
		op.Description = "Requires a token with the role full."
	}
	if slices.Contains(options, creates) {
		op.DefaultStatus = http.StatusCreated
	}
	if slices.Contains(options, trusted) {
		op.SkipValidateBody, op.MaxBodyBytes = true, commitSize
	}
	op.Middlewares = huma.Middlewares{a.guard(need, slices.Contains(options, longPoll))}
	type response struct{ Body T }
	run := func(ctx context.Context, in *I) (*response, error) {
		c := callOf(ctx)
		c.bodyRead()
		body, err := do(ctx, in)
		if errors.Is(err, context.DeadlineExceeded) && errors.Is(context.Cause(ctx), errCallTime) {
			err = failure(http.StatusServiceUnavailable, wire.CodeTimeout, "it may have made changes; check them before you repeat it",
				"the call was cancelled after %s", a.CallTime)
		}
		switch {
		case err != nil && c.w.status != 0: // closes the connection, so that the client does not take a partial response for a complete one
			panic(http.ErrAbortHandler)
		case err != nil:
			return nil, c.problem(err)
		case c.w.status != 0: // the operation has written the response
			return nil, nil
		}
		return &response{body}, nil
	}
	if _, empty := any(new(T)).(*none); empty {
		huma.Register(a.API, op, func(ctx context.Context, in *I) (*none, error) { _, err := run(ctx, in); return nil, err })
	} else {
		huma.Register(a.API, op, run)
	}
	item := a.OpenAPI().Paths[path]
	added := map[string]*huma.Operation{http.MethodGet: item.Get, http.MethodPost: item.Post, http.MethodDelete: item.Delete}[method]
	if added.RequestBody != nil {
		a.describeBody(added)
	}
	return added
}

// describeBody makes the description of a body agree with decoding: unknown members are rejected, null means absent,
// and a body without required members may be empty.
func (a api) describeBody(op *huma.Operation) {
	schema := a.OpenAPI().Components.Schemas.SchemaFromRef(op.RequestBody.Content["application/json"].Schema.Ref)
	schema.AdditionalProperties = false
	op.RequestBody.Required = len(schema.Required) > 0
	var names []string
	for name, p := range schema.Properties {
		names = append(names, name)
		p.Nullable = p.Type != "" && !slices.Contains(schema.Required, name)
	}
	op.Metadata = map[string]any{"members": names}
}

// silent lets an operation respond without a body, or write the response itself.
func silent[I any](do func(context.Context, *I) error) func(context.Context, *I) (none, error) {
	return func(ctx context.Context, in *I) (none, error) { return none{}, do(ctx, in) }
}

// decode decodes a body and rejects unknown members.
func decode(doc []byte, into any) error {
	return jsonv2.Unmarshal(doc, into, jsonv2.RejectUnknownMembers(true))
}

// marshal encodes v as JSON and escapes everything that a browser or terminal could interpret.
func marshal(v any) ([]byte, error) {
	doc, err := json.Marshal(v) // escapes <, > and &
	return text.JSON(doc), err
}

func writeJSON(w io.Writer, v any) error {
	doc, err := marshal(v)
	if err != nil {
		return fmt.Errorf("encode response: %w", err)
	}
	_, _ = w.Write(append(doc, '\n')) // the error means that the client has disconnected
	return nil
}
