package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/watch"
	"github.com/npctl/npctl/watch/httpapi/wire"
)

// apiError is an error with its status, code and hint.
type apiError struct {
	status int
	code   wire.Code
	detail string
	hint   string
	report string
}

func (f *apiError) Error() string { return f.detail }

// invalid returns the error for an invalid call.
func invalid(format string, args ...any) *apiError {
	return &apiError{status: http.StatusBadRequest, code: wire.CodeInvalid, detail: fmt.Sprintf(format, args...)}
}

// notFound returns the error for an object that does not exist.
func notFound(format string, args ...any) *apiError {
	return &apiError{status: http.StatusNotFound, code: wire.CodeNotFound, detail: fmt.Sprintf(format, args...)}
}

func withHint(f *apiError, hint string) *apiError {
	f.hint = hint
	return f
}

// quoted quotes client input, truncated and as valid UTF-8.
func quoted(value string) string { return text.Quote(value) }

// problem converts an error into the problem document of the response.
func problem(err error) wire.Problem {
	var known *apiError
	var tooLarge *http.MaxBytesError
	var locked *state.LockedError
	var heldBack *watch.ConsentRequiredError
	p := wire.Problem{Type: "about:blank", Detail: err.Error()}
	switch {
	case errors.As(err, &known):
		p.Status, p.Code, p.Hint, p.Report = known.status, known.code, known.hint, known.report
	case errors.As(err, &tooLarge):
		p.Status, p.Code, p.Detail = http.StatusRequestEntityTooLarge, wire.CodeTooLarge, fmt.Sprintf("the body has more than %d bytes", tooLarge.Limit)
	case errors.As(err, &locked):
		p.Status, p.Code, p.Lock = http.StatusLocked, wire.CodeLocked, &wire.Lock{Name: locked.Name, Holder: locked.Holder}
	case errors.As(err, &heldBack):
		p.Status, p.Code, p.Hint = http.StatusConflict, wire.CodeConsentRequired, "check npctl plan; if the deletions are intended, reload with allow_destroy"
		for _, s := range heldBack.Deletes {
			p.PendingDeletions = append(p.PendingDeletions, string(s.Address))
		}
	case errors.Is(err, watch.ErrInvalid):
		p.Status, p.Code, p.Detail = http.StatusBadRequest, wire.CodeInvalid, strings.TrimPrefix(p.Detail, watch.ErrInvalid.Error()+": ")
	case errors.Is(err, watch.ErrState):
		p.Status, p.Code, p.Detail = http.StatusConflict, wire.CodeInvalidState, strings.TrimPrefix(p.Detail, watch.ErrState.Error()+": ")
	case errors.Is(err, watch.ErrTooManyRequests):
		p.Status, p.Code, p.Hint = http.StatusTooManyRequests, wire.CodeTooManyRequests, "try again later, or raise max_requests in the npctl block"
	case errors.Is(err, state.ErrNotFound):
		p.Status, p.Code = http.StatusNotFound, wire.CodeNotFound
	case errors.Is(err, state.ErrLost):
		p.Status, p.Code = http.StatusConflict, wire.CodeLost
	case errors.Is(err, state.ErrConflict):
		p.Status, p.Code, p.Hint = http.StatusConflict, wire.CodeConflict, "read the object again and repeat the call"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		p.Status, p.Code = http.StatusServiceUnavailable, wire.CodeNotReady
	default:
		p.Status, p.Code = http.StatusInternalServerError, wire.CodeInternal
	}
	p.Title = http.StatusText(p.Status)
	return p
}

// fail writes an error response. If a response has started, it closes the connection, so that the client does not take
// a partial response for a complete one.
func (c *call) fail(err error) {
	if c.w.(*answer).status != 0 {
		panic(http.ErrAbortHandler)
	}
	if known := (*apiError)(nil); c.ctx().Err() != nil && !errors.As(err, &known) {
		return // the client has disconnected
	}
	p := problem(err)
	if p.Status == http.StatusInternalServerError {
		c.Log.Error("api call failed", "path", c.r.URL.Path, "error", err)
	}
	switch p.Status {
	case http.StatusRequestTimeout, http.StatusRequestEntityTooLarge, http.StatusServiceUnavailable:
		c.w.Header().Set("Connection", "close")
	}
	_ = c.writeJSON(p.Status, wire.MediaProblem, p) // the error means that the client has disconnected
}

// marshal encodes v as JSON and escapes everything that a browser or terminal could interpret.
func marshal(v any) ([]byte, error) {
	doc, err := json.Marshal(v) // escapes <, > and &
	return text.JSON(doc), err
}

// writeJSON writes a response with a JSON document.
func (c *call) writeJSON(status int, media string, v any) error {
	doc, err := marshal(v)
	if err != nil {
		return fmt.Errorf("encode response: %w", err)
	}
	c.w.Header().Set("Content-Type", media)
	c.w.WriteHeader(status)
	_, _ = c.w.Write(append(doc, '\n')) // the error means that the client has disconnected
	return nil
}
