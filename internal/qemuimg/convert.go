// Package qemuimg converts image files with the qemu-img program.
//
// Rules:
//
//  1. The format of a file is always given, never guessed: a raw image may imitate another format, and a guess would
//     follow the file names in its header.
//  2. A source that refers to other files (backing file, data file, extents) is rejected before any program reads it.
//  3. As root, qemu-img can open only the source and the result (process.Sandbox).
//  4. The result is written under another name and gets its final name when it is complete and synced.
package qemuimg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/npctl/npctl/internal/imagefile"
	"github.com/npctl/npctl/internal/process"
)

// Program is the converter, and Package the Debian package that contains it.
const (
	Program = "qemu-img"
	Package = "qemu-utils"
)

// drivers maps npctl's format names to qemu's.
var drivers = map[string]string{"raw": "raw", "qcow2": "qcow2", "vhd": "vpc", "vhdx": "vhdx", "vmdk": "vmdk"}

// defaults are default creation options of a format. Without force_size a VHD grows to the next size that cylinders,
// heads and sectors can express.
var defaults = map[string]map[string]string{"vhd": {"force_size": "on"}}

// formats lists the supported source and target formats.
func formats() []string { return slices.Sorted(maps.Keys(drivers)) }

// Options configure a conversion. The zero value is suitable for most.
type Options struct {
	Command    string            // qemu-img when empty; a path or a name
	Env        []string          // process.BaseEnv(os.Environ()) when nil
	Compress   bool              // qcow2 and vmdk: smaller, and five to ten times slower
	Create     map[string]string // options of the new format (qemu-img's -o), such as compat or subformat
	Log        io.Writer         // receives the command and the output of qemu-img
	Progress   func(done, total int64)
	Grace      time.Duration // 5 s when 0
	SkipHashes bool          // leave the sums empty
	// Run runs qemu-img; nil means process.Run. Tests replace it.
	Run func(context.Context, process.Spec) error
}

// Result describes a converted file. Its sums require another read of the file, because qemu-img does not write
// sequentially. The file is mostly still in the page cache.
type Result struct {
	imagefile.Sums
	Allocated int64 // bytes on the disk
	Virtual   int64 // size of the disk inside
	Convert   time.Duration
	Hash      time.Duration
}

// Convert writes the image in from, a file of fromFormat, to a new file in toFormat. After an error there is no new
// file, complete or partial. An existing file is replaced only on success.
func Convert(ctx context.Context, from, fromFormat, to, toFormat string, opts Options) (Result, error) {
	result, err := convert(ctx, from, fromFormat, to, toFormat, opts)
	if err != nil {
		return Result{}, fmt.Errorf("convert %s to %s: %w", from, toFormat, err)
	}
	return result, nil
}

func convert(ctx context.Context, from, fromFormat, to, toFormat string, opts Options) (result Result, err error) {
	from, to, err = checkNames(from, fromFormat, to, toFormat)
	if err != nil {
		return result, err
	}
	info, err := inspect(ctx, from, fromFormat, opts)
	if err != nil {
		return result, err
	}
	// The data must fit at least. For compressed sources the additional space is known only afterwards.
	if err := imagefile.CheckFree(filepath.Dir(to), info.leastData()); err != nil {
		return result, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, imagefile.Discard(to))
		}
	}()
	result.Virtual = info.VirtualSize
	began := time.Now()
	if err := makeEmpty(imagefile.PartName(to)); err != nil {
		return result, err
	}
	sandbox := process.Sandbox{Read: []string{from}, Write: []string{imagefile.PartName(to)}}
	args := arguments(from, fromFormat, imagefile.PartName(to), toFormat, opts)
	if err := run(ctx, args, sandbox, info.VirtualSize, opts); err != nil {
		return result, err
	}
	result.Convert = time.Since(began)
	began = time.Now()
	if err := result.look(ctx, imagefile.PartName(to), opts); err != nil {
		return result, err
	}
	result.Hash = time.Since(began)
	return result, imagefile.Publish(to)
}

