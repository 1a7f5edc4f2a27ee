package drivertest

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/testutil"
)

// Listing is a list of a cloud that a test replaces.
type Listing struct {
	// Open opens a project with a transport around its own.
	Open func(t *testing.T, wrap func(http.RoundTripper) http.RoundTripper) drivers.Cloud
	// Is reports whether a request is for a page of the list of instances.
	Is func(r *http.Request) bool
	// Page returns a page. Its next page has the token.
	Page func(items int, token string) string
}

// itemsOfPage is the number of items in a page.
const itemsOfPage = 1000

// EndlessLists tests that List ends with an error if the list of the cloud does not end, and how much it reads until then.
func EndlessLists(t *testing.T, l Listing) {
	t.Helper()
	for name, c := range map[string]struct {
		body     func(page int64) io.Reader
		maxPages int64
		maxBytes int64
	}{
		"NewPages": {func(page int64) io.Reader {
			return strings.NewReader(l.Page(itemsOfPage, "page-"+strconv.FormatInt(page, 10)))
		},
			drivers.MaxItems/itemsOfPage + 1, drivers.MaxBody},
		"OnePageAgain":       {func(int64) io.Reader { return strings.NewReader(l.Page(1, "same")) }, 2, 1 << 20},
		"TwoPagesAgain":      {func(page int64) io.Reader { return strings.NewReader(l.Page(1, strconv.FormatInt(page%2, 10))) }, 3, 1 << 20},
		"ResponseWithSpaces": {func(int64) io.Reader { return spaces{} }, 1, drivers.MaxBody + 1<<20},
	} {
		t.Run(name, func(t *testing.T) {
			var pages, read atomic.Int64
			cloud := l.Open(t, func(next http.RoundTripper) http.RoundTripper {
				return testutil.RoundTripper(func(r *http.Request) (*http.Response, error) {
					if !l.Is(r) {
						return next.RoundTrip(r)
					}
					body := &countedBody{c.body(pages.Add(1)), &read}
					return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: -1, Body: body, Request: r}, nil
				})
			})
			if found, err := cloud.List(t.Context()); err == nil || !strings.Contains(err.Error(), "does not end") {
				t.Errorf("List = %d instances, %v", len(found), err)
			}
			if pages.Load() > c.maxPages || pages.Load() == 0 || read.Load() > c.maxBytes {
				t.Errorf("List read %d pages with %d bytes, want at most %d with %d", pages.Load(), read.Load(), c.maxPages, c.maxBytes)
			}
		})
	}
}

// spaces is a document that never begins.
type spaces struct{}

func (spaces) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

type countedBody struct {
	io.Reader
	read *atomic.Int64
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.read.Add(int64(n))
	return n, err
}

func (b *countedBody) Close() error { return nil }
