package dib

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Lines of a real log of diskimage-builder 3.13 with tracing.
const realLog = `2026-11-20 21:52:49.984 | Building elements: base debian-minimal
2026-11-20 21:52:50.109 | + /usr/lib/python3/dist-packages/diskimage_builder/lib/common-functions:mk_build_dir:48 :   echo Building in /tmp/x
2026-11-20 21:52:51.126 | dib-run-parts Sourcing environment file /tmp/x/dib_build.CIosvJlw/hooks/root.d/../environment.d/99-dib
2026-11-20 21:52:51.129 | dib-run-parts Running /tmp/x/dib_build.CIosvJlw/hooks/root.d/08-debootstrap
2026-11-20 21:53:25.844 | dib-run-parts Target: root.d
2026-11-20 21:54:15.765 | dib-run-parts Running /tmp/in_target.d/install.d/10-debian-networking
2026-11-20 21:54:16.000 | dib-run-parts Running /tmp/in_target.d/pre-install.d/again
2026-11-20 21:54:39.555 | + finish_image:81 :   echo 'Image file /tmp/dibrun/out/debmin.raw created...'
2026-11-20 21:54:39.555 | Image file /tmp/dibrun/out/debmin.raw created...
Build completed successfully`

func TestPhasesAreReadFromTheLog(t *testing.T) {
	var got []string
	p := phases{onPhase: func(phase string, done, total int64) { got = append(got, fmt.Sprintf("%d/%d %s", done, total, phase)) }}
	p.start()
	for line := range strings.Lines(realLog) {
		p.line(strings.TrimSpace(line))
	}
	want := []string{
		"0/11 starting",
		"0/11 root: 08-debootstrap",
		"3/11 install: 10-debian-networking",
		"3/11 pre-install: again",
		"10/11 image: /tmp/dibrun/out/debmin.raw created",
		"11/11 done",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
}

func TestTracesAreNoReasonForAFailure(t *testing.T) {
	var kept []string
	for line := range strings.Lines(realLog + "\nDEBUG diskimage_builder.x [-] Params\nE: Unable to locate package gti") {
		if line = strings.TrimSpace(line); !isTrace(line) {
			kept = append(kept, line)
		}
	}
	if got, want := len(kept), 9; got != want || kept[got-1] != "E: Unable to locate package gti" {
		t.Errorf("kept %d lines, want %d:\n%s", got, want, strings.Join(kept, "\n"))
	}
}
