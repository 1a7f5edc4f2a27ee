package qemu

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

// Cloud is a directory of virtual machines and images.
type Cloud struct {
	*imageStore
	dir     string
	limits  resources.ResourceAmounts
	program string // QEMU
	qemuImg string
	kvm     func() error // why KVM does not work on this host
}

var (
	_ drivers.Cloud      = (*Cloud)(nil)
	_ drivers.ImageStore = (*Cloud)(nil)
	_ drivers.Resolver   = (*Cloud)(nil)
	_ drivers.Console    = (*Cloud)(nil)
	_ drivers.Locator    = (*Cloud)(nil)
)

// open finds the programs, and changes no files.
func open(ctx context.Context, env drivers.Env, s providerSettings) (drivers.Cloud, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if runtime.GOOS == "windows" {
		return nil, drivers.Rejectf("the driver qemu does not support Windows")
	}
	dir := s.Dir
	if !filepath.IsAbs(dir) {
		if env.Dir == "" {
			return nil, drivers.Rejectf("the provider has no directory for its files; write an absolute path as dir")
		}
		dir = filepath.Join(env.Dir, dir)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, drivers.Unsent(err)
	}
	files := cmp.Or(s.ImageDir, filepath.Join(dir, "files"))
	if !filepath.IsAbs(files) {
		files = filepath.Join(dir, files)
	}
	program, err := find("program", cmp.Or(s.Program, defaultProgram()))
	if err != nil {
		return nil, err
	}
	qemuImg, err := find("qemu_img", s.QemuImg)
	if err != nil {
		return nil, err
	}
	return &Cloud{
		imageStore: &imageStore{dir: filepath.Join(dir, "images"), files: files, format: s.ImageFormat},
		dir:        dir, limits: limitsOf(s), program: program, qemuImg: qemuImg,
		kvm: sync.OnceValue(func() error { return checkKVM(program) }),
	}, nil
}

// find returns the absolute path of a program.
func find(attribute, name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", drivers.Rejectf("%w; install it (on Debian: qemu-system-x86 or qemu-system-arm, and qemu-utils) or write its path as %s", err, attribute)
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", drivers.Unsent(err)
	}
	return path, nil
}

func defaultProgram() string {
	if runtime.GOARCH == "arm64" {
		return "qemu-system-aarch64"
	}
	return "qemu-system-x86_64"
}

// isARM reports whether the machines are ARM machines.
func (c *Cloud) isARM() bool { return strings.Contains(filepath.Base(c.program), "aarch64") }

// Location implements drivers.Locator: the directory.
func (c *Cloud) Location() string { return "qemu " + c.dir }

// Close implements drivers.Cloud. The machines run on.
func (c *Cloud) Close() error { return nil }

// Advance implements drivers.Cloud: it starts a machine after a Create that was interrupted before the start.
func (c *Cloud) Advance(ctx context.Context, spec drivers.Spec, seen resources.Instance) (resources.Instance, error) {
	if seen.Status != resources.StatusPending {
		return seen, ctx.Err()
	}
	m, found, err := c.read(seen.ID)
	if err != nil {
		return seen, err
	}
	if !found || c.isLocked(m.ID) || c.hasRun(m.ID) {
		return seen, nil
	}
	if !resources.OwnerTags(m.Tags).SameRecord(spec.Marks) {
		return seen, fmt.Errorf("start machine %s: %w", m.ID, drivers.ErrNotOurs)
	}
	return c.Create(ctx, spec)
}
