// Package dib builds images with diskimage-builder's disk-image-create.
//
// npctl runs the same command line as Nodepool, because user-written wrappers parse it. The findings about stopping a
// build (see package process) and about the remains of a killed one (see package scratch) hold for version 3.
package dib

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/internal/inputs"
	"github.com/npctl/npctl/internal/process"
	"github.com/npctl/npctl/internal/scratch"
)

// native lists the formats that diskimage-builder creates with distribution packages. Its vhd needs a patched vhd-util,
// which distributions do not package, so the caller converts to vhd.
var native = []string{"qcow2", "raw", "squashfs", "tar", "tgz"}

const missing = "install the package python3-diskimage-builder (Debian, Ubuntu; with debootstrap, qemu-utils, kpartx, dosfstools, gdisk and sudo), " +
	"or diskimage-builder (Fedora), or `pip install diskimage-builder`"

// Builder runs disk-image-create. Its zero value is ready to use.
type Builder struct {
	Environ  []string // npctl's own environment; os.Environ() when nil
	LogLimit int64    // bytes of output that are logged; process.DefaultLogLimit when 0
	// SharedMounts makes the mounts of a build visible to all processes. Otherwise, if npctl runs as root, they are
	// private.
	SharedMounts bool
	inputs       inputs.Hasher
}

var (
	_ builders.Builder  = (*Builder)(nil)
	_ builders.ToolUser = (*Builder)(nil)
	_ builders.Inputs   = (*Builder)(nil)
	_ builders.Sweeper  = (*Builder)(nil)
)

// Kind implements builders.Builder.
func (*Builder) Kind() string { return "dib" }

// Build implements builders.Builder.
func (b *Builder) Build(ctx context.Context, job builders.Job, log io.Writer) (builders.Artifact, error) {
	if runtime.GOOS == "windows" {
		return builders.Artifact{}, errors.New("diskimage-builder does not run on Windows; use builder \"exec\" there")
	}
	settings, err := b.read(job.Config, job.BaseDir)
	if err != nil {
		return builders.Artifact{}, err
	}
	if err := checkPaths(settings.ElementPaths); err != nil {
		return builders.Artifact{}, err
	}
	dir, err := scratch.Create(job.Dir, settings.TmpDir)
	if err != nil {
		return builders.Artifact{}, err
	}
	formats := choose(job.Formats)
	err = b.run(ctx, settings, formats, job, dir, log)
	if err = errors.Join(err, dir.Remove(ctx)); err != nil {
		return builders.Artifact{}, err
	}
	return collect(job, settings, formats)
}

// defaultCommand is the program of a build unless the configuration names another one.
const defaultCommand = "disk-image-create"

// Tools implements builders.ToolUser. The requirements of another command are unknown.
func (b *Builder) Tools(config cty.Value) builders.Tools {
	s, err := b.read(config, "/")
	if err != nil || s.command[0] != defaultCommand {
		return builders.Tools{Formats: native}
	}
	path := withSbin(process.Getenv(process.BaseEnv(b.environ()), "PATH"))
	return builders.Tools{
		Programs: []builders.Program{{Name: defaultCommand, Package: "python3-diskimage-builder", Path: path}},
		Formats:  slices.DeleteFunc(slices.Clone(native), func(format string) bool { return format == "qcow2" }), // made with qemu-img
	}
}

// choose returns the formats to create: the wanted ones that diskimage-builder supports, or raw, which converts
// fastest.
func choose(wanted []string) []string {
	able := slices.DeleteFunc(slices.Clone(wanted), func(format string) bool { return !slices.Contains(native, format) })
	if len(able) == 0 {
		return []string{"raw"}
	}
	slices.Sort(able)
	return slices.Compact(able)
}

func (b *Builder) run(ctx context.Context, s settings, formats []string, job builders.Job, dir *scratch.Dir, log io.Writer) error {
	ctx, cancel := process.WithTimeout(ctx, job.Timeout)
	defer cancel()
	args := s.arguments(formats, output(job))
	_, _ = fmt.Fprintf(log, "npctl: running %s\n", process.NewMasker(s.secrets).Text(fmt.Sprintf("%q", args)))
	phases := phases{onPhase: job.Progress}
	phases.start()
	return process.Run(ctx, process.Spec{
		Args: args, Dir: job.BaseDir, Env: b.environment(s, job, dir), Grace: s.StopTimeout, Missing: missing,
		Log: log, LogLimit: b.LogLimit, Secrets: s.secrets, Line: phases.line,
		RunID: dir.RunID(), Started: dir.Started, IsNoise: isTrace, SharedMounts: b.SharedMounts,
	})
}

// arguments returns the command line that Nodepool runs, with its missing options before -o.
func (s settings) arguments(formats []string, output string) []string {
	args := slices.Clone(s.command)
	if s.Trace {
		args = append(args, "-x")
	}
	args = append(args, "-t", strings.Join(formats, ","))
	if s.Checksum {
		args = append(args, "--checksum")
	}
	args = append(args, "--no-tmpfs")
	if s.QEMUImgOptions != "" && slices.Contains(formats, "qcow2") {
		args = append(args, "--qemu-img-options", s.QEMUImgOptions)
	}
	if s.ImageCache != "" {
		args = append(args, "--image-cache", s.ImageCache)
	}
	if len(s.Packages) > 0 {
		args = append(args, "-p", strings.Join(s.Packages, ","))
	}
	args = append(args, s.ExtraArgs...)
	return append(append(args, "-o", output), s.Elements...)
}

func (b *Builder) environ() []string {
	if b.Environ != nil {
		return b.Environ
	}
	return os.Environ()
}

// environment returns the clean environment with the variables that Nodepool sets. The user's own variables override
// all but TMPDIR.
func (b *Builder) environment(s settings, job builders.Job, dir *scratch.Dir) []string {
	env := process.BaseEnv(b.environ())
	env = process.Setenv(env, "PATH", withSbin(process.Getenv(env, "PATH")))
	env = process.Setall(env, map[string]string{"DIB_IMAGE_NAME": job.Image, "DIB_IMAGE_FILENAME": output(job)})
	if s.Release != "" {
		env = process.Setenv(env, "DIB_RELEASE", s.Release)
	}
	if len(s.ElementPaths) > 0 {
		env = process.Setenv(env, "ELEMENTS_PATH", strings.Join(s.ElementPaths, ":"))
	}
	return process.Setenv(process.Setall(process.Setall(env, s.Env), s.SecretEnv), "TMPDIR", dir.Temp())
}

// withSbin adds the directories of losetup, mkfs and kpartx, which users other than root often lack.
func withSbin(path string) string {
	dirs := filepath.SplitList(path)
	for _, dir := range []string{"/usr/local/sbin", "/usr/sbin", "/sbin"} {
		if !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return strings.Join(dirs, ":")
}

// output is the path of the image files without their extension.
func output(job builders.Job) string { return filepath.Join(job.Dir, job.Name) }

// Sweep implements builders.Sweeper.
func (*Builder) Sweep(ctx context.Context, dir string) error { return scratch.Sweep(ctx, dir) }
