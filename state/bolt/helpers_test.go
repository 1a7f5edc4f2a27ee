package bolt_test

import (
	"strings"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// opFor returns an op that changes the comment of a node.
func opFor(entry state.Entry) state.Op {
	n := *entry.Record.(*resources.Node)
	n.Comment += "+"
	return state.Op{Record: &n, Revision: entry.Revision}
}

func overwrite(t *testing.T, path, text string) {
	t.Helper()
	testutil.WriteFile(t, path, text)
}

// says checks that the text of an error contains all parts.
func says(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one with %q", parts)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q: %v", part, err)
		}
	}
}
