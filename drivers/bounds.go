package drivers

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
)

// The bounds of what a cloud sends. They are far above what a real account has: a listing that exceeds one of them does not
// end, and would take all memory.
const (
	MaxPages   = 10_000    // of one listing
	MaxItems   = 250_000   // of one listing
	MaxBody    = 128 << 20 // bytes of one response
	maxPerCall = 1 << 30   // bytes of all responses to one call of a Cloud
)

// Pages bounds one listing of several pages. The zero value is usable.
type Pages struct {
	pages, items int
	seen         map[[sha256.Size]byte]bool
}

// Next counts a page with a number of items. next is the token of the page after it, in any form; "" stands for the end. An
// error means that the listing must end without a result.
func (p *Pages) Next(next string, items int) error {
	p.pages++
	p.items += items
	token := sha256.Sum256([]byte(next)) // a token may be long
	switch {
	case p.items > MaxItems:
		return fmt.Errorf("the list does not end: it has more than %d items", MaxItems)
	case next == "":
		return nil
	case p.seen[token]:
		return fmt.Errorf("the list does not end: page %d refers to a page that was read before", p.pages)
	case p.pages >= MaxPages:
		return fmt.Errorf("the list does not end: it has more than %d pages", MaxPages)
	}
	if p.seen == nil {
		p.seen = map[[sha256.Size]byte]bool{}
	}
	p.seen[token] = true
	return nil
}

// volume is the number of bytes that the responses to one call of a Cloud may still have.
type volume struct{ left atomic.Int64 }

type volumeKey struct{}

// boundVolume is the decorator that limits the bytes of all responses to one call.
func boundVolume(ctx context.Context, _ Call, next func(context.Context) error) error {
	v := &volume{}
	v.left.Store(maxPerCall)
	return next(context.WithValue(ctx, volumeKey{}, v))
}

// BoundBodies returns a transport that applies RequestSent to all requests and BoundBody to all responses.
func BoundBodies(next http.RoundTripper) http.RoundTripper { return boundBodies{next} }

type boundBodies struct{ next http.RoundTripper }

func (b boundBodies) RoundTrip(r *http.Request) (*http.Response, error) {
	RequestSent(r.Context())
	answer, err := b.next.RoundTrip(r)
	if err == nil {
		BoundBody(r.Context(), answer)
	}
	return answer, err
}

// CloseIdleConnections is called by http.Client's method of that name.
func (b boundBodies) CloseIdleConnections() {
	if closer, ok := b.next.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

// BoundBody limits the body of a response: reading more than MaxBody bytes, or more than the call of a decorated Cloud may
// read, is an error. Contents of images are no such bodies.
func BoundBody(ctx context.Context, answer *http.Response) {
	if answer.Body != nil {
		all, _ := ctx.Value(volumeKey{}).(*volume)
		answer.Body = &boundBody{ReadCloser: answer.Body, left: MaxBody, all: all}
	}
}

type boundBody struct {
	io.ReadCloser
	left int64
	all  *volume // may be nil
}

func (b *boundBody) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, b.end()
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left+1)])
	b.left -= int64(n)
	switch {
	case b.left < 0:
		return 0, b.end()
	case b.all != nil && b.all.left.Add(-int64(n)) < 0:
		return 0, fmt.Errorf("the responses to one call do not end: they have more than %d bytes", maxPerCall)
	}
	return n, err
}

func (b *boundBody) end() error {
	return fmt.Errorf("the response does not end: it has more than %d bytes", MaxBody)
}

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

// CauseFirst returns an error with the cause of a failed HTTP request before its URL. net/http begins with the URL, behind
// which a table or a narrow terminal cuts the cause off.
func CauseFirst(err error) error {
	var request *url.Error
	if !errors.As(err, &request) {
		return err
	}
	text := fmt.Sprintf("%s (%s %s)", request.Err, request.Op, request.URL)
	return &reordered{err, strings.Replace(err.Error(), request.Error(), text, 1)}
}

type reordered struct {
	error
	text string
}

func (r *reordered) Error() string { return r.text }

func (r *reordered) Unwrap() error { return r.error }
