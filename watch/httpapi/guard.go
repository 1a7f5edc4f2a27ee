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

	"github.com/npctl/npctl/internal/connlimit"
	"github.com/npctl/npctl/watch/httpapi/wire"
)

// ServeHTTP implements http.Handler: what guards every route.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at, _ := r.Context().Value(servingKey{}).(serving)
	c := &call{Server: s, w: &answer{ResponseWriter: w}, r: r, ending: at.ending}
	started := time.Now()
	defer func() {
		broken := recover()
		c.log(started)
		switch broken {
		case nil:
		case http.ErrAbortHandler: // package http cuts the connection
			panic(broken)
		default:
			s.Log.Error("mistake while answering", "path", r.URL.Path, "panic", fmt.Sprint(broken), "stack", string(debug.Stack()))
			c.fail(errors.New("a mistake in npctl"))
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

// serve finds out what is asked for and whether it may be, and does it.
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
	if err := c.authenticate(isLocal); err != nil {
		return err
	}
	if c.daemon.Shadow && c.r.Method != http.MethodGet && c.route.name != "reload" {
		return hinted(&failure{status: http.StatusConflict, code: wire.CodeUnsupported, detail: "this npctl watch only looks on (-shadow), and changes nothing"},
			"ask whoever serves the requests; npctl watch without -shadow serves them itself")
	}
	c.mux.ServeHTTP(discard{}, c.r) // it sets the values of the path
	if count := utf8.RuneCountInString(c.id()); count > idLength {
		return invalid("an id of %d characters is longer than any", count)
	}
	if err := c.checkQuery(); err != nil {
		return err
	}
	done, err := c.turn()
	if err != nil {
		return err
	}
	defer done()
	return c.answerRoute()
}

// discard is a response that nobody gets.
type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) WriteHeader(int)             {}

// labelPath begins the path of a label, whose name may have a slash; it is written %2F.
const labelPath = "/" + wire.Version + "/labels/"

