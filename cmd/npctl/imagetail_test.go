package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/npctl/npctl/internal/testutil"
)

func TestLastLinesAreThoseOfSplitting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var lines []string
		for _, length := range rapid.SliceOfN(rapid.SampledFrom([]int{0, 1, 80, 10_000, 32<<10 - 1, 32 << 10}), 0, 12).Draw(t, "lengths") {
			lines = append(lines, strings.Repeat("x", length))
		}
		text := strings.Join(lines, "\n")
		if rapid.Bool().Draw(t, "ends with a line break") && text != "" {
			text += "\n"
		}
		n := rapid.IntRange(0, 10).Draw(t, "n")
		split := strings.SplitAfter(text, "\n")
		if split[len(split)-1] == "" {
			split = split[:len(split)-1]
		}
		want := strings.Join(split[max(len(split)-n, 0):], "")
		at, err := lastLines(strings.NewReader(text), int64(len(text)), n)
		if got := text[at:]; err != nil || got != want {
			t.Fatalf("last %d lines: %v, %d bytes, want %d", n, err, len(got), len(want))
		}
	})
}

func TestFollowSplitsOnlyLongLines(t *testing.T) {
	var got []int
	var texts []string
	w := &lineWriter{line: func(s string) error { got, texts = append(got, len(s)), append(texts, s); return nil }}
	long := strings.Repeat("x", 2*longestLine+5)
	for _, part := range []string{"a", "b\r\n", "\n", long[:100], long[100:], "\nrest"} {
		if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatalf("wrote %d of %d: %v", n, len(part), err)
		}
	}
	testutil.Must(t, w.Close())
	if diff := cmp.Diff([]int{2, 0, longestLine, longestLine, 5, 4}, got); diff != "" || texts[0] != "ab" || texts[5] != "rest" {
		t.Errorf("%q, lengths (-want +got):\n%s", texts[0], diff)
	}
}

// grow is a log that changes with each call of ended.
type grow struct {
	t     *testing.T
	path  string
	steps []func()
}

func (g *grow) ended(context.Context) (bool, error) {
	if len(g.steps) == 0 {
		return true, nil
	}
	g.steps[0]()
	g.steps = g.steps[1:]
	return len(g.steps) == 0, nil
}

func (g *grow) write(text string, flag int) func() {
	return func() {
		file, err := os.OpenFile(g.path, os.O_CREATE|os.O_WRONLY|flag, 0o600)
		testutil.Must(g.t, err)
		defer file.Close() //nolint:errcheck // a test's file
		if _, err := file.WriteString(text); err != nil {
			g.t.Fatal(err)
		}
	}
}

func TestAFollowedLogIsCopiedToItsEnd(t *testing.T) {
	g := &grow{t: t, path: filepath.Join(t.TempDir(), "x.log")}
	g.steps = []func(){func() {}, g.write("one\ntwo\n", os.O_APPEND), g.write("thr", os.O_APPEND), g.write("ee\n", os.O_APPEND),
		g.write("anew\n", os.O_TRUNC), g.write("last\n", os.O_APPEND)}
	var out bytes.Buffer
	f := logFollower{path: g.path, every: time.Millisecond, to: plainWriter{&out}, ended: g.ended}
	testutil.Must(t, f.run(t.Context(), -1))
	if want := "one\ntwo\nthree\nanew\nlast\n"; out.String() != want {
		t.Errorf("copied %q, want %q", out.String(), want)
	}
}

func TestFollowingEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	f := logFollower{path: filepath.Join(t.TempDir(), "none"), every: time.Millisecond, to: plainWriter{&bytes.Buffer{}},
		ended: func(context.Context) (bool, error) { cancel(errSignal); return false, nil }}
	if err := f.run(ctx, -1); err == nil || !strings.Contains(err.Error(), errSignal.Error()) {
		t.Errorf("ended with %v, want %v", err, errSignal)
	}
}
