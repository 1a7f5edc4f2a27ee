package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

func TestLogsOfAnImageAreItsOwn(t *testing.T) {
	dir := t.TempDir()
	hour := func(h int) time.Time { return noon.Add(time.Duration(h) * time.Hour) }
	for name, at := range map[string]time.Time{
		"debian-" + buildID("1") + ".log": hour(-9), "debian-" + buildID("2") + ".log": hour(5), // recorded: the time of the build counts
		"debian-" + buildID("a") + ".log": hour(-1), "debian-11-" + buildID("b") + ".log": hour(1),
		"debian-" + buildID("c") + ".log.old": hour(2), "debian-short.log": hour(3),
	} {
		path := filepath.Join(dir, name)
		testutil.Must(t, os.WriteFile(path, nil, 0o600))
		testutil.Must(t, os.Chtimes(path, at, at))
	}
	entries, err := logsIn(dir)
	testutil.Must(t, err)
	records := plan.Records{Builds: []*resources.Build{{ID: buildID("2"), Image: "debian", State: resources.StateReady, Created: hour(-2)},
		{ID: buildID("3"), Image: "debian", State: resources.StateBuilding, Created: hour(0)}}}
	var got []string
	for _, l := range logsOf("debian", dir, entries, records) {
		got = append(got, l.build[:1]+" "+string(l.state))
	}
	if diff := cmp.Diff([]string{"3 building", "a ", "2 ready", "1 "}, got); diff != "" {
		t.Errorf("newest first (-want +got):\n%s", diff)
	}
	if got, err := logsIn(filepath.Join(dir, "none")); err != nil || len(got) != 0 {
		t.Errorf("a directory that is not there: %v, %v", got, err)
	}
}

// The output of a build must not control the terminal.
func TestALogOnATerminalShowsEscapes(t *testing.T) {
	t.Parallel()
	dir := fleetDir(t)
	changeConfig(t, dir, "echo $GREETING", `printf 'a\\033[31mred\\rback\\n'; echo $GREETING`)
	if code, text := onTerminal(t, dir, nil, "image", "build", "tiny", "-auto-approve").end(); code != 0 {
		t.Fatalf("image build: exit code %d:\n%s", code, text)
	}
	code, shown := onTerminal(t, dir, nil, "image", "log", "tiny").end()
	if want := "\na\\x1b[31mred\nback\n"; code != 0 || strings.Contains(shown, "\x1b") || !strings.Contains(shown, want) {
		t.Errorf("image log: exit code %d, want 0, no escapes and %q in:\n%q", code, want, shown)
	}
}
