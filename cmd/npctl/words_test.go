package main

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestVisibleKeepsLinesAndStopsEscapes(t *testing.T) {
	for text, want := range map[string]string{
		"plain\n\ttext":      "plain\n\ttext",
		"\x1b[2Jgone":        `\x1b[2Jgone`,
		"back\u202ewards":    `back\u202ewards`,
		"nul\x00 and \u009b": `nul\x00 and \u009b`,
		"Zürich, 東京, émile":  "Zürich, 東京, émile",
	} {
		if got := visible(text); got != want {
			t.Errorf("visible(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestSentence(t *testing.T) {
	for text, want := range map[string]string{"open x: no\n": "open x: no.", "nothing in .": "nothing in .", "done.": "done."} {
		if got := sentence(text); got != want {
			t.Errorf("sentence(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestAge(t *testing.T) {
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	for d, want := range map[time.Duration]string{5 * time.Second: "5s", -time.Hour: "0s", 90 * time.Second: "1m", 47 * time.Hour: "47h", 72 * time.Hour: "3d"} {
		if got := age(now.Add(-d), now); got != want {
			t.Errorf("age of %s is %s, want %s", d, got, want)
		}
	}
}

func TestHintsOutliveWrapping(t *testing.T) {
	err := errors.Join(hint(errors.New("no"), "try this"), errors.New("and that"))
	if got := nextStep(err); got != "try this" {
		t.Errorf("nextStep = %q", got)
	}
}

func TestDurationsInJSONLogsAreSeconds(t *testing.T) {
	var b strings.Builder
	log := slog.New(slog.NewJSONHandler(&b, &slog.HandlerOptions{ReplaceAttr: inSeconds}))
	log.Info("step done", "took", 1500*time.Millisecond, "step", "x")
	if got := b.String(); !strings.Contains(got, `"took_seconds":1.5,"step":"x"`) {
		t.Errorf("the log has %s", got)
	}
}
