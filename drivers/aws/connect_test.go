package aws

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
)

// closedEarly is the body of a request that the SDK has closed after its last byte.
type closedEarly struct{ io.Reader }

func (closedEarly) WriteTo(io.Writer) (int64, error) { return 0, io.EOF }
func (closedEarly) Close() error                     { return nil }

func TestResponseIsReadAfterTheSDKHasClosedTheRequest(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }))
	t.Cleanup(server.Close)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, closedEarly{strings.NewReader("Action=GetCallerIdentity")})
	testutil.Must(t, err)
	request.ContentLength = int64(len("Action=GetCallerIdentity"))
	answer, err := roundTripper{http.DefaultTransport}.Do(request)
	testutil.Must(t, err)
	text, err := io.ReadAll(answer.Body)
	testutil.Must(t, err)
	testutil.Must(t, answer.Body.Close())
	if string(text) != "Action=GetCallerIdentity" {
		t.Errorf("the response is %q", text)
	}
}
