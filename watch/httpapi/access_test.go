package httpapi_test

import (
	"strings"
	"testing"
)

// TestCredentialsAreForTheHolderOfANodeInUse tests the refusals. test/kubernetes tests the credentials.
func TestCredentialsAreForTheHolderOfANodeInUse(t *testing.T) {
	t.Parallel()
	l := newLab(t, fleet, nil)
	l.await("the daemon is ready", func() bool { ready, err := l.Ready(t.Context()); return ready && err == nil })
	leased := l.taken(60e9, "metal")[0]
	for _, c := range []struct{ node, holder, want string }{
		{leased.ID, "another", `is held by \"tester\"`},
		{leased.ID, "", `is held by \"tester\"`},
		{leased.ID, "tester", "not supported by this driver"},
		{"0000009999", "tester", "not-found"},
	} {
		if _, _, answer := l.raw("GET", "/v1/nodes/"+c.node+"/access?holder="+c.holder, ""); !strings.Contains(answer, c.want) {
			t.Errorf("access to node %s by %q: %s, want %s", c.node, c.holder, answer, c.want)
		}
	}
	if _, err := l.ReturnNode(t.Context(), leased.ID); err != nil {
		t.Fatal(err)
	}
	if _, _, answer := l.raw("GET", "/v1/nodes/"+leased.ID+"/access?holder=tester", ""); !strings.Contains(answer, "take it first") && !strings.Contains(answer, "not-found") {
		t.Errorf("access to a returned node: %s", answer)
	}
}
