package bolt

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// peekLab is a state file with modification times that the test chooses.
type peekLab struct {
	*testing.T
	*Store
	path string
}

func newPeekLab(t *testing.T) peekLab {
	t.Helper()
	path := filepath.Join(t.TempDir(), "npctl.db")
	s, err := Open(Options{Path: path})
	testutil.Must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	l := peekLab{t, s, path}
	for range 10 { // afterwards the file does not grow for some commits
		l.write(time.Now())
	}
	return l
}

// write commits a record and then sets the modification time of the file.
func (l peekLab) write(date time.Time) {
	l.Helper()
	if _, err := l.Commit(l.Context(), state.Op{Record: &resources.Request{State: resources.StateRequested, Labels: []string{"a"}}}); err != nil {
		l.Fatal(err)
	}
	testutil.Must(l, os.Chtimes(l.path, date, date))
}

func (l peekLab) peek() version {
	l.Helper()
	at, err := l.file.peek()
	testutil.Must(l, err)
	return at
}

func TestPeekDoesNotOpenUnchangedFile(t *testing.T) {
	l := newPeekLab(t)
	long := time.Now().Add(-time.Minute)
	l.write(long)
	before := l.peek()
	l.write(long)
	if l.peek() != before {
		t.Error("the file was opened although its modification time is the same")
	}
	l.write(long.Add(time.Nanosecond))
	if l.peek() == before {
		t.Error("a write was not detected")
	}
}

func TestPeekDoesNotTrustARecentModificationTime(t *testing.T) {
	l := newPeekLab(t)
	for _, age := range []time.Duration{0, settledAge / 2, -time.Hour} {
		date := time.Now().Add(-age)
		l.write(date)
		before := l.peek()
		l.write(date)
		if l.peek() == before {
			t.Errorf("a second write in the same moment was not detected, %s after it", age)
		}
	}
}
