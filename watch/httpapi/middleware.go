package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"

	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/watch"
)

// call is one call of the API, with its caller.
type call struct {
	serving
	authority *authority
	logger    *slog.Logger
	w         *answer
	r         *http.Request
	op        *huma.Operation // nil: the path is unknown
	need      role            // of op
	role      role
	who       string // name of the token, or "local"
}

type callKey struct{}

// callOf returns the call to which a context belongs.
func callOf(ctx context.Context) *call { return ctx.Value(callKey{}).(*call) }

// ServeHTTP implements http.Handler. It applies the checks that do not depend on the operation.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at, _ := r.Context().Value(servingKey{}).(serving)
	c := &call{serving: at, authority: s.authority, logger: s.Log, w: &answer{ResponseWriter: w}}
	c.r = r.WithContext(context.WithValue(r.Context(), callKey{}, c))
	started := time.Now()
	defer func() {
		broken := recover()
		c.log(started)
		switch broken {
		case nil:
		case http.ErrAbortHandler: // net/http closes the connection
			panic(broken)
		default:
			s.Log.Error("panic in an API call", "path", r.URL.Path, "panic", fmt.Sprint(broken), "stack", string(debug.Stack()))
			if c.w.status != 0 {
				panic(http.ErrAbortHandler)
			}
			c.fail(errors.New("internal error: a bug in npctl"))
		}
	}()
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Security-Policy", "default-src 'none'")
	if err := checkPath(r.URL); err != nil {
		c.fail(err)
		return
	}
	s.mux.ServeHTTP(c.w, c.r)
}

// guard returns a middleware that checks the caller and the query of an operation and limits its time, and how many
// calls run.
func (s *Server) guard(need role, polls bool) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		c := callOf(ctx.Context())
		if need == local && !c.local {
			c.fail(errUnknownPath())
			return
		}
		c.op, c.need = ctx.Operation(), need
		slots := s.calls
		if polls {
			slots = s.longPolls
		}
		if err := s.admit(c, slots); err != nil {
			c.fail(err)
			return
		}
		defer func() { <-slots }()
		c.allowAnswer(s.CallTime + answerTime)
		if !polls {
			limited, cancel := context.WithTimeoutCause(ctx.Context(), s.CallTime, errCallTime)
			defer cancel()
			ctx = huma.WithContext(ctx, limited)
		}
		next(ctx)
	}
}

// admit checks the caller and the query, and waits up to queueTime for a slot for one more call.
func (s *Server) admit(c *call, slots chan struct{}) (err error) {
	if c.who, c.role, err = c.authority.authorize(c.w, c.r, c.need, c.local); err != nil {
		return err
	}
	if s.daemon.Shadow && c.r.Method != http.MethodGet && c.op.OperationID != reloadName {
		return failure(http.StatusConflict, wire.CodeUnsupported, "send the call to the process that serves the requests, or run npctl watch without -shadow",
			"this npctl watch is read-only (-shadow)")
	}
	if err := checkQuery(c.op, c.r.URL.RawQuery); err != nil {
		return err
	}
	timer := time.NewTimer(queueTime)
	defer timer.Stop()
	select {
	case slots <- struct{}{}:
		return nil
	case <-c.r.Context().Done():
		return c.r.Context().Err()
	case <-timer.C:
		c.w.Header().Set("Retry-After", "1")
		return failure(http.StatusServiceUnavailable, wire.CodeBusy, "try again later", "too many concurrent calls")
	}
}

// checkQuery rejects malformed queries, and unknown and repeated parameters.
func checkQuery(op *huma.Operation, query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return invalid("", "the query string is invalid")
	}
	var known []string
	for _, p := range op.Parameters {
		if p.In == "query" {
			known = append(known, p.Name)
		}
	}
	for name, given := range values {
		if !slices.Contains(known, name) {
			return invalid("known parameters: "+cmp.Or(strings.Join(known, ", "), "none"), "unknown parameter %s", text.Quote(name))
		}
		if len(given) > 1 {
			return invalid("", "parameter %s is given %d times", name, len(given))
		}
	}
	return nil
}

