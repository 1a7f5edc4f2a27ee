package text

import "testing"

func TestCutTextStatesOmittedLength(t *testing.T) {
	if got, want := Cut("日本語", 4), "日… (6 bytes more)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := Cut("short", 5); got != "short" {
		t.Errorf("got %q", got)
	}
}
