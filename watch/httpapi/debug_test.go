package httpapi_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/watch/httpapi"
)

func TestProfilesExistOnlyOnTheSocket(t *testing.T) {
	l := newLab(t, fleet, nil)
	for path, want := range map[string]string{"goroutine?debug=2": "watch.(*Daemon).Run", "heap?debug=1": "heap profile", "profile?seconds=1": "", "nothing": ""} {
		status, _, text := l.raw("GET", "/debug/pprof/"+path, "")
		if ok := status == http.StatusOK; ok != (path != "nothing") || !strings.Contains(text, want) {
			t.Errorf("%s: %d, want %q", path, status, want)
		}
	}
	cert, key := newAuthority(t, "authority").issue("server")
	url := l.overTLS(httpapi.TLS{Cert: cert, Key: key})
	remote := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // the certificate is not tested here
	defer remote.CloseIdleConnections()
	for _, method := range []string{"GET", "POST"} {
		r, err := http.NewRequestWithContext(t.Context(), method, url+"/debug/pprof/heap", http.NoBody)
		testutil.Must(t, err)
		r.Header.Set("Authorization", "Bearer "+fullToken)
		answer, err := remote.Do(r)
		testutil.Must(t, err)
		text, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusNotFound {
			t.Errorf("%s over TCP: %d %s", method, answer.StatusCode, text)
		}
	}
}