// labelPath is the prefix of the paths of labels. A label may contain a slash, which is written as %2F.
const labelPath = "/" + wire.Version + "/labels/"

// checkPath rejects paths that a proxy may interpret differently: empty or dotted segments, escaped slashes, control
// characters.
func checkPath(u *url.URL) error {
	raw, path := u.EscapedPath(), u.Path
	switch {
	case len(raw) > 4*idLength:
		return invalid("", "the path is too long")
	case !strings.HasPrefix(raw, "/") || !utf8.ValidString(path):
		return invalid("", "the path is invalid")
	case strings.Count(raw, "/") != strings.Count(path, "/") && !strings.HasPrefix(raw, labelPath), strings.Contains(path, `\`):
		return invalid("", "the path has an escaped slash")
	}
	for _, r := range path {
		if r < ' ' || r == 0x7f {
			return invalid("", "the path has a control character")
		}
	}
	for i, part := range strings.Split(path[1:], "/") {
		if part == "." || part == ".." || part == "" && (i > 0 || path != "/") {
			return invalid("", "the path has an empty or dotted segment")
		}
	}
	return nil
}

func errUnknownPath() error { return notFound("GET /openapi.json lists all paths", "unknown path") }

// noRoute returns the error for an unknown path or method. To a remote client it does not reveal the operations that
// exist only on the unix socket.
func (s *Server) noRoute(c *call) error {
	var ways []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		again := c.r.Clone(c.r.Context())
		again.Method = method
		_, pattern := s.mux.Handler(again)
		hidden := !c.local && (strings.HasPrefix(c.r.URL.Path, storePath) || strings.HasPrefix(c.r.URL.Path, debugPath))
		if pattern != "/" && !hidden {
			ways = append(ways, method)
		}
	}
	if len(ways) == 0 {
		return errUnknownPath()
	}
	c.w.Header().Set("Allow", strings.Join(ways, ", "))
	return failure(http.StatusMethodNotAllowed, wire.CodeMethod, "use "+strings.Join(ways, " or "), "this path does not support method %s", text.Quote(c.r.Method))
}

// allowAnswer sets the time within which the client must read the response.
func (c *call) allowAnswer(within time.Duration) {
	_ = http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(within)) // unsupported by the writers of tests, which need no limit
}

// errCallTime is the cancellation cause of a call that exceeds CallTime.
var errCallTime = errors.New("the call took too long")

// problem returns the response for an error, and logs an internal one.
func (c *call) problem(err error) *problem {
	p := problemOf(err)
	switch p.Status {
	case http.StatusInternalServerError:
		c.logger.Error("api call failed", "path", c.r.URL.Path, "error", err)
	case http.StatusServiceUnavailable:
		c.w.Header().Set("Connection", "close")
	}
	return p
}

// fail writes an error response.
func (c *call) fail(err error) {
	p := c.problem(err)
	c.w.Header().Set("Content-Type", wire.MediaProblem)
	c.w.WriteHeader(p.Status)
	_ = writeJSON(c.w, p) // a problem can be encoded
}

func (c *call) log(started time.Time) {
	attrs := []any{"method", c.r.Method, "status", c.w.status, "who", c.who, "took", time.Since(started).Round(time.Microsecond)}
	level := slog.LevelDebug
	if c.op != nil {
		attrs = append(attrs, "route", c.op.OperationID, "id", c.r.PathValue("id"))
		if c.role == full && c.r.Method != http.MethodGet && c.w.status < 400 { // a change by a remote client; local commands record their own events
			level = slog.LevelInfo
		}
	}
	c.logger.Log(context.Background(), level, "api call", attrs...)
}

// answer records the status that was written, and writes only the first one.
type answer struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
		a.ResponseWriter.WriteHeader(status)
	}
}

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) {
	a.status = cmp.Or(a.status, http.StatusOK)
	return a.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the connection.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

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