// makeEmpty creates the file that qemu-img writes to, because it cannot create files in its sandbox.
func makeEmpty(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return file.Close()
}

func checkNames(from, fromFormat, to, toFormat string) (string, string, error) {
	for _, format := range []string{fromFormat, toFormat} {
		if drivers[format] == "" {
			return "", "", fmt.Errorf("format %q is not one of %v", format, formats())
		}
	}
	if fromFormat == toFormat {
		return "", "", fmt.Errorf("it already is %s", toFormat)
	}
	// Only an absolute path cannot be mistaken for a protocol such as nbd:.
	absFrom, err := filepath.Abs(from)
	if err != nil {
		return "", "", err
	}
	absTo, err := filepath.Abs(to)
	if err == nil && absFrom == absTo {
		err = errors.New("source and target are the same file")
	}
	return absFrom, absTo, err
}

// arguments returns the command line after the program.
func arguments(from, fromFormat, to, toFormat string, opts Options) []string {
	args := []string{"convert", "-p", "-f", drivers[fromFormat], "-O", drivers[toFormat]}
	if opts.Compress {
		args = append(args, "-c")
	}
	create := maps.Clone(defaults[toFormat])
	if create == nil {
		create = map[string]string{}
	}
	maps.Copy(create, opts.Create)
	for _, name := range slices.Sorted(maps.Keys(create)) {
		args = append(args, "-o", name+"="+create[name])
	}
	return append(args, "--", from, to)
}

// percent matches the output of -p, such as (12.34/100%).
var percent = regexp.MustCompile(`^\((\d+\.\d+)/100%\)$`)

func run(ctx context.Context, args []string, sandbox process.Sandbox, total int64, opts Options) error {
	spec := opts.spec(args, sandbox)
	spec.Line = func(line string) {
		found := percent.FindStringSubmatch(line)
		if found == nil {
			if opts.Log != nil {
				_, _ = fmt.Fprintln(opts.Log, line)
			}
			return
		}
		if done, err := strconv.ParseFloat(found[1], 64); err == nil && opts.Progress != nil {
			opts.Progress(int64(done/100*float64(total)), total)
		}
	}
	if opts.Log != nil {
		_, _ = fmt.Fprintf(opts.Log, "npctl: %q\n", spec.Args)
	}
	err := opts.run(ctx, spec)
	var exit *process.ExitError
	if errors.As(err, &exit) {
		exit.Tail = slices.DeleteFunc(exit.Tail, percent.MatchString)
	}
	return err
}

func (o Options) run(ctx context.Context, spec process.Spec) error {
	if o.Run != nil {
		return o.Run(ctx, spec)
	}
	return process.Run(ctx, spec)
}

// spec returns the process.Spec of qemu-img.
func (o Options) spec(args []string, sandbox process.Sandbox) process.Spec {
	command, env, grace := o.Command, o.Env, o.Grace
	command = cmp.Or(command, Program)
	if env == nil {
		env = process.BaseEnv(os.Environ())
	}
	grace = cmp.Or(grace, 5*time.Second)
	return process.Spec{
		Args: append([]string{command}, args...), Dir: "/", SharedMounts: true, Sandbox: &sandbox, Env: process.Setenv(env, "LC_ALL", "C"), Grace: grace,
		Missing: "install the package " + Package + " (Debian, Ubuntu), qemu-img (Fedora, RHEL) or qemu-tools (openSUSE)",
	}
}

// look reads the size and the sums of the new file.
func (r *Result) look(ctx context.Context, path string, opts Options) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	r.Size, r.Allocated = info.Size(), imagefile.Allocated(info)
	if opts.SkipHashes {
		return nil
	}
	r.Sums, err = imagefile.HashFile(ctx, path, nil)
	return err
}
