package program

import (
	"testing"
	"time"
)

// Patience is the timeout of Await. It is far longer than any condition takes on an idle machine.
const Patience = time.Minute

// Await polls a condition until it holds. It fails the test after Patience.
func Await(t testing.TB, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(Patience); !so(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", Patience, what)
		}
	}
}
