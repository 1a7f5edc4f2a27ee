package resources

import (
	"encoding/json"
	"time"
)

// Request asks for nodes: one for each label, all of them in one pool, and one zone where there are zones.
type Request struct {
	ID        string    `json:"id"`
	State     State     `json:"state"`
	StateTime time.Time `json:"state_time"`
	Created   time.Time `json:"created"`
	// Labels is what is asked for, in this order; a label may come several times.
	Labels   []string        `json:"labels"`
	Priority int64           `json:"priority"`                    // lower goes first; 100 high, 200 normal, 300 low
	Relative int64           `json:"relative_priority,omitempty"` // orders requests of one priority; lower goes first
	Who      string          `json:"requestor,omitempty"`
	Tenant   string          `json:"tenant,omitempty"`
	Event    string          `json:"event_id,omitempty"`
	Provider string          `json:"provider,omitempty"` // the only one wanted; empty: any
	Data     json.RawMessage `json:"data,omitempty"`     // the requestor's, passed on unchanged
	Deadline time.Time       `json:"deadline,omitzero"`  // failed when it is not fulfilled by then
	Fresh    bool            `json:"fresh,omitempty"`    // only nodes launched for it
	// Place is where its nodes come from, from pending on.
	Place Place `json:"place,omitzero"`
	// Nodes are the nodes in the order of Labels, once it is fulfilled.
	Nodes    []string  `json:"nodes,omitempty"`
	Declined []Decline `json:"declined,omitempty"`
	Error    string    `json:"error,omitempty"` // why it failed
	Taken    time.Time `json:"taken,omitzero"`  // when it became pending
	Ready    time.Time `json:"ready,omitzero"`  // when its last node was ready
}

// Key implements Record.
func (r *Request) Key() Key { return Key{KindRequest, r.ID} }

// Waits reports whether it has no answer yet.
func (r *Request) Waits() bool { return r.State == StateRequested || r.State == StatePending }

// Answered reports whether it got its answer.
func (r *Request) Answered() bool { return r.State == StateFulfilled || r.State == StateFailed }

// Place is a pool of a provider, and a zone where that matters.
type Place struct {
	Provider string `json:"provider"`
	Pool     string `json:"pool"`
	Zone     string `json:"zone,omitempty"`
}

// Decline says why a pool, or one zone of it, will not serve a request.
type Decline struct {
	Provider string `json:"provider"`
	Pool     string `json:"pool"`
	Zone     string `json:"zone,omitempty"`
	Reason   string `json:"reason"`
	By       string `json:"by,omitempty"` // the id that the pool was registered under, where others serve the same requests
}

// Journal is a piece of what has happened, oldest first. The store keeps the newest pieces.
type Journal struct {
	ID     string  `json:"id"` // grows
	Events []Event `json:"events"`
}

// Key implements Record.
func (j *Journal) Key() Key { return Key{KindJournal, j.ID} }

// Event is one thing that happened or was decided.
type Event struct {
	Time    time.Time `json:"time"`
	Subject string    `json:"subject"`           // such as node/0000000001, request/0000000007, label/debian, image/debian, provider/one
	Related []string  `json:"related,omitempty"` // further subjects
	Code    string    `json:"code"`              // such as launched, ready, fulfilled, waiting
	Text    string    `json:"text"`
	EventID string    `json:"event_id,omitempty"` // of the request that it concerns: what its requestor calls it
}
