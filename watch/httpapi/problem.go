package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/watch"
	"github.com/npctl/npctl/watch/httpapi/wire"
)

// problem is an error response.
type problem struct{ wire.Problem }

// Error implements error.
func (p *problem) Error() string { return p.Detail }

// GetStatus implements huma.StatusError.
func (p *problem) GetStatus() int { return p.Status }

// ContentType implements huma.ContentTypeFilter.
func (p *problem) ContentType(string) string { return wire.MediaProblem }

// failure returns the error for a call that fails.
func failure(status int, code wire.Code, hint, format string, args ...any) *problem {
	return &problem{wire.Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Code: code, Hint: hint, Detail: fmt.Sprintf(format, args...)}}
}

// invalid returns the error for an invalid call.
func invalid(hint, format string, args ...any) *problem {
	return failure(http.StatusBadRequest, wire.CodeInvalid, hint, format, args...)
}

// notFound returns the error for an object that does not exist.
func notFound(hint, format string, args ...any) *problem {
	return failure(http.StatusNotFound, wire.CodeNotFound, hint, format, args...)
}

// didYouMean returns a hint with the nearest of the known names, or otherwise.
func didYouMean(name string, known []string, otherwise string) string {
	if near := text.Nearest(name, known); near != "" {
		return "did you mean " + text.Quote(near) + "?"
	}
	return otherwise
}

// newProblem is the form of errors that huma detects. ctx is nil when huma describes the API.
func newProblem(ctx huma.Context, status int, message string, errs ...error) huma.StatusError {
	switch status {
	case http.StatusRequestTimeout:
		ctx.SetHeader("Connection", "close")
		return failure(status, wire.CodeTimeout, "send it again", "the body did not arrive within %s; nothing was changed", ctx.Operation().BodyReadTimeout)
	case http.StatusRequestEntityTooLarge:
		ctx.SetHeader("Connection", "close")
		return failure(status, wire.CodeTooLarge, "", "the body has more than %d bytes", ctx.Operation().MaxBodyBytes)
	case http.StatusUnsupportedMediaType:
		return failure(status, wire.CodeMediaType, "set Content-Type: application/json", "the content type of the body is not JSON")
	case http.StatusInternalServerError:
		return invalid("", "the body is incomplete")
	}
	p := invalid("", "%s", message)
	for i, err := range errs {
		one, ok := errors.AsType[*huma.ErrorDetail](err)
		if !ok || i == problemsAtMost {
			break
		}
		detail, hint := describeDetail(ctx.Operation(), one)
		p.Hint = cmp.Or(p.Hint, hint)
		if i > 0 {
			detail = p.Detail + "; " + detail
		}
		p.Detail = detail
	}
	return p
}

// problemsAtMost is the maximum number of mistakes that an error lists.
const problemsAtMost = 5

// describeDetail describes a mistake by its place, the given value, and what is expected.
func describeDetail(op *huma.Operation, d *huma.ErrorDetail) (detail, hint string) {
	place, name, _ := strings.Cut(d.Location, ".")
	if place == "body" && d.Message == validation.MsgUnexpectedProperty {
		members, _ := op.Metadata["members"].([]string)
		return "unknown member " + text.Quote(name), didYouMean(name, members, "")
	}
	if d.Location == "body" {
		return "the body is invalid: " + text.Cut(strings.TrimPrefix(d.Message, "jsontext: "), reflectAtMost), ""
	}
	given := text.Cut(d.Location, reflectAtMost)
	switch value := d.Value.(type) {
	case string:
		if value != "" {
			given += " is " + text.Quote(value)
		}
	case float64, int64, bool:
		given += fmt.Sprint(" is ", value)
	}
	return given + ": " + d.Message, ""
}

// problems are the responses for known errors. With cut, the response omits the text of the error itself.
var problems = []struct {
	err    error
	status int
	code   wire.Code
	hint   string
	cut    bool
}{
	{watch.ErrInvalid, http.StatusBadRequest, wire.CodeInvalid, "", true},
	{watch.ErrState, http.StatusConflict, wire.CodeInvalidState, "", true},
	{watch.ErrTooManyRequests, http.StatusTooManyRequests, wire.CodeTooManyRequests, "try again later, or raise max_requests in the npctl block", false},
	{state.ErrNotFound, http.StatusNotFound, wire.CodeNotFound, "", false},
	{state.ErrLost, http.StatusConflict, wire.CodeLost, "", false},
	{state.ErrConflict, http.StatusConflict, wire.CodeConflict, "read the object again and repeat the call", false},
	{context.Canceled, http.StatusServiceUnavailable, wire.CodeNotReady, "", false},
	{context.DeadlineExceeded, http.StatusServiceUnavailable, wire.CodeNotReady, "", false},
}

// problemOf returns the response for an error.
func problemOf(err error) *problem {
	if known, ok := errors.AsType[*problem](err); ok {
		return known
	}
	if locked, ok := errors.AsType[*state.LockedError](err); ok {
		p := failure(http.StatusLocked, wire.CodeLocked, "", "%s", err)
		p.Lock = &wire.Lock{Name: locked.Name, Holder: locked.Holder}
		return p
	}
	if heldBack, ok := errors.AsType[*watch.ConsentRequiredError](err); ok {
		p := failure(http.StatusConflict, wire.CodeConsentRequired, "check npctl plan; if the deletions are intended, reload with allow_destroy", "%s", err)
		for _, s := range heldBack.Deletes {
			p.PendingDeletions = append(p.PendingDeletions, string(s.Address))
		}
		return p
	}
	for _, one := range problems {
		if errors.Is(err, one.err) {
			detail := err.Error()
			if one.cut {
				detail = strings.TrimPrefix(detail, one.err.Error()+": ")
			}
			return failure(one.status, one.code, one.hint, "%s", detail)
		}
	}
	return failure(http.StatusInternalServerError, wire.CodeInternal, "", "%s", err)
}
