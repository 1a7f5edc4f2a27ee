// Package qemuimg converts image files with the qemu-img program.
//
// Rules:
//
//  1. The format of a file is always given, never guessed: a raw image may be made to look like another format, and
//     a guess follows the file names in its header.
//  2. A source that refers to other files (backing file, data file, extents) is refused before anything reads it.
//  3. qemu-img run by root opens no file but the source and the result (process.Sandbox).
//  4. The result is written under another name and gets its own only when it is complete and on the disk.
package qemuimg

import (
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

// Program is what converts, and Package what has it on Debian.
const (
	Program = "qemu-img"
	Package = "qemu-utils"
)

// drivers maps npctl's format names to qemu's.
var drivers = map[string]string{"raw": "raw", "qcow2": "qcow2", "vhd": "vpc", "vhdx": "vhdx", "vmdk": "vmdk"}

// defaults are creation options that go with a format unless the caller says otherwise. Without force_size a VHD grows
// to the next size that cylinders, heads and sectors can express.
var defaults = map[string]map[string]string{"vhd": {"force_size": "on"}}

// Formats lists the formats that can be converted from and to.
func Formats() []string { return slices.Sorted(maps.Keys(drivers)) }

// Options are a conversion's details. The zero value is right for most.
type Options struct {
	Command    string            // qemu-img when empty; a path or a name
	Env        []string          // process.BaseEnv(os.Environ()) when nil
	Compress   bool              // qcow2 and vmdk: smaller, and five to ten times slower
	Create     map[string]string // options of the new format (qemu-img's -o), such as compat or subformat
	Log        io.Writer         // gets the command and what qemu-img says
	Progress   func(done, total int64)
	Grace      time.Duration // 5 s when 0
	SkipHashes bool          // leave the sums empty
	// Run runs qemu-img; process.Run when nil. Tests put a stand-in here.
	Run func(context.Context, process.Spec) error
}

// Result is a converted file. Its sums come from reading it once more: qemu-img does not write from start to end, so
// they cannot be computed on the way. What was just written is mostly still in memory.
type Result struct {
	imagefile.Sums
	Allocated int64 // bytes on the disk
	Virtual   int64 // size of the disk inside
	Convert   time.Duration
	Hash      time.Duration
}

// Convert writes the image in from, a file of fromFormat, to a new file in toFormat. When it returns an error there is
// no new file, whole or partial. An existing file is replaced only on success.
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
	info, err := Inspect(ctx, from, fromFormat, opts)
	if err != nil {
		return result, err
	}
	// At least the data in it has to fit. How much more it takes, compressed sources tell only when it is done.
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

// makeEmpty makes the file that qemu-img writes to: in its sandbox it can make none.
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
			return "", "", fmt.Errorf("format %q is not one of %v", format, Formats())
		}
	}
	if fromFormat == toFormat {
		return "", "", fmt.Errorf("it is %s already", toFormat)
	}
	// Only an absolute path cannot be taken for a protocol such as nbd:.
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

// arguments is the command line after the program.
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

// percent is what -p prints, such as (12.34/100%).
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

// spec is how every qemu-img is run.
func (o Options) spec(args []string, sandbox process.Sandbox) process.Spec {
	command, env, grace := o.Command, o.Env, o.Grace
	if command == "" {
		command = Program
	}
	if env == nil {
		env = process.BaseEnv(os.Environ())
	}
	if grace == 0 {
		grace = 5 * time.Second
	}
	return process.Spec{
		Args: append([]string{command}, args...), Dir: "/", SharedMounts: true, Sandbox: &sandbox, Env: process.Setenv(env, "LC_ALL", "C"), Grace: grace,
		Missing: "install the package " + Package + " (Debian, Ubuntu), qemu-img (Fedora, RHEL) or qemu-tools (openSUSE)",
	}
}

// look learns size and sums of the new file.
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
