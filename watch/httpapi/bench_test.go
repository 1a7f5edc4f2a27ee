package httpapi_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// BenchmarkCalls measures calls without the network.
func BenchmarkCalls(b *testing.B) {
	l := newLab(b, fleet, nil)
	for _, c := range []struct{ name, method, path, body string }{
		{"list nodes", "GET", "/v1/nodes?state=ready", ""},
		{"reject request", "POST", "/v1/requests", `{"labels":["unknown"],"requestor":"me","tenant":"t","data":{"a":[1,2,3]}}`},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequest(c.method, c.path, strings.NewReader(c.body))
				r.Header.Set("Authorization", "Bearer "+fullToken)
				r.Header.Set("Content-Type", "application/json")
				w := httptest.NewRecorder()
				l.server.ServeHTTP(w, r)
				if _, _ = io.Copy(io.Discard, w.Body); w.Code != http.StatusOK && w.Code != http.StatusBadRequest {
					b.Fatal(w.Code)
				}
			}
		})
	}
}
