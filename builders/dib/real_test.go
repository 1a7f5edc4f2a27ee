//go:build integration

package dib_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/builders/buildertest"
	"github.com/npctl/npctl/builders/dib"
	"github.com/npctl/npctl/internal/mounts"
	"github.com/npctl/npctl/internal/testutil"
)

// These tests run the real disk-image-create, as root, and fail where it is missing:
//
//	eval "$(test/dib/env.sh)" && builders/dib/testdata/own-dev.sh go test -tags integration -run Real ./builders/dib
//
// NPCTL_TEST_ELEMENTS="debian-minimal" builds that instead of the tiny Debian in test/dib/elements.

// needOwnDev fails where a mistake would destroy the /dev of the machine.
func needOwnDev(t *testing.T) {
	t.Helper()
	text := testutil.ReadFile(t, "/proc/self/mountinfo")
	kind := ""
	for line := range strings.Lines(text) {
		before, after, _ := strings.Cut(line, " - ")
		if fields := strings.Fields(before); len(fields) > 4 && fields[4] == "/dev" {
			kind, _, _ = strings.Cut(after, " ") // the last one mounted is the one seen
		}
	}
	if kind == "devtmpfs" {
		t.Fatal("run this through builders/dib/testdata/own-dev.sh, so that the machine's /dev is out of reach")
	}
}

// realJob returns a build in a directory that is not deleted while something is mounted in it.
func realJob(t *testing.T, more map[string]cty.Value) builders.Job {
	t.Helper()
	needOwnDev(t)
	dir, err := os.MkdirTemp("", "npctl-dib-")
	testutil.Must(t, err)
	t.Cleanup(func() {
		if err := mounts.RemoveTree(context.Background(), dir); err != nil {
			t.Error(err)
		}
	})
	base, err := os.Getwd()
	testutil.Must(t, err)
	return builders.Job{
		Image: "debian", BuildID: "b1", Name: "debian-b1", Dir: dir, BaseDir: base, Config: real(more),
		Formats: []string{"raw"}, Timeout: 20 * time.Minute,
	}
}

// real is a Debian without a kernel: it cannot boot, but its build has every phase.
func real(more map[string]cty.Value) cty.Value {
	pairs := []string{"DIB_DEBIAN_SECURITY_SUBPATH", "-security"} // diskimage-builder 3.13 knows it for bullseye only
	for _, line := range os.Environ() {
		if name, value, _ := strings.Cut(line, "="); strings.HasPrefix(name, "DIB_") {
			pairs = append(pairs, name, value)
		}
	}
	elements, args := buildertest.Words("debian-tiny"), buildertest.Words("-n")
	if names := strings.Fields(os.Getenv("NPCTL_TEST_ELEMENTS")); len(names) > 0 {
		elements, args = buildertest.Words(names...), cty.ListValEmpty(cty.String)
	}
	written := map[string]cty.Value{
		"elements":      elements,
		"extra_args":    args,
		"element_paths": buildertest.Words("../../test/dib/elements"),
		"release":       cty.StringVal("bookworm"),
		"env":           texts(pairs...),
		"secret_env":    texts("DIB_TOKEN", "hunter2hunter2"),
	}
	for name, value := range more {
		written[name] = value
	}
	return config(written)
}

func TestRealDebianImage(t *testing.T) {
	j := realJob(t, nil)
	j.Formats = []string{"raw", "qcow2", "tar"}
	logPath := filepath.Join(t.TempDir(), "log")
	log, err := os.Create(logPath)
	testutil.Must(t, err)
	defer log.Close()
	began, last := time.Now(), time.Now()
	phase := ""
	j.Progress = func(now string, done, total int64) {
		if name, _, _ := strings.Cut(now, ":"); name != phase {
			t.Logf("%6.1fs %d/%d %s", time.Since(last).Seconds(), done, total, name)
			phase, last = name, time.Now()
		}
	}
	made, err := new(dib.Builder).Build(t.Context(), j, log)
	if err != nil {
		t.Fatalf("%v\nlog: %s", err, logPath)
	}
	t.Logf("took %.1fs, made %v, %v", time.Since(began).Seconds(), made.Files, made.Extra)
	if phase != "done" {
		t.Errorf("the last phase is %q, want done", phase)
	}
	for _, file := range made.Files {
		if file.Format == "raw" {
			checkImage(t, file.Path)
		}
	}
	if len(made.Files) != 3 {
		t.Errorf("made %v, want three files", made.Files)
	}
	environment, err := os.ReadFile(filepath.Join(j.Dir, j.Name+".d", "dib-manifests", "dib_environment"))
	if err != nil || !strings.Contains(string(environment), "DIB_TOKEN") {
		t.Errorf("kept manifest is %q, %v", environment, err)
	}
	text, err := os.ReadFile(logPath)
	if err != nil || len(text) < 10_000 {
		t.Errorf("log has %d bytes, %v", len(text), err)
	}
	for name, shown := range map[string]string{"manifest": string(environment), "log": string(text)} {
		if strings.Contains(shown, "hunter2hunter2") {
			t.Errorf("%s shows a secret", name)
		}
	}
	checkNothingLeft(t, j)
}

