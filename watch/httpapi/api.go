package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	jsonv2 "github.com/go-json-experiment/json"

	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/resources"
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
		// The read deadline is for the body; net/http would cancel the context of the call at it.
		_ = http.NewResponseController(c.w).SetReadDeadline(time.Time{}) // unsupported by the writers of tests, which need no limit
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

// addOperations adds the described operations.
func (s *Server) addOperations() {
	a := s.newAPI()
	status := statusRoutes{s.daemon, s.Version, time.Now(), s.Metrics, s.locks.suspender}
	requests, nodes, events := requestRoutes{s.daemon}, nodeRoutes{s.daemon}, newEventRoutes(s.daemon)
	images, providers, explainer := imageRoutes{s.daemon}, providerRoutes{s.daemon}, whyRoutes{s.daemon, make(chan struct{}, 1), s.locks.suspender}
	var description []byte

	add(a, anonymous, "GET /livez", "live", "Liveness check: reports whether the daemon completes passes.", status.live)
	ready := add(a, anonymous, "GET /readyz", "ready", "Readiness check: reports whether every served provider was listed successfully since the start. 503 if not.", status.ready)
	ready.Responses["503"] = &huma.Response{Description: "Not ready.", Content: ready.Responses["200"].Content}
	add(a, anonymous, "GET /openapi.json", "openapi", "Returns this description.",
		func(context.Context, *none) (json.RawMessage, error) { return description, nil })
	metrics := add(a, reader, "GET /metrics", "metrics", "Returns metrics in the Prometheus format.", status.metrics)
	metrics.Responses["200"].Content = content("text/plain", "")
	add(a, reader, "GET /v1/status", "status", "Returns a summary of the daemon's state.", status.status)

	add(a, reader, "GET /v1/requests", "listRequests", "Lists requests for nodes, without the data that requestors attached.", requests.list)
	add(a, full, "POST /v1/requests", "createRequest", "Creates a request for nodes.", requests.create, longPoll, creates)
	add(a, reader, "GET /v1/requests/{id}", "showRequest", "Returns a request. With wait, responds when the request is fulfilled or failed.", requests.show, longPoll)
	add(a, full, "DELETE /v1/requests/{id}", "cancelRequest", "Deletes a request. Its nodes become unassigned.", silent(requests.cancel))
	add(a, full, "POST /v1/requests/{id}/take", "takeRequest", "Takes the nodes of a fulfilled request and deletes the request.", requests.take)

	add(a, reader, "GET /v1/nodes", "listNodes", "Lists nodes.", nodes.list)
	add(a, reader, "GET /v1/nodes/{id}", "showNode", "Returns a node. With wait, responds when the node is in one of the given states, or when its state changes.", nodes.show, longPoll)
	add(a, full, "GET /v1/nodes/{id}/access", "accessNode", "Returns the credentials of a node in use or on hold, such as the token of a Kubernetes namespace. npctl requests them from the cloud and stores them nowhere.", nodes.access)
	add(a, full, "POST /v1/nodes/{id}/renew", "renewNode", "Extends the lease of a node in use.", nodes.renew)
	add(a, full, "POST /v1/nodes/{id}/return", "returnNode", "Returns a node after use. A static node becomes ready again, any other node is deleted.", nodes.giveBack)
	add(a, full, "POST /v1/nodes/{id}/hold", "holdNode", "Holds a node for debugging.", nodes.hold)
	add(a, full, "POST /v1/nodes/{id}/release", "releaseNode", "Ends a hold. The node is then used.", nodes.release)
	add(a, full, "DELETE /v1/nodes/{id}", "deleteNode", "Deletes a node. A static node is checked and becomes ready again.", nodes.remove)

	add(a, reader, "GET /v1/labels", "listLabels", "Lists labels and the pools that offer them.", providers.listLabels)
	add(a, reader, "GET /v1/labels/{id}", "showLabel", "Returns a label.", providers.showLabel)
	add(a, reader, "GET /v1/images", "listImages", "Lists images with the records of their builds and uploads.", images.list)
	add(a, reader, "GET /v1/images/{id}", "showImage", "Returns an image.", images.show)
	add(a, full, "POST /v1/images/{id}/pause", "pauseImage", "Pauses an image: npctl does not build it.", images.pause)
	add(a, full, "POST /v1/images/{id}/unpause", "unpauseImage", "Ends the pause of an image.", images.unpause)
	add(a, reader, "GET /v1/providers", "listProviders", "Lists providers with their state and quota.", providers.list)
	add(a, reader, "GET /v1/providers/{id}", "showProvider", "Returns a provider.", providers.show)
	add(a, full, "POST /v1/providers/{id}/freeze", "freezeProvider", "Freezes a provider: npctl plans nothing for it until it is thawed. A freeze survives a restart.", providers.freeze(true))
	add(a, full, "POST /v1/providers/{id}/thaw", "thawProvider", "Thaws a provider.", providers.freeze(false))

	add(a, reader, "GET /v1/plan", "plan", "Returns the newest plan, as npctl plan -json prints it.", status.plan)
	add(a, reader, "GET /v1/snapshot", "snapshot", "Returns a snapshot for npctl plan -snapshot: the records and listings without secrets, and the names that the clouds have.", status.snapshot)
	add(a, reader, "GET /v1/steps", "listSteps", "Lists running steps.", status.steps)
	list := add(a, reader, "GET /v1/events", "listEvents", "Lists events of the journal. With Accept: text/event-stream, sends server-sent events until the client disconnects.", events.list, longPoll)
	list.Responses["200"].Content["text/event-stream"] = content("text/event-stream", "Each data line is an Event.")["text/event-stream"]
	add(a, reader, "GET /v1/audit", "listAudit", "Lists audit records: each apply, reload and change of records, with its actor. They are never removed.", status.audit)
	add(a, reader, "GET /v1/why", "why", "Explains the state of an object and what it waits for.", explainer.why)
	add(a, full, "POST /v1/reload", reloadName, "Reloads the configuration. A configuration with errors, or with deletions that need consent, is rejected as a whole.", status.reload)

	var err error
	if description, err = json.Marshal(a.OpenAPI()); err != nil {
		panic("describe the API: " + err.Error()) // it consists of maps and strings
	}
	s.mux.HandleFunc("/", func(_ http.ResponseWriter, r *http.Request) { c := callOf(r.Context()); c.fail(s.noRoute(c)) })
}

