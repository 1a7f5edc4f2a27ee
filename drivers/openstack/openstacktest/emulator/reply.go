package emulator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// answer is a handler's response: a body to encode as JSON, text, or a stream.
type answer struct {
	status int
	header http.Header
	body   any                       // encoded as JSON unless nil
	text   []byte                    // JSON, or the content type in header
	stream func(http.ResponseWriter) // writes the body itself
}

func ok(body any) (*answer, error)      { return &answer{status: http.StatusOK, body: body}, nil }
func created(body any) (*answer, error) { return &answer{status: http.StatusCreated, body: body}, nil }
func accepted(body any) (*answer, error) {
	return &answer{status: http.StatusAccepted, body: body}, nil
}
func noContent() (*answer, error) { return &answer{status: http.StatusNoContent}, nil }

func (a *answer) with(name, value string) *answer {
	if a.header == nil {
		a.header = http.Header{}
	}
	a.header.Set(name, value)
	return a
}

// apiError is an error response, with the text and format of its service.
type apiError struct {
	status     int
	kind       string // neutron's type, such as OverQuota
	message    string
	detail     string // glance's second sentence
	retryAfter time.Duration
}

func (e *apiError) Error() string { return fmt.Sprintf("%d: %s", e.status, e.message) }

func refuse(status int, format string, args ...any) error {
	return &apiError{status: status, message: fmt.Sprintf(format, args...)}
}

// refuseNeutron returns an error with the name of neutron's exception, which is part of its responses.
func refuseNeutron(status int, kind, format string, args ...any) error {
	return &apiError{status: status, kind: kind, message: fmt.Sprintf(format, args...)}
}

func badRequest(format string, args ...any) error {
	return refuse(http.StatusBadRequest, format, args...)
}

// service is one of the APIs.
type service string

const (
	identity service = "identity"
	imaging  service = "image"
	compute  service = "compute"
	neutron  service = "network"
	cinder   service = "volume"
)

// errorAnswer renders an error in the format of the service.
func errorAnswer(s service, e *apiError, accept string) *answer {
	a := &answer{status: e.status}
	if e.retryAfter > 0 {
		a.with("Retry-After", strconv.Itoa(int(e.retryAfter/time.Second)))
	}
	switch {
	case s == imaging:
		glanceError(a, e, accept)
	case s == cinder && e.status == http.StatusRequestEntityTooLarge:
		a.with("Retry-After", "0").body = map[string]any{"overLimit": map[string]any{
			"code": e.status, "message": e.message, "retryAfter": "0",
		}}
	case s == identity || e.status == http.StatusUnauthorized:
		// The middleware in front of every service responds to a 401 in identity's format.
		a.body = map[string]any{"error": map[string]any{
			"code": e.status, "title": http.StatusText(e.status), "message": e.message,
		}}
	case s == neutron:
		kind := e.kind
		if kind == "" {
			kind = neutronKind(e.status)
		}
		a.body = map[string]any{"NeutronError": map[string]any{"type": kind, "message": e.message, "detail": ""}}
	default:
		a.body = map[string]any{faultName(s, e.status): map[string]any{"code": e.status, "message": e.message}}
	}
	return a
}

// faultName returns the key of an error in nova's and cinder's responses.
func faultName(s service, status int) string {
	switch status {
	case http.StatusBadRequest:
		return "badRequest"
	case http.StatusForbidden:
		return "forbidden"
	case http.StatusNotFound:
		return "itemNotFound"
	case http.StatusMethodNotAllowed:
		return "badMethod"
	case http.StatusConflict:
		return "conflictingRequest"
	case http.StatusRequestEntityTooLarge, http.StatusTooManyRequests:
		return "overLimit"
	case http.StatusUnsupportedMediaType:
		return "badMediaType"
	case http.StatusNotImplemented:
		return "notImplemented"
	case http.StatusServiceUnavailable:
		return "serviceUnavailable"
	}
	if s == cinder {
		return "cinderFault"
	}
	return "computeFault"
}

func neutronKind(status int) string {
	switch status {
	case http.StatusBadRequest:
		return "HTTPBadRequest"
	case http.StatusForbidden:
		return "HTTPForbidden"
	case http.StatusNotFound:
		return "HTTPNotFound"
	case http.StatusConflict:
		return "HTTPConflict"
	case http.StatusTooManyRequests:
		return "HTTPTooManyRequests"
	case http.StatusServiceUnavailable:
		return "HTTPServiceUnavailable"
	default:
		return "HTTPInternalServerError"
	}
}

// glanceError responds as webob does, in the format that the client accepts.
func glanceError(a *answer, e *apiError, accept string) {
	title := http.StatusText(e.status)
	status := fmt.Sprintf("%d %s", e.status, title)
	message := e.message
	if e.status == http.StatusUnauthorized {
		message = glanceUnauthorized
	}
	accept = strings.ToLower(accept)
	switch {
	case accept == "" || strings.Contains(accept, "*/*") || strings.Contains(accept, "text/html"):
		a.text = fmt.Appendf(nil, "<html>\n <head>\n  <title>%s</title>\n </head>\n <body>\n  <h1>%s</h1>\n  %s<br /><br />\n%s\n\n\n </body>\n</html>",
			status, status, html.EscapeString(message), html.EscapeString(e.detail))
		a.with("Content-Type", "text/html; charset=UTF-8")
	case strings.Contains(accept, "application/json"):
		a.body = map[string]any{"message": message + "<br /><br />\n" + e.detail + "\n\n", "code": status, "title": title}
	default:
		a.text = fmt.Appendf(nil, "%s\n\n%s\n%s\n", status, message, e.detail)
		a.with("Content-Type", "text/plain; charset=UTF-8")
	}
}

const glanceUnauthorized = "This server could not verify that you are authorized to access the document you requested. Either you " +
	"supplied the wrong credentials (e.g., bad password), or your browser does not understand how to supply the credentials required."

// refuseGlance returns an error with a second sentence, which some of glance's errors have.
func refuseGlance(status int, detail string) error {
	message := "Access was denied to this resource."
	if status == http.StatusConflict {
		message = "There was a conflict when trying to complete your request."
	}
	return &apiError{status: status, message: message, detail: detail}
}

// encode returns the bytes of the body.
func (a *answer) encode() ([]byte, error) {
	if a.body == nil {
		return a.text, nil
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(a.body)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}
