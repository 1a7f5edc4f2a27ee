package program

import (
	"testing"
	"time"
)

// Patience is for what takes a moment when nobody else needs the processors.
const Patience = time.Minute

// Await looks again and again until something is so.
func Await(t testing.TB, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(Patience); !so(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", Patience, what)
		}
	}
}
