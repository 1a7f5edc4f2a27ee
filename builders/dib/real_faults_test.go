//go:build integration

package dib_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/builders/buildertest"
	"github.com/npctl/npctl/builders/dib"
	"github.com/npctl/npctl/internal/process"
)

func TestRealBuildThatIgnoresSIGTERMIsKilledWhenItsTimeIsOver(t *testing.T) {
	j := realJob(t, map[string]cty.Value{
		"elements": buildertest.Words("debian-tiny", "never-ends"), "stop_timeout": cty.StringVal("2s"),
		// A shell cannot trap a signal that was ignored when it started, so disk-image-create does not receive the
		// signal either.
		"command": cty.StringVal("env --ignore-signal=TERM disk-image-create"),
	})
	j.Timeout = 20 * time.Second // the hook is the first of root.d, so it runs by then on a busy machine, too
	var log strings.Builder
	began := time.Now()
	_, err := new(dib.Builder).Build(t.Context(), j, &log)
	took := time.Since(began)
	t.Logf("ended after %.1fs: %v", took.Seconds(), err)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "did not end within 2s of SIGTERM and was killed") {
		t.Errorf("error is %v, want a timeout after which the build was killed", err)
	}
	if took < j.Timeout+2*time.Second {
		t.Errorf("the build ended after %v, want 22 s or more", took)
	}
	if !strings.Contains(log.String(), "never-ends: waits for ever") {
		t.Errorf("the hook never ran: the test tests nothing; log:\n%s", &log)
	}
	if left, err := exec.CommandContext(t.Context(), "pgrep", "-a", "-f", "sleep 86421").Output(); err == nil {
		t.Errorf("processes are left: %s", left)
	}
	checkNothingLeft(t, j)
}

func TestRealEndlessLogIsLimited(t *testing.T) {
	const memory = 32 << 20
	j := realJob(t, map[string]cty.Value{"elements": buildertest.Words("debian-tiny", "endless-log")})
	path := filepath.Join(t.TempDir(), "log")
	log, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	_, err = new(dib.Builder).Build(t.Context(), j, log)
	runtime.ReadMemStats(&after)
	t.Logf("took %.1fs and %d KiB of memory", time.Since(began).Seconds(), (after.Sys-before.Sys)>>10)
	if err == nil || !strings.Contains(err.Error(), "endless-log: there is nothing left to tell") {
		t.Fatalf("error is %v, want the hook's last words in it", err)
	}
	if len(err.Error()) > 64<<10 {
		t.Errorf("the error has %d bytes", len(err.Error()))
	}
	if after.Sys-before.Sys > memory {
		t.Errorf("the build took %d bytes of memory, want %d at most", after.Sys-before.Sys, memory)
	}
	text, err := os.ReadFile(path)
	if err != nil || len(text) < process.DefaultLogLimit || len(text) > process.DefaultLogLimit+1<<20 {
		t.Errorf("the log has %d bytes (%v), want its limit of %d and a little more", len(text), err, process.DefaultLogLimit)
	}
	for _, want := range []string{"this log has reached its limit", "were omitted", "endless-log: there is nothing left to tell", "Exit code: 1"} {
		if !strings.Contains(string(text[process.DefaultLogLimit-100:]), want) {
			t.Errorf("the end of the log lacks %q", want)
		}
	}
	checkNothingLeft(t, j)
}
