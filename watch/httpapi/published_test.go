package httpapi_test

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/internal/testutil"
)

// TestPublishedDescriptionIsServed compares docs/schemas/openapi.json with the description that the daemon
// serves. With NPCTL_UPDATE=1 it updates the file.
func TestPublishedDescriptionIsServed(t *testing.T) {
	const published = "../../docs/schemas/openapi.json"
	l := newLab(t, fleet, nil)
	text, _ := l.description()
	var served bytes.Buffer
	testutil.Must(t, json.Indent(&served, []byte(text), "", "  "))
	if os.Getenv("NPCTL_UPDATE") != "" {
		testutil.Must(t, os.WriteFile(published, served.Bytes(), 0o644))
	}
	have := testutil.ReadFile(t, published)
	if diff := cmp.Diff(have, served.String()); diff != "" {
		t.Errorf("NPCTL_UPDATE=1 go test ./watch/httpapi -run Published writes it anew (-published +served):\n%s", diff)
	}
}
