package zuul

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/npctl/npctl/internal/fetch"
	"github.com/npctl/npctl/internal/text"
)

// api calls Zuul's REST API.
type api struct {
	client  *http.Client
	token   tokens
	shown   string // the address, for messages
	timeout time.Duration
	wait    time.Duration
}

const (
	apiTries      = 3
	apiWait       = 500 * time.Millisecond
	maxRetryAfter = 30 * time.Second // longest Retry-After delay that is honored
	apiLimit      = 32 << 20         // of a response; a build has some KiB
)

var (
	errNotFound     = errors.New("not found")
	errUnauthorized = errors.New("not authorized")
)

func newAPI(s settings, transport http.RoundTripper, wait time.Duration) *api {
	wait = cmp.Or(wait, apiWait)
	client := fetch.NewClient(transport)
	client.CheckRedirect = sameHost
	return &api{client: client, token: tokens{source: s.token}, shown: fetch.Redacted(s.root), timeout: s.APITimeout, wait: wait}
}

// sameHost follows redirects of the API only within the host that may receive the token.
func sameHost(next *http.Request, via []*http.Request) error {
	if err := fetch.CheckRedirect(next, via); err != nil {
		return err
	}
	if first := via[0].URL; next.URL.Hostname() != first.Hostname() || next.URL.Scheme == first.Scheme && next.URL.Host != first.Host {
		return backoff.Permanent(fmt.Errorf("the server redirects to %s: if that is the intended Zuul, write it in api_url", fetch.Redacted(next.URL)))
	}
	return nil
}

// call is a GET of the API.
type call struct {
	address *url.URL
	query   url.Values
	open    bool // never needs a token, so none is sent
}

// get decodes a response. It retries transient errors a few times only, because the caller repeats the call later
// anyway.
func (a *api) get(ctx context.Context, c call, into any) error {
	waits := backoff.NewExponentialBackOff()
	waits.InitialInterval, waits.Multiplier = a.wait, 3
	body, err := backoff.Retry(ctx, func() ([]byte, error) { return a.try(ctx, c) },
		backoff.WithBackOff(waits), backoff.WithMaxTries(apiTries), backoff.WithMaxElapsedTime(0))
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if permanent, ok := errors.AsType[*backoff.PermanentError](err); ok {
		err = permanent.Unwrap()
	}
	if err == nil {
		err = decode(body, into)
	}
	if err != nil {
		return fmt.Errorf("query the Zuul at %s: %w", a.shown, err)
	}
	return nil
}

// decode reports the kind of error without the text, which may be large.
func decode(body []byte, into any) error {
	if start := bytes.TrimLeft(body, " \t\r\n"); bytes.HasPrefix(start, []byte("<")) {
		return errors.New("it returns a web page; is api_url its base address?")
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("its response cannot be decoded; is it a Zuul? %w", err)
	}
	return nil
}

// try makes one call, or two if the token has been replaced in the meantime.
func (a *api) try(ctx context.Context, c call) ([]byte, error) {
	token, err := a.tokenFor(ctx, c)
	if err != nil {
		return nil, backoff.Permanent(err)
	}
	body, err := a.do(ctx, c, token)
	if !errors.Is(err, errUnauthorized) || token == "" {
		return body, err
	}
	fresh, tokenErr := a.tokenFor(ctx, c)
	if tokenErr != nil {
		return nil, backoff.Permanent(tokenErr)
	}
	if fresh == token {
		return nil, err
	}
	return a.do(ctx, c, fresh)
}

func (a *api) tokenFor(ctx context.Context, c call) (string, error) {
	if c.open {
		return "", nil
	}
	return a.token.get(ctx)
}

func (a *api) do(ctx context.Context, c call, token string) ([]byte, error) {
	if a.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, a.timeout, fmt.Errorf("no answer within api_timeout of %s", a.timeout))
		defer cancel()
	}
	address := *c.address
	address.RawQuery = c.query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return nil, backoff.Permanent(fetch.WithoutURL(err))
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "npctl")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := a.client.Do(request)
	if err != nil {
		return nil, permanentError(ctx, fetch.WithoutURL(err))
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, apiLimit+1))
	if err != nil {
		return nil, permanentError(ctx, err)
	}
	if len(body) > apiLimit {
		return nil, backoff.Permanent(fmt.Errorf("its response has more than %s", text.Bytes(apiLimit)))
	}
	return body, judge(response, body, token != "")
}

// permanentError marks errors that a retry cannot fix as permanent.
func permanentError(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if !fetch.IsTransient(err) {
		return backoff.Permanent(err)
	}
	return err
}

func judge(r *http.Response, body []byte, hadToken bool) error {
	said := description(body)
	switch code := r.StatusCode; {
	case code == http.StatusOK:
		return nil
	case code == http.StatusNotFound:
		return backoff.Permanent(fmt.Errorf("%w%s", errNotFound, said))
	case code == http.StatusUnauthorized && hadToken:
		return backoff.Permanent(fmt.Errorf("%w: it does not accept the token%s", errUnauthorized, said))
	case code == http.StatusUnauthorized:
		return backoff.Permanent(fmt.Errorf("%w: it requires a token: set token, token_file or token_command%s", errUnauthorized, said))
	case code == http.StatusForbidden:
		return backoff.Permanent(fmt.Errorf("the token has no permission to read the tenant (%s)%s", r.Status, said))
	case fetch.IsTransientStatus(code):
		wait := fetch.RetryAfter(r.Header)
		err := fmt.Errorf("it returns %s%s", r.Status, said)
		if wait > maxRetryAfter {
			return backoff.Permanent(fmt.Errorf("%w; it requests a pause of %s", err, wait.Round(time.Second)))
		}
		if wait > 0 {
			return &waitError{err, &backoff.RetryAfterError{Duration: wait}}
		}
		return err
	default:
		return backoff.Permanent(fmt.Errorf("it returns %s%s", r.Status, said))
	}
}

// waitError is an error with the server's Retry-After delay.
type waitError struct {
	error
	wait *backoff.RetryAfterError
}

func (e *waitError) Unwrap() []error { return []error{e.error, e.wait} }

// description returns Zuul's own description of an error.
func description(body []byte) string {
	var said struct {
		Description string `json:"description"`
		Error       string `json:"error"`
	}
	if json.Unmarshal(body, &said) != nil || said.Description+said.Error == "" {
		return ""
	}
	text := strings.ToValidUTF8(strings.TrimSpace(said.Error+" "+said.Description), "?")
	return fmt.Sprintf("; its message is %.300q", text)
}
