package qemu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// The accelerators.
const (
	accelAuto = "auto"
	accelKVM  = "kvm"
	accelTCG  = "tcg"
)

const (
	kvmDevice    = "/dev/kvm"
	kvmTimeout   = 3 * time.Second
	kvmPort      = 0xf4 // of QEMU's device isa-debug-exit
	kvmValue     = 0x10
	kvmExitCode  = kvmValue<<1 | 1
	sectorSize   = 512
	sectorDisk   = 1 << 20 // of the disk with the sector; the BIOS ignores very small ones
	sectorOrigin = 0x7c00
)

// checkKVM returns why machines cannot use KVM. A host can have a /dev/kvm that opens but cannot run guests, such as
// a virtual machine with incomplete nested virtualization, so a boot sector of a few instructions has to run in it.
func checkKVM(program string) error {
	device, err := os.OpenFile(kvmDevice, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	_ = device.Close()
	if !strings.Contains(filepath.Base(program), "x86_64") {
		return nil // the boot sector is x86 code
	}
	return runBootSector(program)
}

// runBootSector runs the boot sector in QEMU with KVM, for up to kvmTimeout.
func runBootSector(program string) error {
	sector, err := os.CreateTemp("", "npctl-kvm")
	if err != nil {
		return err
	}
	defer os.Remove(sector.Name()) //nolint:errcheck // a temporary file
	_, err = sector.Write(bootSector())
	if err := errors.Join(err, sector.Close()); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), kvmTimeout)
	defer cancel()
	output, err := command(ctx, program, testArguments(accelKVM, "host", sector.Name())...).CombinedOutput()
	if isTestSuccess(err) {
		return nil
	}
	return fmt.Errorf("a test program did not run with KVM: %w: %s", errors.Join(err, ctx.Err()), firstLine(string(output)))
}

// testArguments returns the arguments with which QEMU runs the boot sector in a file.
func testArguments(accel, cpu, sector string) []string {
	return []string{
		"-machine", "q35,accel=" + accel, "-cpu", cpu, "-m", "64", "-display", "none", "-monitor", "none", "-serial", "none", "-no-reboot", "-net", "none",
		"-no-user-config", "-device", fmt.Sprintf("isa-debug-exit,iobase=%#x,iosize=1", kvmPort), "-drive", "if=virtio,format=raw,readonly=on,file=" + escape(sector),
	}
}

// isTestSuccess reports whether QEMU ended as the boot sector demands.
func isTestSuccess(err error) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit) && exit.ExitCode() == kvmExitCode
}

// bootSector returns a boot sector that enters the protected mode, returns from a simulated interrupt, and ends QEMU with
// kvmExitCode. The return from an interrupt is an instruction that incomplete KVMs cannot execute.
func bootSector() []byte {
	const protected, resumed, table, pointer = 0x20, 0x40, 0x60, 0x80 // offsets
	sector := make([]byte, sectorDisk)
	copy(sector, []byte{
		0xfa,       // cli
		0x31, 0xc0, // xor ax, ax
		0x8e, 0xd8, // mov ds, ax
		0x0f, 0x01, 0x16, pointer, sectorOrigin >> 8, // lgdt [pointer]
		0x0f, 0x20, 0xc0, // mov eax, cr0
		0x0c, 0x01, // or al, 1
		0x0f, 0x22, 0xc0, // mov cr0, eax
		0xea, protected, sectorOrigin >> 8, 0x08, 0x00, // jmp 8:protected
	})
	copy(sector[protected:], []byte{
		0x66, 0xb8, 0x10, 0x00, // mov ax, 16
		0x8e, 0xd8, 0x8e, 0xd0, // mov ds, ax; mov ss, ax
		0xbc, 0x00, 0x70, 0x00, 0x00, // mov esp, 0x7000
		0x9c, 0x0e, // pushfd; push cs
		0x68, resumed, sectorOrigin >> 8, 0x00, 0x00, // push resumed
		0xcf, // iretd
	})
	copy(sector[resumed:], []byte{0xb0, kvmValue, 0xe6, kvmPort, 0xf4}) // mov al, value; out port, al; hlt
	copy(sector[table+8:], []byte{
		0xff, 0xff, 0, 0, 0, 0x9a, 0xcf, 0, // code: 4 GiB, 32 bit
		0xff, 0xff, 0, 0, 0, 0x92, 0xcf, 0, // data: 4 GiB
	})
	copy(sector[pointer:], []byte{23, 0, table, sectorOrigin >> 8, 0, 0}) // size and address of the table
	sector[sectorSize-2], sector[sectorSize-1] = 0x55, 0xaa
	return sector
}
