package plan

import (
	"testing"

	"github.com/npctl/npctl/internal/text"
)

func renderHostile(r rune) bool { return text.Hostile(r) }

func TestCutTextStatesOmittedLength(t *testing.T) {
	if got, want := renderCut("日本語", 4), "日… (6 bytes more)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := renderCut("short", 5); got != "short" {
		t.Errorf("got %q", got)
	}
}
