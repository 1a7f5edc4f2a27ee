package drivers

import (
	"io"
	"net/http"
	"sync"
)

// Reauthorize returns a transport for a credential that may end before its time: a token that a service has withdrawn, or one
// of which only the service knows the end. authorize returns a transport that adds a new credential to requests, and may be
// called at any time. When a service answers 401, the transport calls authorize again and repeats the request once.
func Reauthorize(authorize func() (http.RoundTripper, error)) (http.RoundTripper, error) {
	first, err := authorize()
	return &reauthorized{authorize: authorize, current: first}, err
}

type reauthorized struct {
	authorize func() (http.RoundTripper, error)

	mu       sync.Mutex        // guards the fields below
	current  http.RoundTripper // has the newest credential
	renewals int
}

// RoundTrip implements http.RoundTripper.
func (t *reauthorized) RoundTrip(r *http.Request) (*http.Response, error) {
	t.mu.Lock()
	authorized, renewals := t.current, t.renewals
	t.mu.Unlock()
	answer, err := authorized.RoundTrip(r.Clone(r.Context())) // it may change the header of the request
	if err != nil || answer.StatusCode != http.StatusUnauthorized {
		return answer, err
	}
	again := r.Clone(r.Context())
	if r.Body != nil && r.Body != http.NoBody {
		if r.GetBody == nil {
			return answer, nil
		}
		if again.Body, err = r.GetBody(); err != nil {
			return answer, nil //nolint:nilerr // the response of the service says more
		}
	}
	if authorized, err = t.renew(renewals); err != nil {
		return answer, nil //nolint:nilerr // as above
	}
	_, _ = io.Copy(io.Discard, answer.Body) // for the next use of the connection
	_ = answer.Body.Close()
	return authorized.RoundTrip(again)
}

// renew returns a transport with a newer credential than the one after that many renewals. Requests that a service rejects at
// the same time share it.
func (t *reauthorized) renew(after int) (http.RoundTripper, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.renewals > after {
		return t.current, nil
	}
	next, err := t.authorize()
	if err == nil {
		t.current, t.renewals = next, t.renewals+1
	}
	return next, err
}

// CloseIdleConnections is called by http.Client's method of that name.
func (t *reauthorized) CloseIdleConnections() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if closer, ok := t.current.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}
