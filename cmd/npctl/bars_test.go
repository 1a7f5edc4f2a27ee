package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/npctl/npctl/test/pty"
)

// longFleet returns a directory with a configuration of long names, in which a server takes an hour to start.
func longFleet(t *testing.T) string {
	t.Helper()
	dir := fleetDir(t)
	changeConfig(t, dir, `"acme"`, `"cloud-with-a-long-name"`)
	changeConfig(t, dir, `build_time   = "0s"`, `build_time   = "1h"`)
	return dir
}

func TestInterruptLeavesNoBars(t *testing.T) {
	t.Parallel()
	for _, columns := range []int{60, 100} {
		for _, twice := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d columns, twice %t", columns, twice), func(t *testing.T) {
				t.Parallel()
				x := onTerminalOf(t, columns, longFleet(t), nil, "apply", "-auto-approve")
				x.expect("waiting for the ")
				x.press("\x03")
				if twice {
					x.press("\x03")
				}
				code, text := x.end()
				shown := &pty.Screen{Columns: columns}
				shown.Write(t, text)
				if code != exitInterrupted {
					t.Errorf("apply: exit code %d, want %d:\n%s", code, exitInterrupted, shown)
				}
				for _, line := range strings.Split(shown.String(), "\n") {
					if strings.HasPrefix(line, "all steps") || strings.Contains(line, "waiting for the") {
						t.Errorf("the screen still shows %q:\n%s", line, shown)
					}
				}
				if !twice && !strings.Contains(strings.Join(strings.Fields(shown.String()), " "), "0 failed, 2 interrupted, 0 skipped of 4 steps.") {
					t.Errorf("the screen does not say that 2 steps were interrupted:\n%s", shown)
				}
			})
		}
	}
}

func TestListedProvidersLeaveNothingOnANarrowScreen(t *testing.T) {
	t.Parallel()
	dir := fleetDir(t)
	changeConfig(t, dir, `"acme"`, `"cloud-with-a-name-that-is-longer-than-narrow"`)
	code, written := onTerminalOf(t, 40, dir, []string{"NO_COLOR=1"}, "plan").end()
	shown := &pty.Screen{Columns: 40}
	shown.Write(t, written)
	if code != 0 || !strings.Contains(written, "Listing cl") || strings.Contains(shown.String(), "Listing") {
		t.Errorf("plan: exit code %d, and the screen shows\n%s", code, shown)
	}
}
