package zookeeper

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// requestJSON is a request as Zuul and Nodepool write it.
type requestJSON struct {
	State    text            `json:"state"`
	Time     seconds         `json:"state_time"`
	Labels   texts           `json:"node_types"`
	Who      text            `json:"requestor"`
	Data     json.RawMessage `json:"requestor_data"`
	Provider text            `json:"provider"`
	Event    text            `json:"event_id"`
	Relative number          `json:"relative_priority"`
	Created  seconds         `json:"created_time"`
	Tenant   text            `json:"tenant_name"`
	Declined texts           `json:"declined_by"`
	Nodes    texts           `json:"nodes"`
	Reuse    *bool           `json:"reuse"`
	Extra    *requestExtra   `json:"npctl"`
}

// requestExtra holds the attributes without a key in Nodepool's documents.
type requestExtra struct {
	Deadline     *time.Time           `json:"deadline,omitempty"`
	Placement    *resources.Placement `json:"place,omitempty"`
	Declined     *[]resources.Decline `json:"declined,omitempty"`
	Error        *string              `json:"error,omitempty"`
	PendingSince *time.Time           `json:"taken,omitempty"`
	Ready        *time.Time           `json:"ready,omitempty"`
}

var requestStates = []resources.State{resources.StateRequested, resources.StatePending, resources.StateFulfilled, resources.StateFailed}

func decodeRequest(p znodeRef, data []byte, _ int64) (record, base resources.Record, err error) {
	if !requestID.MatchString(p.id) {
		return nil, nil, errors.New("its name is not of the form 200-0000000001")
	}
	var doc requestJSON
	if err := unmarshal(data, &doc); err != nil {
		return nil, nil, err
	}
	switch state := resources.State(doc.State); {
	case !slices.Contains(requestStates, state):
		return nil, nil, fmt.Errorf("its state is %.40q", state)
	case len(doc.Labels) == 0:
		return nil, nil, errors.New("it requests no nodes")
	}
	r := doc.record(p.id)
	bare := *r
	if requestExtras.overlay(r, doc.Extra); doc.Extra != nil && doc.Extra.Declined != nil {
		r.Declined = mergeDeclined(r.Declined, doc.Declined)
	}
	return r, &bare, nil
}

func (doc *requestJSON) record(id string) *resources.Request {
	priority, _ := strconv.ParseInt(id[:strings.IndexByte(id, '-')], 10, 64)
	r := &resources.Request{ID: id, State: resources.State(doc.State), StateTime: doc.Time.Time, Created: doc.Created.Time,
		Labels: doc.Labels, Priority: priority, RelativePriority: int64(doc.Relative), Requestor: string(doc.Who), Tenant: string(doc.Tenant),
		EventID: string(doc.Event), Provider: string(doc.Provider), Fresh: doc.Reuse != nil && !*doc.Reuse, Nodes: doc.Nodes}
	if string(doc.Data) != "null" {
		r.Data = doc.Data
	}
	for _, by := range doc.Declined {
		r.Declined = append(r.Declined, resources.Decline{PoolID: by})
	}
	return r
}

// mergeDeclined joins npctl's declines with the IDs that all programs write. An ID that is no longer in ids was
// withdrawn; an ID without a decline of npctl's belongs to another program.
func mergeDeclined(ours []resources.Decline, ids []string) []resources.Decline {
	var all []resources.Decline
	known := map[string]bool{}
	for _, d := range ours {
		if whole(d) && !slices.Contains(ids, d.PoolID) {
			continue
		}
		if whole(d) {
			known[d.PoolID] = true
		}
		all = append(all, d)
	}
	for _, id := range ids {
		if !known[id] {
			all = append(all, resources.Decline{PoolID: id})
		}
	}
	return all
}

// whole reports whether a pool declined a request with its ID and not only in one zone. Other programs do not know
// zones: for them a pool in declined_by has declined finally.
func whole(d resources.Decline) bool { return d.PoolID != "" && d.Zone == "" }

func declinedBy(r *resources.Request) []string {
	ids := []string{}
	for _, d := range r.Declined {
		if whole(d) && !slices.Contains(ids, d.PoolID) {
			ids = append(ids, d.PoolID)
		}
	}
	return ids
}

// requestValues returns each key that Zuul reads without a default; keys that do not apply are null.
func requestValues(record resources.Record) values {
	r := record.(*resources.Request)
	data := r.Data
	if len(data) == 0 {
		data = null
	}
	return values{
		{"state", asJSON(r.State)}, {"state_time", formatSeconds(r.StateTime)}, {"declined_by", asJSON(declinedBy(r))},
		{"node_types", asJSON(notNil(r.Labels))}, {"nodes", asJSON(notNil(r.Nodes))}, {"reuse", asJSON(!r.Fresh)},
		{"requestor", asJSON(r.Requestor)}, {"requestor_data", data}, {"provider", orNull(r.Provider)},
		{"relative_priority", asJSON(r.RelativePriority)}, {"event_id", orNull(r.EventID)}, {"created_time", formatSeconds(r.Created)},
		{"tenant_name", orNull(r.Tenant)},
	}
}

// reasoned drops the pool and provider that were only looked up in the registry.
func reasoned(declined []resources.Decline) []resources.Decline {
	declined = slices.Clone(declined)
	for i, d := range declined {
		if whole(d) && d.Reason == "" {
			declined[i] = resources.Decline{PoolID: d.PoolID}
		}
	}
	return declined
}

// checkRequest rejects a request that other programs cannot read.
func checkRequest(r *resources.Request) error {
	switch {
	case r.Priority < 0 || r.Priority > 999:
		return state.Invalidf("priority %d of a request: it must have at most three digits", r.Priority)
	case r.ID != "" && !requestID.MatchString(r.ID):
		return state.Invalidf("request id %q: it must be of the form 200-0000000001", r.ID)
	case len(r.Data) > 0 && !json.Valid(r.Data):
		return state.Invalidf("data of a request: it is not JSON")
	}
	return nil
}

func notNil(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
