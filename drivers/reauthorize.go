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
	newest, err := NewRenewable(authorize)
	return &reauthorized{newest}, err
}

type reauthorized struct{ *Renewable[http.RoundTripper] }

// RoundTrip implements http.RoundTripper.
func (t *reauthorized) RoundTrip(r *http.Request) (*http.Response, error) {
	authorized, renewals := t.Get()
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
	if authorized, err = t.Renew(renewals); err != nil {
		return answer, nil //nolint:nilerr // as above
	}
	_, _ = io.Copy(io.Discard, answer.Body) // for the next use of the connection
	_ = answer.Body.Close()
	return authorized.RoundTrip(again)
}

// CloseIdleConnections is called by http.Client's method of that name.
func (t *reauthorized) CloseIdleConnections() {
	newest, _ := t.Get()
	if closer, ok := newest.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

// Renewable holds the newest of several values that replace each other, such as a credential and the one after it.
type Renewable[T any] struct {
	open func() (T, error)

	mu       sync.Mutex // guards the fields below
	newest   T
	renewals int
}

// NewRenewable opens the first value. open may be called at any time.
func NewRenewable[T any](open func() (T, error)) (*Renewable[T], error) {
	first, err := open()
	return &Renewable[T]{open: open, newest: first}, err
}

// Get returns the newest value and the number of renewals before it.
func (r *Renewable[T]) Get() (T, int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.newest, r.renewals
}

// Renew returns a newer value than the one after that many renewals. Callers that need one at the same time share it.
func (r *Renewable[T]) Renew(after int) (T, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.renewals > after {
		return r.newest, nil
	}
	next, err := r.open()
	if err == nil {
		r.newest, r.renewals = next, r.renewals+1
	}
	return next, err
}