// checkImage searches for ext4 with the label that diskimage-builder gives to a root file system.
func checkImage(t *testing.T, path string) {
	t.Helper()
	file, err := os.Open(path)
	testutil.Must(t, err)
	defer file.Close()
	super := make([]byte, 1024)
	if _, err := file.ReadAt(super, 1024); err != nil {
		t.Fatal(err)
	}
	if label := strings.TrimRight(string(super[120:136]), "\x00"); super[56] != 0x53 || super[57] != 0xef || label != "cloudimg-rootfs" {
		t.Errorf("superblock has magic %x and label %q", super[56:58], label)
	}
}

func checkNothingLeft(t *testing.T, j builders.Job) {
	t.Helper()
	points, err := mounts.Below(j.Dir)
	if err != nil || len(points) > 0 {
		t.Errorf("mounted after the build: %v, %v", points, err)
	}
	loops, err := mounts.Loops(j.Dir)
	if err != nil || len(loops) > 0 {
		t.Errorf("loop devices after the build: %v, %v", loops, err)
	}
	if _, err := os.Lstat(filepath.Join(j.Dir, "scratch")); err == nil {
		t.Error("the scratch directory is left")
	}
	if _, err := os.Stat("/dev/null"); err != nil {
		t.Fatalf("the host's /dev is gone: %v", err)
	}
}

// In each of these phases, a build that is stopped incorrectly leaves different remains.
func TestRealCancelLeavesNothing(t *testing.T) {
	for _, test := range []struct {
		phase  string
		grace  string
		shared bool
	}{
		{"root: ", "2m", false},
		{"root: ", "1ms", false},    // killed
		{"root: ", "1ms", true},     // killed, its mounts left for us to remove
		{"finalise: ", "2m", false}, // in the image itself, which is on a loop device
		{"finalise: ", "2m", true},
		{"finalise: ", "1ms", false},
		{"finalise: ", "1ms", true},
	} {
		name := strings.TrimSuffix(test.phase, ": ") + " " + test.grace
		if test.shared {
			name += " shared"
		}
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			j := realJob(t, map[string]cty.Value{"stop_timeout": cty.StringVal(test.grace)})
			var stopped time.Time
			var once sync.Once
			j.Progress = func(phase string, _, _ int64) {
				if !strings.HasPrefix(phase, test.phase) {
					return
				}
				once.Do(func() {
					points, _ := mounts.Below(j.Dir)
					loops, _ := mounts.Loops(j.Dir)
					t.Logf("stops in %s with %d mounts to be seen and %d loop devices", phase, len(points), len(loops))
					stopped = time.Now()
					cancel()
				})
			}
			_, err := (&dib.Builder{SharedMounts: test.shared}).Build(ctx, j, &strings.Builder{})
			if !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "clear up") {
				t.Errorf("error is %v", err)
			}
			t.Logf("stopped within %.1fs", time.Since(stopped).Seconds())
			checkNothingLeft(t, j)
		})
	}
}

func TestRealUnknownElementIsNamed(t *testing.T) {
	j := realJob(t, map[string]cty.Value{"elements": buildertest.Words("debian-tiny", "no-such-element")})
	_, err := new(dib.Builder).Build(t.Context(), j, &strings.Builder{})
	if err == nil || !strings.Contains(err.Error(), "no-such-element") {
		t.Errorf("error is %v", err)
	}
	t.Log(err)
	checkNothingLeft(t, j)
}
