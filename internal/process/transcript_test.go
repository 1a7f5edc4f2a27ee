package process_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/internal/process"
)

func TestTranscriptOfAProgramElsewhere(t *testing.T) {
	var log bytes.Buffer
	var lines []string
	transcript := process.NewTranscript(process.Spec{Log: &log, LogLimit: 60, Secrets: []string{"hunter2"}, Line: func(line string) { lines = append(lines, line) }})
	transcript.Read(strings.NewReader("one hunter2\n" + strings.Repeat("x", 60) + "\nlast"))
	transcript.End(errors.New("lost with hunter2"))
	want := "one (sensitive)\n" + strings.Repeat("x", 44) +
		"\nnpctl: this log has reached its limit of 60 bytes; further output is omitted, except for the last lines\n" +
		"npctl: 21 bytes were omitted; the last lines:\none (sensitive)\n" + strings.Repeat("x", 60) + "\nlast\nlost with (sensitive)\n"
	if diff := cmp.Diff(want, log.String()); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"one (sensitive)", strings.Repeat("x", 60), "last"}, lines); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(lines, transcript.Tail()); diff != "" {
		t.Errorf("tail (-want +got):\n%s", diff)
	}
}

func TestProgressLines(t *testing.T) {
	type progress struct {
		phase       string
		done, total int64
		ok          bool
	}
	for line, want := range map[string]progress{
		"npctl-progress: 3/10 installing":                {"installing", 3, 10, true},
		"npctl-progress: booting":                        {"booting", 0, 0, true},
		"npctl-progress: 11/10":                          {"", 10, 10, true},
		"installing npctl-progress: 3/10":                {},
		"npctl-progress: 1/2" + strings.Repeat("x", 200): {strings.Repeat("x", 100), 1, 2, true},
	} {
		var got progress
		got.phase, got.done, got.total, got.ok = process.ParseProgress(line)
		if got != want {
			t.Errorf("%.40q is %+v, want %+v", line, got, want)
		}
	}
}
