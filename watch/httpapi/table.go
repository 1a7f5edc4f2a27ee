package httpapi

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/npctl/npctl/watch/httpapi/wire"
)

// table lists the routes of the API in the order of the description.
func (s *Server) table() []route {
	const v = "/" + wire.Version
	get, post, remove := http.MethodGet, http.MethodPost, http.MethodDelete
	status := statusRoutes{s.daemon, s.Version, time.Now(), s.Metrics, s.locks.suspendedBy}
	requests, nodes, events := requestRoutes{s.daemon}, nodeRoutes{s.daemon}, newEventRoutes(s.daemon)
	return []route{
		{method: get, path: "/livez", need: anonymous, name: "live", summary: "Liveness check: reports whether the daemon completes passes.", answer: wire.Health{}, do: status.live},
		{method: get, path: "/readyz", need: anonymous, name: "ready", answer: wire.Health{}, do: status.ready,
			summary: "Readiness check: reports whether every served provider was listed since the start. 503 if not."},
		{method: get, path: "/openapi.json", need: anonymous, name: "openapi", summary: "Returns this description.", answer: json.RawMessage{}, do: func(*call) (any, error) { return json.RawMessage(s.openapi), nil }},
		{method: get, path: "/metrics", need: reader, name: "metrics", summary: "Returns metrics in the Prometheus format.", answer: "", media: "text/plain", do: status.metrics},
		{method: get, path: v + "/status", need: reader, name: "status", summary: "Returns a summary of the daemon's state.", answer: wire.Status{}, do: status.status},

		{method: get, path: v + "/requests", need: reader, name: "listRequests", summary: "Lists requests for nodes, without the data that requestors attached.",
			query: []param{{"state", requestStates, "Only objects in these states, separated by commas."}, {"label", "string", "Only requests for this label."},
				{"tenant", "string", "Only requests of this tenant."}, {"requestor", "string", "Only requests of this requestor."}, sizeParam, pageParam},
			answer: wire.Requests{}, do: requests.list},
		{method: post, path: v + "/requests", need: full, name: "createRequest", summary: "Creates a request for nodes.", longPoll: true,
			query: []param{waitParam}, body: wire.NewRequest{}, answer: wire.Request{}, status: http.StatusCreated, do: requests.create},
		{method: get, path: v + "/requests/{id}", need: reader, name: "showRequest", summary: "Returns a request. With wait, responds when the request is fulfilled or failed.",
			query: []param{waitParam}, longPoll: true, answer: wire.Request{}, do: requests.show},
		{method: remove, path: v + "/requests/{id}", need: full, name: "cancelRequest", summary: "Deletes a request. Its nodes become unassigned.", do: requests.cancel},
		{method: post, path: v + "/requests/{id}/take", need: full, name: "takeRequest", summary: "Takes the nodes of a fulfilled request and deletes the request.",
			body: wire.Take{}, bodyless: true, answer: wire.Nodes{}, do: requests.take},

		{method: get, path: v + "/nodes", need: reader, name: "listNodes", summary: "Lists nodes.",
			query: []param{{"state", nodeStates, "Only objects in these states, separated by commas."}, {"label", "string", "Only nodes with this label."},
				{"provider", "string", "Only nodes of this provider."}, {"pool", "string", "Only nodes of this pool."},
				{"request", "string", "Only nodes that are assigned to this request or were taken with it."}, {"tenant", "string", "Only nodes in use by this tenant."}, sizeParam, pageParam},
			answer: wire.Nodes{}, do: nodes.list},
		{method: get, path: v + "/nodes/{id}", need: reader, name: "showNode", longPoll: true, answer: wire.Node{}, do: nodes.show,
			summary: "Returns a node. With wait, responds when the node is in one of the given states, or when its state changes.",
			query:   []param{waitParam, {"state", nodeStates, "With wait: the states to wait for, separated by commas."}}},
		{method: post, path: v + "/nodes/{id}/renew", need: full, name: "renewNode", summary: "Extends the lease of a node in use.",
			body: wire.Renew{}, bodyless: true, answer: wire.Node{}, do: nodes.renew},
		{method: post, path: v + "/nodes/{id}/return", need: full, name: "returnNode", answer: wire.Node{}, do: nodes.giveBack,
			summary: "Returns a node after use. A static node becomes ready again, any other node is deleted."},
		{method: post, path: v + "/nodes/{id}/hold", need: full, name: "holdNode", summary: "Holds a node for debugging.",
			body: wire.Hold{}, bodyless: true, answer: wire.Node{}, do: nodes.hold},
		{method: post, path: v + "/nodes/{id}/release", need: full, name: "releaseNode", summary: "Ends a hold. The node is then used.", answer: wire.Node{}, do: nodes.release},
		{method: remove, path: v + "/nodes/{id}", need: full, name: "deleteNode", answer: wire.Node{}, do: nodes.remove,
			summary: "Deletes a node. A static node is checked and becomes ready again.",
			query:   []param{{"force", "boolean", "Deletes the node even if it is in use, held or assigned to a request."}, {"reason", "string", "Reason, for operators."}}},

		{method: get, path: v + "/labels", need: reader, name: "listLabels", summary: "Lists labels and the pools that offer them.", answer: wire.Labels{}, do: (*call).listLabels},
		{method: get, path: v + "/labels/{id}", need: reader, name: "showLabel", summary: "Returns a label.", answer: wire.Label{}, do: (*call).showLabel},
		{method: get, path: v + "/images", need: reader, name: "listImages", summary: "Lists images with the records of their builds and uploads.", answer: wire.Images{}, do: (*call).listImages},
		{method: get, path: v + "/images/{id}", need: reader, name: "showImage", summary: "Returns an image.", answer: wire.Image{}, do: (*call).showImage},
		{method: post, path: v + "/images/{id}/pause", need: full, name: "pauseImage", summary: "Pauses an image: npctl does not build it.", body: wire.Pause{}, bodyless: true, answer: wire.Image{}, do: (*call).pauseImage},
		{method: post, path: v + "/images/{id}/unpause", need: full, name: "unpauseImage", summary: "Ends the pause of an image.", answer: wire.Image{}, do: (*call).unpauseImage},
		{method: get, path: v + "/providers", need: reader, name: "listProviders", summary: "Lists providers with their state and quota.", answer: wire.Providers{}, do: (*call).listProviders},
		{method: get, path: v + "/providers/{id}", need: reader, name: "showProvider", summary: "Returns a provider.", answer: wire.Provider{}, do: (*call).showProvider},
		{method: post, path: v + "/providers/{id}/freeze", need: full, name: "freezeProvider", answer: wire.Provider{}, do: (*call).freezeProvider,
			summary: "Freezes a provider: npctl plans nothing for it until it is thawed. A freeze survives a restart."},
		{method: post, path: v + "/providers/{id}/thaw", need: full, name: "thawProvider", summary: "Thaws a provider.", answer: wire.Provider{}, do: (*call).thawProvider},

		{method: get, path: v + "/plan", need: reader, name: "plan", summary: "Returns the newest plan, as npctl plan -json prints it.", answer: json.RawMessage{}, do: status.plan},
		{method: get, path: v + "/steps", need: reader, name: "listSteps", summary: "Lists running steps.", answer: wire.Steps{}, do: status.steps},
		{method: get, path: v + "/events", need: reader, name: "listEvents", longPoll: true, answer: wire.Events{}, do: events.list,
			summary: "Lists events of the journal. With Accept: text/event-stream, sends server-sent events until the client disconnects.",
			query: []param{{"after", "string", "Only events after this position: next of an earlier response, or a number."}, {"subject", "string", "Only events about or related to this subject, such as node/0000000001."},
				{"limit", "integer", "Maximum number of events: the oldest ones with after, otherwise the newest. Default: 1000."}, waitParam}},
		{method: get, path: v + "/why", need: reader, name: "why", summary: "Explains the state of an object and what it waits for.", answer: wire.Why{}, do: (*call).why,
			query: []param{{"subject", "subject", "node/ID, request/ID, label/NAME, image/NAME or provider/NAME."}}},
		{method: post, path: v + "/reload", need: full, name: "reload", summary: "Reloads the configuration. A configuration with errors, or with deletions that need consent, is rejected as a whole.",
			body: wire.Reload{}, bodyless: true, answer: wire.Reloaded{}, do: status.reload},
	}
}
