package review

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/npctl/npctl/internal/fetch"
	"github.com/npctl/npctl/internal/hints"
	"github.com/npctl/npctl/internal/text"
)

const (
	answerLimit    = 32 << 20 // bytes of one answer
	requestTimeout = 30 * time.Second
	postTimeout    = 10 * time.Minute // of a whole post, with its retries
	tries          = 5
	longestWait    = 3 * time.Minute // that a server may request
	secondaryWait  = time.Minute     // of GitHub, if it does not say how long
)

// client makes the calls of one place.
type client struct {
	http   *http.Client
	base   string // without a slash at its end
	header http.Header
	secret string // never in errors
	prefix string // of answers, before the JSON
}

// newClient returns a client for the address of an API.
func newClient(t Target, base string, header http.Header) (*client, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || u.RawQuery != "" {
		return nil, hints.Add(errors.New("the address of the server is not a web address"), "set -url=https://SERVER")
	}
	if ip, _ := netip.ParseAddr(u.Hostname()); u.Scheme == "http" && !ip.IsLoopback() && u.Hostname() != "localhost" {
		return nil, hints.Add(errors.New("the connection to "+text.Line(u.Host)+" would not be encrypted, and others could read the token"), "set -url=https://SERVER")
	}
	transport := t.Transport
	if transport == nil {
		transport = fetch.NewTransport(nil)
	}
	header.Set("Accept", "application/json")
	header.Set("User-Agent", "npctl")
	refuse := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // only the named server receives the token
	return &client{http: &http.Client{Transport: transport, CheckRedirect: refuse}, base: strings.TrimRight(base, "/"), header: header, secret: t.Token}, nil
}

// call is one request. Its path is escaped.
type call struct {
	method, path string
	query        url.Values
	body         any // nil: none
	into         any // nil: the answer is ignored
}

// statusError is an answer that is no success.
type statusError struct {
	code   int
	status string
	said   string
}

func (e *statusError) Error() string {
	if e.said == "" {
		return "the server answers " + e.status
	}
	return "the server answers " + e.status + ": " + e.said
}

// hasStatus reports whether an error is an answer with this status.
func hasStatus(err error, code int) bool {
	e, ok := errors.AsType[*statusError](err)
	return ok && e.code == code
}

// retry repeats an attempt after transient errors. An attempt lists what exists before it creates something, so that a request whose outcome is
// not known is not sent twice.
func retry(ctx context.Context, attempt func(context.Context) (Outcome, error)) (Outcome, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, postTimeout, fmt.Errorf("not done within %s", postTimeout))
	defer cancel()
	waits := backoff.NewExponentialBackOff()
	waits.InitialInterval, waits.MaxInterval = time.Second, time.Minute
	outcome, err := backoff.Retry(ctx, func() (Outcome, error) { return attempt(ctx) },
		backoff.WithBackOff(waits), backoff.WithMaxTries(tries), backoff.WithMaxElapsedTime(0))
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return outcome, err
}

// do makes one call. Errors that a retry cannot fix are permanent.
func (c *client) do(ctx context.Context, q call) error {
	ctx, cancel := context.WithTimeoutCause(ctx, requestTimeout, fmt.Errorf("no answer within %s", requestTimeout))
	defer cancel()
	response, err := c.send(ctx, q)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(io.LimitReader(response.Body, answerLimit+1))
	switch {
	case err != nil:
		return c.failed(ctx, q, fetch.WithoutURL(err))
	case len(body) > answerLimit:
		return c.permanent(q, errors.New("the answer has more than "+text.Bytes(answerLimit)))
	case response.StatusCode/100 != 2:
		return c.refused(q, response, body)
	case q.into == nil:
		return nil
	}
	if err := json.Unmarshal(bytes.TrimPrefix(body, []byte(c.prefix)), q.into); err != nil {
		return c.permanent(q, hints.Add(errors.New("the answer is not the expected JSON"), "check -url: it is the address of Gerrit, or of the API of the others"))
	}
	return nil
}

