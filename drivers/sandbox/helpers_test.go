package sandbox_test

import (
	"encoding/json"
	"net/http"
	"os"
	"sync/atomic"
	"testing"

	"github.com/npctl/npctl/drivers/sandbox/sandboxcloud"
	"github.com/npctl/npctl/internal/testutil"
)

func countCalls(n *atomic.Int64) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return testutil.RoundTripper(func(r *http.Request) (*http.Response, error) {
			n.Add(1)
			return next.RoundTrip(r)
		})
	}
}

func writeFaults(t *testing.T, path string, faults ...sandboxcloud.Fault) {
	t.Helper()
	text, err := json.Marshal(faults)
	testutil.Must(t, err)
	testutil.Must(t, os.WriteFile(path, text, 0o600))
}
