package qemu

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/process"
)

// loopback is the address at which machines are reachable.
const loopback = "127.0.0.1"

// start creates the disk and the seed of a locked machine and starts QEMU, which inherits the lock. After an error nothing of
// the machine remains, unless ctx is done: then the machine may come up, and a repeated Create continues.
func (c *Cloud) start(ctx context.Context, b *boot, lock *os.File) error {
	err := c.prepare(ctx, b)
	if err == nil {
		err = c.launch(ctx, b, lock)
	}
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return errors.Join(err, c.remove(b.machine.ID))
}

// prepare creates the files of the machine. An interrupted attempt may have left some.
func (c *Cloud) prepare(ctx context.Context, b *boot) error {
	m, o := &b.machine, b.offer
	if m.Accel = o.Accel; m.Accel == accelAuto {
		m.Accel = accelKVM
		if c.kvm() != nil {
			m.Accel = accelTCG
		}
	}
	if err := c.write(*m); err != nil {
		return err
	}
	args := []string{"create", "-q", "-f", formatQcow2, "-F", b.image.Format, "-b", b.image.Path, c.file(m.ID, fileDisk)}
	if o.Disk > 0 {
		args = append(args, strconv.FormatInt(o.Disk<<30, 10))
	}
	if output, err := command(ctx, c.qemuImg, args...).CombinedOutput(); err != nil {
		return drivers.Unsent(fmt.Errorf("create the disk: %w: %s", err, lastLines(string(output))))
	}
	if err := writeSeed(c.file(m.ID, fileSeed), *m, o); err != nil {
		return drivers.Unsent(fmt.Errorf("create the seed: %w", err))
	}
	return nil
}

// errPortTaken means that another program uses the port of the machine.
var errPortTaken = errors.New("another program uses the port")

func isPortTaken(output string) bool {
	return strings.Contains(output, "Could not set up host forwarding rule")
}

// portAttempts is how many ports launch tries. Another program may take a port between its choice and its use.
const portAttempts = 5

// launch runs QEMU, which returns when the machine runs in the background.
func (c *Cloud) launch(ctx context.Context, b *boot, lock *os.File) error {
	b.sandboxed = !slices.Contains(b.offer.Args, sandboxOption)
	for attempt := 1; ; attempt++ {
		err := c.run(ctx, *b, lock)
		if errors.Is(err, errNoSandbox) && b.sandboxed {
			b.sandboxed = false
			continue
		}
		if !errors.Is(err, errPortTaken) || attempt >= portAttempts {
			return err
		}
		if err := c.movePort(ctx, &b.machine); err != nil {
			return err
		}
	}
}

// movePort gives the machine another port.
func (c *Cloud) movePort(ctx context.Context, m *machine) error {
	unlock, err := c.lockDirectory(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	all, err := c.all()
	if err != nil {
		return err
	}
	if m.Port, err = freePort(all); err != nil {
		return err
	}
	return c.write(*m)
}

func (c *Cloud) run(ctx context.Context, b boot, lock *os.File) error {
	log, err := os.OpenFile(c.file(b.machine.ID, fileLog), os.O_CREATE|os.O_TRUNC|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return drivers.Unsent(err)
	}
	defer log.Close() //nolint:errcheck // QEMU has its own
	cmd := command(ctx, c.program, c.arguments(b)...)
	cmd.Dir = c.directoryOf(b.machine.ID)
	cmd.Stderr = log
	cmd.ExtraFiles = []*os.File{lock}
	cmd.SysProcAttr = ownSession()
	if err := cmd.Run(); err != nil {
		output, _ := os.ReadFile(log.Name())
		return startError(string(output), err)
	}
	return nil
}

// command returns a command with the clean environment: the processes of machines run untrusted guests, and outlive npctl.
func command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = process.BaseEnv(os.Environ())
	return cmd
}

// The system calls that QEMU blocks for itself. QEMU 7.2 cannot become a daemon without those of elevateprivileges and spawn.
const (
	sandboxOption = "-sandbox"
	sandboxValue  = "on,obsolete=deny,resourcecontrol=deny"
)

// errNoSandbox means that this QEMU or kernel has no sandbox.
var errNoSandbox = errors.New("no sandbox")

func isSandboxMissing(output string) bool {
	return strings.Contains(output, sandboxOption) || strings.Contains(output, "seccomp")
}

// arguments returns the command line of QEMU.
func (c *Cloud) arguments(b boot) []string {
	m, o := b.machine, b.offer
	kind, cpu := "q35", "max"
	if c.isARM() {
		kind = "virt"
	}
	if m.Accel == accelKVM {
		cpu = "host"
	}
	if o.Machine != "" {
		kind = o.Machine
	}
	if o.CPU != "" {
		cpu = o.CPU
	}
	file := func(name string) string { return escape(c.file(m.ID, name)) }
	args := []string{
		"-daemonize", "-name", escape(m.Name), "-pidfile", c.file(m.ID, filePID), "-D", c.file(m.ID, fileLog), "-no-user-config",
		"-machine", kind + ",accel=" + m.Accel, "-cpu", cpu, "-smp", strconv.FormatInt(m.Cores, 10), "-m", strconv.FormatInt(m.RAM, 10),
		"-display", "none", "-monitor", "none", "-parallel", "none",
		"-chardev", "file,id=console,path=" + file(fileConsole), "-serial", "chardev:console",
		// The disk is deleted with the machine, so its content need not survive a power failure.
		"-drive", "if=virtio,format=qcow2,cache=unsafe,discard=unmap,file=" + file(fileDisk),
		"-drive", "if=virtio,format=raw,readonly=on,file=" + file(fileSeed),
		"-netdev", fmt.Sprintf("user,id=net0,hostfwd=tcp:%s:%d-:%d", loopback, m.Port, o.GuestPort),
		"-device", "virtio-net-pci,netdev=net0,mac=" + macOf(m.ID), "-device", "virtio-rng-pci",
	}
	if b.sandboxed {
		args = append(args, sandboxOption, sandboxValue)
	}
	if o.Firmware != "" {
		args = append(args, "-bios", o.Firmware)
	}
	return append(args, o.Args...)
}

// escape quotes a value for an argument of QEMU with options.
func escape(value string) string { return strings.ReplaceAll(value, ",", ",,") }

// macOf returns the MAC address of a machine, in QEMU's range. The ID ends in eight hex digits.
func macOf(id string) string {
	digits := "000000" + id
	digits = digits[len(digits)-6:]
	return "52:54:00:" + digits[:2] + ":" + digits[2:4] + ":" + digits[4:]
}

// freePort returns a port that neither another program nor another machine uses.
func freePort(all []machine) (int, error) {
	var taken []net.Listener
	defer func() {
		for _, l := range taken {
			_ = l.Close()
		}
	}()
	for {
		l, err := net.Listen("tcp", loopback+":0") //nolint:noctx // returns at once
		if err != nil {
			return 0, fmt.Errorf("%w: find a free port: %w", drivers.ErrCapacity, err)
		}
		taken = append(taken, l)
		port := l.Addr().(*net.TCPAddr).Port
		if !slices.ContainsFunc(all, func(m machine) bool { return m.Port == port }) {
			return port, nil
		}
	}
}