func (c *client) send(ctx context.Context, q call) (*http.Response, error) {
	var body io.Reader
	if q.body != nil {
		doc, err := json.Marshal(q.body)
		if err != nil {
			return nil, c.permanent(q, err)
		}
		body = bytes.NewReader(doc)
	}
	address := c.base + q.path
	if len(q.query) > 0 {
		address += "?" + q.query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, q.method, address, body)
	if err != nil {
		return nil, c.permanent(q, fetch.WithoutURL(err))
	}
	request.Header = c.header.Clone()
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, c.failed(ctx, q, fetch.WithoutURL(err))
	}
	return response, nil
}

// failed returns the error of a call without an answer.
func (c *client) failed(ctx context.Context, q call, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if !fetch.IsTransient(err) {
		return c.permanent(q, err)
	}
	return fmt.Errorf("%s: %w", c.name(q), err)
}

// refused returns the error of an answer that is no success.
func (c *client) refused(q call, response *http.Response, body []byte) error {
	refusal := &statusError{response.StatusCode, text.Line(response.Status), c.clean(body)}
	err := fmt.Errorf("%s: %w", c.name(q), refusal)
	if response.StatusCode/100 == 3 {
		return c.permanent(q, hints.Add(refusal, "npctl follows no redirects with a token: set -url to the address of the server itself"))
	}
	wait, limited := pause(response.Header, response.StatusCode, time.Now())
	switch {
	case !limited && !fetch.IsTransientStatus(response.StatusCode):
		return backoff.Permanent(err)
	case wait > longestWait:
		return backoff.Permanent(fmt.Errorf("%w; it requests a pause of %s", err, wait.Round(time.Second)))
	case wait > 0:
		return &waitError{err, &backoff.RetryAfterError{Duration: wait}}
	default:
		return err
	}
}

// waitError is an error with the pause that the server requests.
type waitError struct {
	error
	wait *backoff.RetryAfterError
}

func (e *waitError) Unwrap() []error { return []error{e.error, e.wait} }

// pause returns how long a server asks to wait, and whether the answer is about a limit. GitHub sends 403 and 429 for limits and 403 for missing
// permissions.
func pause(header http.Header, code int, now time.Time) (wait time.Duration, limited bool) {
	wait = fetch.RetryAfter(header)
	reset, err := strconv.ParseInt(header.Get("X-Ratelimit-Reset"), 10, 64)
	exhausted := err == nil && header.Get("X-Ratelimit-Remaining") == "0"
	switch {
	case wait > 0:
		return wait, code == http.StatusForbidden || code == http.StatusTooManyRequests
	case code != http.StatusForbidden && code != http.StatusTooManyRequests:
		return 0, false
	case exhausted:
		return max(time.Unix(reset, 0).Sub(now), time.Second), true
	case code == http.StatusTooManyRequests:
		return secondaryWait, true
	default:
		return 0, false
	}
}

// clean returns the message of a refusal, short, on one line and without the token.
func (c *client) clean(body []byte) string {
	said := strings.TrimSpace(string(body[:min(len(body), 4096)]))
	var doc struct {
		Message any `json:"message"`
		Error   any `json:"error"`
	}
	if json.Unmarshal(body, &doc) == nil {
		for _, value := range []any{doc.Message, doc.Error} {
			if value != nil {
				said = fmt.Sprint(value)
			}
		}
	} else if strings.HasPrefix(said, "<") {
		return "" // a web page
	}
	if c.secret != "" {
		said = strings.ReplaceAll(said, c.secret, "(token)")
	}
	return text.Cut(text.Line(said), 300)
}

func (c *client) permanent(q call, err error) error {
	return backoff.Permanent(fmt.Errorf("%s: %w", c.name(q), err))
}

// name returns a call for messages.
func (c *client) name(q call) string { return q.method + " " + text.Line(c.base+q.path) }
