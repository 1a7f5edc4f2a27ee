package httpapi

import (
	"errors"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/watch/httpapi/wire"
)

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
