package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/npctl/npctl/watch/httpapi/wire"
)

// ServeHTTP implements http.Handler. It applies the checks that all routes share.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at, _ := r.Context().Value(servingKey{}).(serving)
	c := &call{Server: s, w: &answer{ResponseWriter: w}, r: r, ending: at.ending}
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
			c.fail(errors.New("internal error: a bug in npctl"))
		}
	}()
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Security-Policy", "default-src 'none'")
	if err := c.serve(at.local); err != nil {
		c.fail(err)
	}
}

// serve finds the route of a call, checks the path, permissions and query, and runs the route.
func (c *call) serve(isLocal bool) error {
	if err := checkPath(c.r.URL); err != nil {
		return err
	}
	handler, pattern := c.mux.Handler(c.r)
	found, ok := handler.(routed)
	if pattern == "" || !ok {
		return c.noRoute(isLocal)
	}
	c.route = found.route
	if c.route.need == local && !isLocal {
		c.route = nil
		return errUnknownPath()
	}
	var err error
	if c.who, c.role, err = c.authority.authorize(c.w, c.r, c.route.need, isLocal); err != nil {
		return err
	}
	if c.daemon.Shadow && c.r.Method != http.MethodGet && c.route.name != "reload" {
		return withHint(&apiError{status: http.StatusConflict, code: wire.CodeUnsupported, detail: "this npctl watch is read-only (-shadow)"},
			"send the call to the process that serves the requests, or run npctl watch without -shadow")
	}
	c.mux.ServeHTTP(discard{}, c.r) // sets the path values of c.r
	if count := utf8.RuneCountInString(c.id()); count > idLength {
		return invalid("the ID has %d characters, more than any ID has", count)
	}
	if err := c.checkQuery(); err != nil {
		return err
	}
	done, err := c.acquireSlot()
	if err != nil {
		return err
	}
	defer done()
	return c.answerRoute()
}

// discard is a ResponseWriter that drops everything.
type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) WriteHeader(int)             {}

// labelPath is the prefix of the paths of labels. A label may contain a slash, which is written as %2F.
const labelPath = "/" + wire.Version + "/labels/"

// checkPath rejects paths that a proxy may interpret differently: empty or dotted segments, escaped slashes, control
// characters.
func checkPath(u *url.URL) error {
	raw, path := u.EscapedPath(), u.Path
	switch {
	case len(raw) > 4*idLength:
		return invalid("the path is too long")
	case !strings.HasPrefix(raw, "/") || !utf8.ValidString(path):
		return invalid("the path is invalid")
	case strings.Count(raw, "/") != strings.Count(path, "/") && !strings.HasPrefix(raw, labelPath), strings.Contains(path, `\`):
		return invalid("the path has an escaped slash")
	}
	for _, r := range path {
		if r < ' ' || r == 0x7f {
			return invalid("the path has a control character")
		}
	}
	for i, part := range strings.Split(path[1:], "/") {
		if part == "." || part == ".." || part == "" && (i > 0 || path != "/") {
			return invalid("the path has an empty or dotted segment")
		}
	}
	return nil
}

func errUnknownPath() error {
	return withHint(&apiError{status: http.StatusNotFound, code: wire.CodeNotFound, detail: "unknown path"}, "GET /openapi.json lists all paths")
}

// noRoute returns the error for an unknown path or method. To a remote client it does not reveal the routes that exist
// only on the unix socket.
func (c *call) noRoute(isLocal bool) error {
	var ways []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		again := c.r.Clone(c.ctx())
		again.Method = method
		if handler, pattern := c.mux.Handler(again); pattern != "" {
			if found, ok := handler.(routed); ok && (isLocal || found.need < local) {
				ways = append(ways, method)
			}
		}
	}
	if len(ways) == 0 {
		return errUnknownPath()
	}
	c.w.Header().Set("Allow", strings.Join(ways, ", "))
	return withHint(&apiError{status: http.StatusMethodNotAllowed, code: wire.CodeMethod, detail: "this path does not support method " + quoted(c.r.Method)},
		"use "+strings.Join(ways, " or "))
}

// acquireSlot waits up to queueTime for a slot for one more call.
func (c *call) acquireSlot() (done func(), err error) {
	room := c.calls
	if c.route.longPoll {
		room = c.longPolls
	}
	timer := time.NewTimer(queueTime)
	defer timer.Stop()
	select {
	case room <- struct{}{}:
		return func() { <-room }, nil
	case <-c.ctx().Done():
		return nil, c.ctx().Err()
	case <-timer.C:
		c.w.Header().Set("Retry-After", "1")
		return nil, withHint(&apiError{status: http.StatusServiceUnavailable, code: wire.CodeBusy, detail: "too many concurrent calls"}, "try again later")
	}
}

// answerRoute runs the route and writes its result.
func (c *call) answerRoute() error {
	if c.r.ContentLength == 0 {
		c.bodyRead()
	}
	c.allowAnswer(c.CallTime + answerTime)
	result, err := c.run()
	if err != nil {
		return err
	}
	switch {
	case c.w.(*answer).status != 0: // the route has written the response
		return nil
	case c.route.answer == nil:
		c.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return c.writeJSON(max(c.route.status, http.StatusOK), "application/json", result)
}

// run runs the route. A route that is not a long poll is limited to CallTime.
func (c *call) run() (any, error) {
	if c.route.longPoll {
		return c.route.do(c)
	}
	ctx, cancel := context.WithTimeoutCause(c.ctx(), c.CallTime, errCallTime)
	defer cancel()
	limited := *c
	limited.r = c.r.WithContext(ctx)
	result, err := c.route.do(&limited)
	if errors.Is(err, context.DeadlineExceeded) && errors.Is(context.Cause(ctx), errCallTime) {
		err = withHint(&apiError{status: http.StatusServiceUnavailable, code: wire.CodeTimeout, detail: fmt.Sprintf("the call was cancelled after %s", c.CallTime)},
			"it may have made changes; check them before you repeat it")
	}
	return result, err
}

// allowAnswer sets the time within which the client must read the response.
func (c *call) allowAnswer(within time.Duration) {
	_ = http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(within)) // unsupported by the writers of tests, which need no limit
}

// errCallTime is the cancellation cause of a call that exceeds CallTime.
var errCallTime = errors.New("the call took too long")

// bodyRead clears the read deadline, at which net/http would cancel the context of the call.
func (c *call) bodyRead() {
	_ = http.NewResponseController(c.w).SetReadDeadline(time.Time{}) // unsupported by the writers of tests, which need no limit
}

// extendDeadline prepares a response that comes only after the wait. The body must have been read before.
func (c *call) extendDeadline(wait time.Duration) {
	c.bodyRead()
	c.allowAnswer(wait + answerTime)
}

func (c *call) log(started time.Time) {
	status := c.w.(*answer).status
	attrs := []any{"method", c.r.Method, "status", status, "who", c.who, "took", time.Since(started).Round(time.Microsecond)}
	if c.route != nil {
		attrs = append(attrs, "route", c.route.name, "id", c.id())
	}
	if c.route != nil && c.role == full && c.r.Method != http.MethodGet && status < 400 { // a change by a remote client; local commands record their own events
		c.Log.Info("api call", attrs...)
		return
	}
	c.Log.Debug("api call", attrs...)
}

// answer records the status that was written.
type answer struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	return a.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the connection.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
