package resources

import (
	"encoding/json"
	"slices"
	"time"
)

// Request asks for one node for each label, all from one pool and, where zones exist, from one zone.
type Request struct {
	ID        string    `json:"id"`
	State     State     `json:"state"`
	StateTime time.Time `json:"state_time"`
	Created   time.Time `json:"created"`
	// Labels are the requested labels, in this order; a label may occur several times.
	Labels           []string        `json:"labels"`
	Priority         int64           `json:"priority"`                    // lower goes first; 100 high, 200 normal, 300 low
	RelativePriority int64           `json:"relative_priority,omitempty"` // orders requests of the same priority; lower goes first
	Requestor        string          `json:"requestor,omitempty"`
	Tenant           string          `json:"tenant,omitempty"`
	EventID          string          `json:"event_id,omitempty"`
	Provider         string          `json:"provider,omitempty"` // required, in a shared store preferred; empty: any
	Data             json.RawMessage `json:"data,omitempty"`     // data of the requestor, returned unchanged
	Deadline         time.Time       `json:"deadline,omitzero"`  // the request fails unless it is fulfilled by then
	Fresh            bool            `json:"fresh,omitempty"`    // only nodes that are launched for it
	// Placement is the location of its nodes, set when the request becomes pending.
	Placement Placement `json:"place,omitzero"`
	// Nodes are the IDs of its nodes in the order of Labels, once the request is fulfilled.
	Nodes        []string  `json:"nodes,omitempty"`
	Declined     []Decline `json:"declined,omitempty"`
	Error        string    `json:"error,omitempty"` // reason of the failure
	PendingSince time.Time `json:"taken,omitzero"`  // time of acceptance by a pool
	Ready        time.Time `json:"ready,omitzero"`  // time when its last node became ready
}

// Key implements Record.
func (r *Request) Key() Key { return Key{KindRequest, r.ID} }

// IsOpen reports whether the request is neither fulfilled nor failed.
func (r *Request) IsOpen() bool { return r.State == StateRequested || r.State == StatePending }

// IsDone reports whether the request is fulfilled or has failed.
func (r *Request) IsDone() bool { return r.State == StateFulfilled || r.State == StateFailed }

// Placement is a pool of a provider, and optionally a zone.
type Placement struct {
	Provider string `json:"provider"`
	Pool     string `json:"pool"`
	Zone     string `json:"zone,omitempty"`
}

// Decline states that a pool, or one zone of it, will not serve a request, and the reason.
type Decline struct {
	Provider string `json:"provider"`
	Pool     string `json:"pool"`
	Zone     string `json:"zone,omitempty"`
	Reason   string `json:"reason"`
	PoolID   string `json:"by,omitempty"` // ID of the registered pool, in a shared store
}

// Journal is a part of the list of recent events, oldest first. The store keeps the newest parts.
type Journal struct {
	ID     string  `json:"id"` // increases
	Events []Event `json:"events"`
}

// Key implements Record.
func (j *Journal) Key() Key { return Key{KindJournal, j.ID} }

// Event is a decision or an occurrence.
type Event struct {
	Time    time.Time `json:"time"`
	Subject string    `json:"subject"`           // such as node/0000000001, request/0000000007, label/debian, image/debian, provider/one
	Related []string  `json:"related,omitempty"` // further subjects
	Code    string    `json:"code"`              // for example launched, ready, fulfilled, waiting
	Text    string    `json:"text"`
	EventID string    `json:"event_id,omitempty"` // event ID of the request that it concerns, assigned by the requestor
}

// Concerns reports whether the event is about a subject or related to it. Every event concerns the empty subject.
func (e *Event) Concerns(subject string) bool {
	return subject == "" || e.Subject == subject || slices.Contains(e.Related, subject)
}
