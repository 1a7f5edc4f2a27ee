package emulator

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
)

// maxBody is the maximum size of a JSON request; the real services have a similar limit.
const maxBody = 2 << 20

// call is one request and its state.
type call struct {
	scope
	cloud     *Cloud
	request   *http.Request
	writer    http.ResponseWriter
	route     *route
	query     query
	body      []byte // of all requests except streams
	micro     micro  // compute only
	requestID string
	root      string // see base
}

// view and update call the store with the time of the call.
func (c *call) view(fn func(*cloudState) error) error   { return c.cloud.store.view(c.now, fn) }
func (c *call) update(fn func(*cloudState) error) error { return c.cloud.store.update(c.now, fn) }

func (c *call) id() string { return c.request.PathValue("id") }

// base returns the URL at which the client reached the cloud.
func (c *call) base() string {
	if c.root == "" {
		c.root = c.findBase()
	}
	return c.root
}

func (c *call) findBase() string {
	scheme := c.request.URL.Scheme
	if scheme == "" {
		scheme = "http"
	}
	if c.request.TLS != nil {
		scheme = "https"
	}
	if forwarded := c.request.Header.Get("X-Forwarded-Proto"); forwarded == "https" {
		scheme = forwarded
	}
	return scheme + "://" + c.request.Host
}

// decode decodes the JSON body into a struct. Unknown fields are errors, as in the schemas of the real services.
func (c *call) decode(into any) error {
	d := json.NewDecoder(bytes.NewReader(c.body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return badRequest("%s", jsonMistake(err))
	}
	return nil
}

// decodeLoosely is decode for bodies with irrelevant fields.
func (c *call) decodeLoosely(into any) error {
	if err := json.Unmarshal(c.body, into); err != nil {
		return badRequest("%s", jsonMistake(err))
	}
	return nil
}

func jsonMistake(err error) string {
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong):
		return "Invalid input for field/attribute " + lastPart(wrong.Field) + ". Value: " + wrong.Value + ". It is not of type '" + wrong.Type.String() + "'"
	case strings.HasPrefix(err.Error(), "json: unknown field "):
		name := strings.Trim(strings.TrimPrefix(err.Error(), "json: unknown field "), `"`)
		return "Invalid input for field/attribute. Additional properties are not allowed ('" + name + "' was unexpected)"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "Malformed request body"
	default:
		return "Malformed request body: " + strings.TrimPrefix(err.Error(), "json: ")
	}
}

func lastPart(field string) string {
	return field[strings.LastIndexByte(field, '.')+1:]
}
