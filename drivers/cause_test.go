package drivers_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/npctl/npctl/drivers"
)

func TestCauseComesBeforeTheURL(t *testing.T) {
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:1/compute/v2.1/servers/detail?limit=1000&all_tenants=false", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, refused := http.DefaultClient.Do(request) //nolint:bodyclose // there is no response
	err = drivers.CauseFirst(fmt.Errorf("list servers: %w", refused))
	if got := err.Error(); !strings.HasPrefix(got, "list servers: dial tcp 127.0.0.1:1: connect: connection refused (Get http://") || !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("error is %q", got)
	}
	for _, same := range []error{nil, errors.New("no URL")} {
		if got := drivers.CauseFirst(same); !errors.Is(got, same) {
			t.Errorf("%v became %v", same, got)
		}
	}
}
