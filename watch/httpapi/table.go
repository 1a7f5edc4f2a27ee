package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// addOperations adds the described operations.
func (s *Server) addOperations() {
	a := s.newAPI()
	status := statusRoutes{s.daemon, s.Version, time.Now(), s.Metrics, s.locks.suspendedBy}
	requests, nodes, events := requestRoutes{s.daemon}, nodeRoutes{s.daemon}, newEventRoutes(s.daemon)
	images, providers, explainer := imageRoutes{s.daemon}, providerRoutes{s.daemon}, whyRoutes{s.daemon, make(chan struct{}, 1)}
	var description []byte

	add(a, anonymous, "GET /livez", "live", "Liveness check: reports whether the daemon completes passes.", status.live)
	ready := add(a, anonymous, "GET /readyz", "ready", "Readiness check: reports whether every served provider was listed since the start. 503 if not.", status.ready)
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
	add(a, reader, "GET /v1/steps", "listSteps", "Lists running steps.", status.steps)
	list := add(a, reader, "GET /v1/events", "listEvents", "Lists events of the journal. With Accept: text/event-stream, sends server-sent events until the client disconnects.", events.list, longPoll)
	list.Responses["200"].Content["text/event-stream"] = content("text/event-stream", "Each data line is an Event.")["text/event-stream"]
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
