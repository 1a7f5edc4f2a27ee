//go:build integration

package qemu

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/npctl/npctl/drivers/drivertest"
	"github.com/npctl/npctl/internal/testutil"
)

// realPlace is a directory with the programs of the host. $NPCTL_QEMU_IMAGE is the image of test/qemu/image.sh.
func realPlace(t *testing.T) place {
	t.Helper()
	p := place{dir: t.TempDir(), image: os.Getenv("NPCTL_QEMU_IMAGE"), qemu: "qemu-system-x86_64", qemuImg: "qemu-img"}
	if p.image == "" {
		t.Fatal("set NPCTL_QEMU_IMAGE, as test/qemu/run.sh does")
	}
	return p
}

func TestRealContract(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) drivertest.Setup { return realPlace(t).setup(t) })
}

// The test of KVM tells hosts on which KVM runs a guest from others.
func TestRealTestOfKVM(t *testing.T) {
	program, err := exec.LookPath("qemu-system-x86_64")
	testutil.Must(t, err)
	t.Logf("KVM: %v", checkKVM(program))
	// The same boot sector runs with TCG, so its failure with KVM is a fault of KVM.
	sector := t.TempDir() + "/sector"
	testutil.Must(t, os.WriteFile(sector, bootSector(), 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), testutil.Patience)
	defer cancel()
	output, err := command(ctx, program, testArguments(accelTCG, "max", sector)...).CombinedOutput()
	if !isTestSuccess(err) {
		t.Errorf("with TCG: %v: %s", err, strings.TrimSpace(string(output)))
	}
}
