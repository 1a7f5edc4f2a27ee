package drivers

import (
	"context"
	"net/http"
	"sync/atomic"
)

// requestsKey is the key of a counter in the context of a call.
type requestsKey struct{}

// countRequests returns the context of a call and the number of requests that the call has sent.
func countRequests(ctx context.Context) (context.Context, *atomic.Int64) {
	var sent atomic.Int64
	return context.WithValue(ctx, requestsKey{}, &sent), &sent
}

// RequestSent counts a request to a cloud for the call with this context. Drivers with HTTP do not call it: see
// CountRequests.
func RequestSent(ctx context.Context) {
	if sent, ok := ctx.Value(requestsKey{}).(*atomic.Int64); ok {
		sent.Add(1)
	}
}

// CountRequests counts the requests of a transport.
func CountRequests(inner http.RoundTripper) http.RoundTripper { return countingTransport{inner} }

type countingTransport struct{ inner http.RoundTripper }

func (c countingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	RequestSent(r.Context())
	return c.inner.RoundTrip(r)
}

// CloseIdleConnections is called by http.Client's method of that name.
func (c countingTransport) CloseIdleConnections() {
	if inner, ok := c.inner.(interface{ CloseIdleConnections() }); ok {
		inner.CloseIdleConnections()
	}
}
