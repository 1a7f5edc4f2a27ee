package httpapi

import (
	"encoding/json"
	"net/http"

	"github.com/npctl/npctl/watch/httpapi/wire"
)

// table lists the routes of the API in the order of the description.
func (s *Server) table() []route {
	const v = "/" + wire.Version
	get, post, remove := http.MethodGet, http.MethodPost, http.MethodDelete
	return []route{
		{method: get, path: "/livez", need: nobody, name: "live", summary: "Whether the daemon is there.", answer: wire.Health{}, do: (*call).live},
		{method: get, path: "/readyz", need: nobody, name: "ready", answer: wire.Health{}, do: (*call).ready,
			summary: "Whether every provider that is served was looked at once. 503 while not."},
		{method: get, path: "/openapi.json", need: nobody, name: "openapi", summary: "This description.", answer: json.RawMessage{}, do: (*call).document},
		{method: get, path: "/metrics", need: reader, name: "metrics", summary: "Metrics for Prometheus.", answer: "", media: "text/plain", do: (*call).metrics},
		{method: get, path: v + "/status", need: reader, name: "status", summary: "The daemon at a glance.", answer: wire.Status{}, do: (*call).status},

		{method: get, path: v + "/requests", need: reader, name: "listRequests", summary: "Requests for nodes, without the data that requestors have attached.",
			query: []param{{"state", requestStates, "Only those in these states, separated by commas."}, {"label", "string", "Only those that ask for this label."},
				{"tenant", "string", "Only those of this tenant."}, {"requestor", "string", "Only those of this requestor."}, sizeParam, pageParam},
			answer: wire.Requests{}, do: (*call).listRequests},
		{method: post, path: v + "/requests", need: full, name: "createRequest", summary: "Asks for nodes.", longPoll: true,
			query: []param{waitParam}, body: wire.NewRequest{}, answer: wire.Request{}, status: http.StatusCreated, do: (*call).createRequest},
		{method: get, path: v + "/requests/{id}", need: reader, name: "showRequest", summary: "One request. With wait, once it is fulfilled or has failed.",
			query: []param{waitParam}, longPoll: true, answer: wire.Request{}, do: (*call).showRequest},
		{method: remove, path: v + "/requests/{id}", need: full, name: "cancelRequest", summary: "Withdraws a request. Its nodes are free again.", do: (*call).cancelRequest},
		{method: post, path: v + "/requests/{id}/take", need: full, name: "takeRequest", summary: "Hands over the nodes of a fulfilled request, and ends the request.",
			body: wire.Take{}, bodyless: true, answer: wire.Nodes{}, do: (*call).takeRequest},

		{method: get, path: v + "/nodes", need: reader, name: "listNodes", summary: "Nodes.",
			query: []param{{"state", nodeStates, "Only those in these states, separated by commas."}, {"label", "string", "Only those with this label."},
				{"provider", "string", "Only those of this provider."}, {"pool", "string", "Only those of this pool."},
				{"request", "string", "Only those for this request, or taken with it."}, {"tenant", "string", "Only those in use by this tenant."}, sizeParam, pageParam},
			answer: wire.Nodes{}, do: (*call).listNodes},
		{method: get, path: v + "/nodes/{id}", need: reader, name: "showNode", longPoll: true, answer: wire.Node{}, do: (*call).showNode,
			summary: "One node. With wait, once it is in one of the states named, or in another than before.",
			query:   []param{waitParam, {"state", nodeStates, "With wait: the states to wait for, separated by commas."}}},
		{method: post, path: v + "/nodes/{id}/renew", need: full, name: "renewNode", summary: "Prolongs the lease of a node in use.",
			body: wire.Renew{}, bodyless: true, answer: wire.Node{}, do: (*call).renewNode},
		{method: post, path: v + "/nodes/{id}/return", need: full, name: "returnNode", answer: wire.Node{}, do: (*call).returnNode,
			summary: "Gives a node back after use. One that exists anyway is ready again, any other is deleted."},
		{method: post, path: v + "/nodes/{id}/hold", need: full, name: "holdNode", summary: "Keeps a node for a person to look at.",
			body: wire.Hold{}, bodyless: true, answer: wire.Node{}, do: (*call).holdNode},
		{method: post, path: v + "/nodes/{id}/release", need: full, name: "releaseNode", summary: "Ends a hold. The node counts as used.", answer: wire.Node{}, do: (*call).releaseNode},
		{method: remove, path: v + "/nodes/{id}", need: full, name: "deleteNode", answer: wire.Node{}, do: (*call).deleteNode,
			summary: "Lets a node go. It is deleted soon after; one that exists anyway is checked and ready again.",
			query:   []param{{"force", "boolean", "Even though it is in use, held or set aside for a request."}, {"reason", "string", "For people."}}},

		{method: get, path: v + "/labels", need: reader, name: "listLabels", summary: "Labels, with who offers them.", answer: wire.Labels{}, do: (*call).listLabels},
		{method: get, path: v + "/labels/{id}", need: reader, name: "showLabel", summary: "One label.", answer: wire.Label{}, do: (*call).showLabel},
		{method: get, path: v + "/images", need: reader, name: "listImages", summary: "Images with their builds and uploads, as recorded.", answer: wire.Images{}, do: (*call).listImages},
		{method: get, path: v + "/images/{id}", need: reader, name: "showImage", summary: "One image.", answer: wire.Image{}, do: (*call).showImage},
		{method: post, path: v + "/images/{id}/pause", need: full, name: "pauseImage", summary: "Keeps an image from being built.", body: wire.Pause{}, bodyless: true, answer: wire.Image{}, do: (*call).pauseImage},
		{method: post, path: v + "/images/{id}/unpause", need: full, name: "unpauseImage", summary: "Lets an image be built again.", answer: wire.Image{}, do: (*call).unpauseImage},
		{method: get, path: v + "/providers", need: reader, name: "listProviders", summary: "Providers, with their state and quota.", answer: wire.Providers{}, do: (*call).listProviders},
		{method: get, path: v + "/providers/{id}", need: reader, name: "showProvider", summary: "One provider.", answer: wire.Provider{}, do: (*call).showProvider},
		{method: post, path: v + "/providers/{id}/freeze", need: full, name: "freezeProvider", answer: wire.Provider{}, do: (*call).freezeProvider,
			summary: "Leaves a provider alone: nothing is planned for it until it is thawed, also over a restart."},
		{method: post, path: v + "/providers/{id}/thaw", need: full, name: "thawProvider", summary: "Takes care of a provider again.", answer: wire.Provider{}, do: (*call).thawProvider},

		{method: get, path: v + "/plan", need: reader, name: "plan", summary: "The newest plan, as npctl plan -json prints it.", answer: json.RawMessage{}, do: (*call).plan},
		{method: get, path: v + "/steps", need: reader, name: "listSteps", summary: "What is being done.", answer: wire.Steps{}, do: (*call).listSteps},
		{method: get, path: v + "/events", need: reader, name: "listEvents", longPoll: true, answer: wire.Events{}, do: (*call).listEvents,
			summary: "What has happened, from the journal. With Accept: text/event-stream, as server-sent events that go on until the client leaves.",
			query: []param{{"after", "string", "Only what came after this: next of an answer before, or a number."}, {"subject", "string", "Only what has to do with this, such as node/0000000001."},
				{"limit", "integer", "At most so many: the oldest of them, with after; otherwise the newest. 1000 when it is not given."}, waitParam}},
		{method: get, path: v + "/why", need: reader, name: "why", summary: "What is happening to a thing, and what it waits for.", answer: wire.Why{}, do: (*call).why,
			query: []param{{"subject", "subject", "node/ID, request/ID, label/NAME, image/NAME or provider/NAME."}}},
		{method: post, path: v + "/reload", need: full, name: "reload", summary: "Reads the configuration anew. One with mistakes is refused as a whole, and so is one that would remove much.",
			body: wire.Reload{}, bodyless: true, answer: wire.Reloaded{}, do: (*call).reload},
	}
}
