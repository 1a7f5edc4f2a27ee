package qemu

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
)

// A QEMU that hangs with KVM must not delay the driver for longer than kvmTimeout.
func TestHangingTestOfKVMIsKilled(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "qemu-system-x86_64")
	testutil.WriteProgram(t, program, "#!/bin/sh\nexec sleep 86421\n")
	if err := runBootSector(program); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got error %v, want a timeout", err)
	}
}