// reloadName is the name of the only operation besides queries that a shadow supports.
const reloadName = "reload"

func content(media, description string) map[string]*huma.MediaType {
	return map[string]*huma.MediaType{media: {Schema: &huma.Schema{Type: huma.TypeString, Description: description}}}
}

// none is the input of a call without parameters.
type none = struct{}

// Named is the input of a call about one object.
type Named struct {
	ID string `path:"id" maxLength:"1024" pattern:"^[^\\x00-\\x1f\\x7f\\\\]+$"`
}

// with is the input of a call about one object, with a body.
type with[T any] struct {
	Named
	Body T
}

// Waiting is the input of a call that may wait for a change.
type Waiting struct {
	Wait wait `query:"wait" example:"30s" doc:"Responds when the condition holds, or after this time, at most 60s."`
}

// wait is a duration such as 30s, or a number of seconds.
type wait struct{ time.Duration }

// UnmarshalText implements encoding.TextUnmarshaler. It shortens the duration to longestWait.
func (w *wait) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	if seconds, notSeconds := strconv.ParseUint(string(text), 10, 31); notSeconds == nil {
		d, err = time.Duration(seconds)*time.Second, nil
	}
	if err != nil || d < 0 {
		return errors.New("expected a duration such as 30s")
	}
	w.Duration = min(d, longestWait)
	return nil
}

