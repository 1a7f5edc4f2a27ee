//go:build integration

package process

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

func TestMountsOfAProgramAreItsOwn(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("run as root: private mounts need it")
	}
	dir := t.TempDir()
	var log bytes.Buffer
	spec := sh("mount -t tmpfs own-mount " + dir + "; grep -c own-mount /proc/self/mountinfo; touch " + dir + "/inside")
	spec.Log = &log
	err := Run(t.Context(), spec)
	if err != nil || !strings.HasPrefix(log.String(), "1\n") {
		t.Fatalf("%v: %s", err, &log)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("the mount is seen outside, with %v in it, %v", left, err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(mounts), "own-mount") {
		t.Errorf("the mount is listed outside, %v", err)
	}
}
