package drivers

import (
	"context"
	"sync/atomic"
)

// requestsKey is the key of a counter in the context of a call.
type requestsKey struct{}

// countRequests returns the context of a call and the number of requests that the call has sent.
func countRequests(ctx context.Context) (context.Context, *atomic.Int64) {
	var sent atomic.Int64
	return context.WithValue(ctx, requestsKey{}, &sent), &sent
}

// RequestSent counts a request to a cloud for the call with this context. The transport of BoundBodies
// calls it.
func RequestSent(ctx context.Context) {
	if sent, ok := ctx.Value(requestsKey{}).(*atomic.Int64); ok {
		sent.Add(1)
	}
}