// checkPath refuses paths that mean something else to somebody: with empty or dotted parts, with slashes or control
// characters in disguise.
func checkPath(u *url.URL) error {
	raw, path := u.EscapedPath(), u.Path
	switch {
	case len(raw) > 4*idLength:
		return invalid("the path is too long")
	case !strings.HasPrefix(raw, "/") || !utf8.ValidString(path):
		return invalid("the path cannot be understood")
	case strings.Count(raw, "/") != strings.Count(path, "/") && !strings.HasPrefix(raw, labelPath), strings.Contains(path, `\`):
		return invalid("the path has a slash in disguise")
	}
	for _, r := range path {
		if r < ' ' || r == 0x7f {
			return invalid("the path has a control character")
		}
	}
	for i, part := range strings.Split(path[1:], "/") {
		if part == "." || part == ".." || part == "" && (i > 0 || path != "/") {
			return invalid("the path has an empty or dotted part")
		}
	}
	return nil
}

// noRoute says that there is nothing, or not that way. A listener beyond the machine does not tell what others have.
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
		return hinted(&failure{status: http.StatusNotFound, code: wire.CodeNotFound, detail: "there is nothing here"},
			"GET /openapi.json tells what there is")
	}
	c.w.Header().Set("Allow", strings.Join(ways, ", "))
	return hinted(&failure{status: http.StatusMethodNotAllowed, code: wire.CodeMethod, detail: "this cannot be done here with " + quoted(c.r.Method)},
		"use "+strings.Join(ways, " or "))
}

// authenticate finds out who calls, and refuses what they may not do.
func (c *call) authenticate(isLocal bool) error {
	if isLocal {
		c.role, c.who = local, "local"
		return nil
	}
	if c.route.need == local {
		c.route = nil
		return hinted(&failure{status: http.StatusNotFound, code: wire.CodeNotFound, detail: "there is nothing here"}, "GET /openapi.json tells what there is")
	}
	if given, found := bearer(c.r); found && c.Tokens != nil {
		if err := c.recognize(given); err != nil {
			return err
		}
	}
	switch {
	case c.role >= c.route.need:
		return nil
	case c.role == nobody:
		return c.unauthorized()
	default:
		return hinted(&failure{status: http.StatusForbidden, code: wire.CodeForbidden, detail: "the token " + quoted(c.who) + " may only look"},
			"use one whose role is full")
	}
}

// unauthorized is the error of a call without a valid token.
func (c *call) unauthorized() error {
	c.w.Header().Set("WWW-Authenticate", `Bearer realm="npctl"`)
	return hinted(&failure{status: http.StatusUnauthorized, code: wire.CodeUnauthorized, detail: "a token is needed, and there is none that is known"},
		"send it as Authorization: Bearer TOKEN")
}

// bearer returns the token of a request. The name of the scheme has no case.
func bearer(r *http.Request) (token string, found bool) {
	scheme, token, _ := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " ")
	return strings.TrimSpace(token), strings.EqualFold(scheme, "Bearer")
}

// revoked reports whether the token of a call has become invalid, or too weak, since the call began.
func (c *call) revoked() bool {
	given, found := bearer(c.r)
	if c.role == local || c.route.need == nobody || !found || c.Tokens == nil {
		return false
	}
	if _, c.role = c.Tokens.find(given); c.role < c.route.need {
		c.Log.Info("end a call whose token was revoked", "route", c.route.name, "who", c.who)
		return true
	}
	return false
}

// recognize finds out whose token that is, unless too many wrong ones have come from the same address.
func (c *call) recognize(given string) error {
	from, now := connlimit.Client(c.r.RemoteAddr), time.Now()
	if wait := c.guesses.wait(from, now); wait > 0 {
		c.Guessed(guessThrottled)
		c.w.Header().Set("Retry-After", retryAfter(wait))
		return hinted(&failure{status: http.StatusTooManyRequests, code: wire.CodeThrottled,
			detail: "too many tokens from your address were wrong, so this one was not looked at"}, "try again a little later, with the right one")
	}
	if c.who, c.role = c.Tokens.find(given); c.role == nobody {
		c.guesses.wrong(from, now)
		c.Guessed(guessUnknown)
	}
	return nil
}

// turn waits until there is room for one more call.
func (c *call) turn() (done func(), err error) {
	room := c.calls
	if c.route.lasting {
		room = c.waits
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
		return nil, hinted(&failure{status: http.StatusServiceUnavailable, code: wire.CodeBusy, detail: "too much is asked for at a time"}, "try again a little later")
	}
}

// answerRoute does what is asked for and answers.
func (c *call) answerRoute() error {
	if c.r.ContentLength == 0 {
		c.arrived()
	}
	c.allowAnswer(c.CallTime + answerTime)
	result, err := c.do()
	if err != nil {
		return err
	}
	switch {
	case c.w.(*answer).status != 0: // it has answered
		return nil
	case c.route.answer == nil:
		c.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return c.writeJSON(max(c.route.status, http.StatusOK), "application/json", result)
}

// do does what is asked for. A call that does not wait for something has CallTime for it.
func (c *call) do() (any, error) {
	if c.route.lasting {
		return c.route.do(c)
	}
	ctx, cancel := context.WithTimeoutCause(c.ctx(), c.CallTime, errCallTime)
	defer cancel()
	limited := *c
	limited.r = c.r.WithContext(ctx)
	result, err := c.route.do(&limited)
	if errors.Is(err, context.DeadlineExceeded) && errors.Is(context.Cause(ctx), errCallTime) {
		err = hinted(&failure{status: http.StatusServiceUnavailable, code: wire.CodeTimeout, detail: fmt.Sprintf("the call was ended after %s", c.CallTime)},
			"check what it has changed before you repeat it")
	}
	return result, err
}

// allowAnswer gives the client so long from now on to read what is written.
func (c *call) allowAnswer(within time.Duration) {
	_ = http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(within)) // where it cannot be set, as in tests, nothing is slow
}

// errCallTime is the cause with which the context of a call ends that takes too long.
var errCallTime = errors.New("the call took too long")

// arrived ends the time limit of the body, at which the call would count as abandoned.
func (c *call) arrived() {
	_ = http.NewResponseController(c.w).SetReadDeadline(time.Time{}) // where it cannot be set, as in tests, nothing is slow
}

// lasts prepares for an answer that takes longer than a call may take to arrive. The body has to be read by then.
func (c *call) lasts(wait time.Duration) {
	c.arrived()
	c.allowAnswer(wait + answerTime)
}

func (c *call) log(started time.Time) {
	status := c.w.(*answer).status
	attrs := []any{"method", c.r.Method, "status", status, "who", c.who, "took", time.Since(started).Round(time.Microsecond)}
	if c.route != nil {
		attrs = append(attrs, "route", c.route.name, "id", c.id())
	}
	if c.route != nil && c.role == full && c.r.Method != http.MethodGet && status < 400 { // by a token; what was done is told by who did it
		c.Log.Info("api call", attrs...)
		return
	}
	c.Log.Debug("api call", attrs...)
}

// answer remembers the status that was written.
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
