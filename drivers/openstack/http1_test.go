package openstack

import (
	"crypto/tls"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
)

// An HTTP/2 proxy in front of Glance grants 64 KiB at a time by default, so that an upload with a latency of 20 ms
// would be limited to 3 MB/s.
func TestImagesTravelByHTTP1(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Proto", r.Proto) }))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	e := entry{tls: &tls.Config{RootCAs: s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, s.URL+"/v2/images/i1/file", http.NoBody)
	testutil.Must(t, err)
	resp, err := e.newTransport(nil, slog.New(slog.DiscardHandler)).RoundTrip(request)
	testutil.Must(t, err)
	defer resp.Body.Close()
	if got := resp.Header.Get("Proto"); got != "HTTP/1.1" {
		t.Errorf("sent by %s, want HTTP/1.1", got)
	}
}