// Page is the part of a list that a call asks for.
type Page struct {
	Limit int    `query:"limit" minimum:"0" maximum:"2147483647" default:"1000" doc:"Maximum number of objects, at most 10000."`
	After string `query:"after" maxLength:"1024" doc:"Only objects after this ID."`
}

type listRequests struct {
	State     requestStates `query:"state" doc:"Only objects in these states, separated by commas."`
	Label     string        `query:"label" maxLength:"1024" doc:"Only requests for this label."`
	Tenant    string        `query:"tenant" maxLength:"1024" doc:"Only requests of this tenant."`
	Requestor string        `query:"requestor" maxLength:"1024" doc:"Only requests of this requestor."`
	Page
}

type createRequest struct {
	Waiting
	Body wire.NewRequest
}

type showRequest struct {
	Named
	Waiting
}

type listNodes struct {
	State    nodeStates `query:"state" doc:"Only objects in these states, separated by commas."`
	Label    string     `query:"label" maxLength:"1024" doc:"Only nodes with this label."`
	Provider string     `query:"provider" maxLength:"1024" doc:"Only nodes of this provider."`
	Pool     string     `query:"pool" maxLength:"1024" doc:"Only nodes of this pool."`
	Request  string     `query:"request" maxLength:"1024" doc:"Only nodes that are assigned to this request or were taken with it."`
	Tenant   string     `query:"tenant" maxLength:"1024" doc:"Only nodes in use by this tenant."`
	Page
}

type showNode struct {
	Named
	Waiting
	State nodeStates `query:"state" doc:"With wait: the states to wait for, separated by commas."`
}

type nodeAccess struct {
	Named
	Holder string `query:"holder" maxLength:"1024" doc:"The holder of the lease, if the node has one."`
}

type deleteNode struct {
	Named
	Force  bool   `query:"force" doc:"Deletes the node even if it is in use, held or assigned to a request."`
	Reason string `query:"reason" maxLength:"1024" doc:"Reason, for operators."`
}

type listEvents struct {
	After   string `query:"after" maxLength:"1024" doc:"Only events after this position: next of an earlier response, or a number."`
	Subject string `query:"subject" maxLength:"1024" doc:"Only events about or related to this subject, such as node/0000000001."`
	Limit   int    `query:"limit" minimum:"0" maximum:"2147483647" default:"1000" doc:"Maximum number of events: the oldest ones with after, otherwise the newest."`
	Waiting
	LastEvent string `header:"Last-Event-ID" maxLength:"1024" doc:"The same as after, for clients of server-sent events."`
	Accept    string `header:"Accept" hidden:"true"`
}

type listAudit struct {
	After string `query:"after" maxLength:"1024" doc:"Only records after the one with this ID."`
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Maximum number of records: the oldest ones with after, otherwise the newest."`
}

type explain struct {
	Subject string `query:"subject" required:"true" pattern:"^(node|request|label|image|provider)/.+" patternDescription:"node/ID, request/ID, label/NAME, image/NAME or provider/NAME" doc:"node/ID, request/ID, label/NAME, image/NAME or provider/NAME."`
}

// requestStates and nodeStates are lists of states that the kind of record can have.
type (
	requestStates []string
	nodeStates    []string
)

// Schema implements huma.SchemaProvider.
func (requestStates) Schema(huma.Registry) *huma.Schema { return statesSchema(resources.KindRequest) }

// Schema implements huma.SchemaProvider.
func (nodeStates) Schema(huma.Registry) *huma.Schema { return statesSchema(resources.KindNode) }

func statesSchema(kind resources.Kind) *huma.Schema {
	one := &huma.Schema{Type: huma.TypeString}
	for _, state := range resources.StatesOf(kind) {
		one.Enum = append(one.Enum, string(state))
	}
	return &huma.Schema{Type: huma.TypeArray, Items: one}
}
