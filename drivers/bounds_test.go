package drivers_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

func TestPagesEnd(t *testing.T) {
	for name, c := range map[string]struct {
		token func(page int) string
		items int
		pages int // until the error; 0 means none
		want  string
	}{
		"empty pages":     {func(page int) string { return fmt.Sprint(page) }, 0, drivers.MaxPages, "more than 10000 pages"},
		"full pages":      {func(page int) string { return fmt.Sprint(page) }, 1000, drivers.MaxItems/1000 + 1, "more than 250000 items"},
		"one token":       {func(int) string { return "a" }, 1, 2, "page 2 refers to a page that was read before"},
		"a loop":          {func(page int) string { return fmt.Sprint(page % 3) }, 1, 4, "page 4 refers to"},
		"one huge page":   {func(int) string { return "" }, drivers.MaxItems + 1, 1, "items"},
		"one page":        {func(int) string { return "" }, drivers.MaxItems, 0, ""},
		"the last of few": {func(page int) string { return fmt.Sprint(page)[:min(1, 5-page)] }, 1, 0, ""},
	} {
		var listed drivers.Pages
		for page := 1; ; page++ {
			next := c.token(page)
			err := listed.Next(next, c.items)
			if err != nil && (page != c.pages || !strings.Contains(err.Error(), c.want)) || err == nil && (page == c.pages || page > c.pages && next != "" && c.pages > 0) {
				t.Errorf("%s: page %d: %v", name, page, err)
			}
			if err != nil || next == "" {
				break
			}
		}
	}
}

// zeros is a response of a number of bytes.
type zeros struct{ left int64 }

func (z *zeros) Read(p []byte) (int, error) {
	if z.left <= 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), z.left)
	z.left -= n
	return int(n), nil
}

func (z *zeros) Close() error { return nil }

// bodies is a transport with responses of a size.
func bodies(size int64) http.RoundTripper {
	return drivers.BoundBodies(testutil.RoundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{Body: &zeros{size}}, nil
	}))
}

// fetch reads responses to the end.
func fetch(ctx context.Context, from http.RoundTripper, responses int) error {
	for range responses {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://cloud.test/", http.NoBody)
		if err != nil {
			return err
		}
		answer, err := from.RoundTrip(request)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, answer.Body)
		if err := errors.Join(err, answer.Body.Close()); err != nil {
			return err
		}
	}
	return nil
}

func TestResponsesAreBounded(t *testing.T) {
	if err := fetch(t.Context(), bodies(drivers.MaxBody), 1); err != nil {
		t.Errorf("a response of the largest size: %v", err)
	}
	if err := fetch(t.Context(), bodies(drivers.MaxBody+1), 1); err == nil || !strings.Contains(err.Error(), "more than 134217728 bytes") {
		t.Errorf("a longer response: %v", err)
	}
}

// reader is a Cloud that reads responses.
type reader struct {
	*script
	responses int
}

func (r *reader) List(ctx context.Context) ([]resources.Instance, error) {
	return nil, fetch(ctx, bodies(drivers.MaxBody), r.responses)
}

func TestAllResponsesToOneCallAreBounded(t *testing.T) {
	cloud := &reader{&script{}, 8}
	decorated := drivers.Decorate(cloud, drivers.DecorateOptions{Attempts: 1})
	for range 2 { // each call has its own bound
		if _, err := decorated.List(t.Context()); err != nil {
			t.Errorf("1 GiB: %v", err)
		}
	}
	cloud.responses = 9
	if _, err := decorated.List(t.Context()); err == nil || !strings.Contains(err.Error(), "the responses to one call do not end") {
		t.Errorf("more than 1 GiB: %v", err)
	}
}
