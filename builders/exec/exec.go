// Package exec builds images with any program that creates image files: a script, Packer, virt-builder.
package exec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/internal/imagefile"
	"github.com/npctl/npctl/internal/inputs"
	"github.com/npctl/npctl/internal/process"
	"github.com/npctl/npctl/internal/scratch"
	"github.com/npctl/npctl/resources"
)

// Builder runs a command. Its zero value is ready to use.
type Builder struct {
	Environ  []string // npctl's own environment; os.Environ() when nil
	LogLimit int64    // bytes of output that are logged; process.DefaultLogLimit when 0
	inputs   inputs.Hasher
}

var (
	_ builders.Builder  = (*Builder)(nil)
	_ builders.ToolUser = (*Builder)(nil)
	_ builders.Inputs   = (*Builder)(nil)
	_ builders.Sweeper  = (*Builder)(nil)
)

// Kind implements builders.Builder.
func (*Builder) Kind() string { return "exec" }

// read decodes a block and makes its paths absolute.
func (b *Builder) read(config cty.Value, baseDir string) (s settings, err error) {
	s.secrets, err = builders.Decode(config, b.Schema(), &s)
	if !filepath.IsAbs(s.WorkingDir) {
		s.WorkingDir = filepath.Join(baseDir, s.WorkingDir)
	}
	return s, err
}

// Tools implements builders.ToolUser. The programs that the command runs are unknown, and an earlier step may create
// the command.
func (b *Builder) Tools(config cty.Value) builders.Tools {
	s, err := b.read(config, "")
	if err != nil {
		return builders.Tools{}
	}
	return builders.Tools{Formats: resources.ImageFormats(s.Formats)}
}

// chooseFormats returns the extensions to request from the command: those of the wanted formats that it can make, or
// else its first one, which the caller converts.
func chooseFormats(wanted, able []string) []string {
	both := slices.DeleteFunc(slices.Clone(able), func(ext string) bool { return !slices.Contains(wanted, resources.ImageFormat(ext)) })
	if len(both) == 0 {
		return able[:min(1, len(able))]
	}
	slices.Sort(both)
	return slices.Compact(both)
}

// Build implements builders.Builder.
func (b *Builder) Build(ctx context.Context, job builders.Job, log io.Writer) (builders.Artifact, error) {
	settings, err := b.read(job.Config, job.BaseDir)
	if err != nil {
		return builders.Artifact{}, err
	}
	dir, err := scratch.Create(job.Dir, "")
	if err != nil {
		return builders.Artifact{}, err
	}
	formats := chooseFormats(job.Formats, settings.Formats)
	err = b.run(ctx, settings, formats, job, dir, log)
	err = errors.Join(err, dir.Remove(ctx))
	if err != nil {
		return builders.Artifact{}, err
	}
	return collect(job, formats)
}

func (b *Builder) run(ctx context.Context, s settings, formats []string, job builders.Job, dir *scratch.Dir, log io.Writer) error {
	ctx, cancel := process.WithTimeout(ctx, job.Timeout)
	defer cancel()
	mask := process.NewMasker(s.secrets)
	_, _ = fmt.Fprintf(log, "npctl: running %s in %s for %s\n", mask.Text(fmt.Sprintf("%q", s.Command)), s.WorkingDir, strings.Join(formats, ", "))
	report(job, "running "+mask.Text(filepath.Base(s.Command[0])), 0, 0)
	return process.Run(ctx, process.Spec{
		Args: s.Command, Dir: s.WorkingDir, Env: b.environment(s, formats, job, dir), Grace: s.StopTimeout,
		Log: log, LogLimit: b.LogLimit, Secrets: s.secrets,
		RunID: dir.RunID(), Started: dir.Started,
		Line: func(line string) {
			if phase, done, total, ok := process.ParseProgress(line); ok {
				report(job, phase, done, total)
			}
		},
	})
}

// environment returns the environment of the command, with the variables that the schema documents.
func (b *Builder) environment(s settings, formats []string, job builders.Job, dir *scratch.Dir) []string {
	environ := b.Environ
	if environ == nil {
		environ = os.Environ()
	}
	env := process.Setenv(process.BaseEnv(environ), "TMPDIR", dir.Temp())
	env = process.Setall(process.Setall(env, s.Env), s.SecretEnv)
	return process.Setall(env, map[string]string{
		"NPCTL_IMAGE_NAME":    job.Image,
		"NPCTL_BUILD_ID":      job.BuildID,
		"NPCTL_IMAGE_FORMATS": strings.Join(formats, " "),
		"NPCTL_OUTPUT":        output(job),
		"NPCTL_OUTPUT_DIR":    job.Dir,
		"NPCTL_CONFIG_DIR":    job.BaseDir,
		"NPCTL_TIMEOUT":       strconv.FormatInt(int64(job.Timeout/time.Second), 10),
	})
}

// output returns the value of NPCTL_OUTPUT: the path of the image files without their extension.
func output(job builders.Job) string { return filepath.Join(job.Dir, job.Name) }

// collect returns the requested files.
func collect(job builders.Job, extensions []string) (builders.Artifact, error) {
	var made builders.Artifact
	var wrong []error
	for _, ext := range extensions {
		file := builders.File{Format: resources.ImageFormat(ext), Path: output(job) + "." + ext}
		wrong = append(wrong, check(file))
		made.Files = append(made.Files, file)
	}
	if err := errors.Join(wrong...); err != nil {
		return builders.Artifact{}, fmt.Errorf("%w; the command must create $NPCTL_OUTPUT.<format> for each of $NPCTL_IMAGE_FORMATS (%s); %s contains %s",
			err, strings.Join(extensions, " "), job.Dir, listing(job.Dir))
	}
	return made, nil
}

func check(file builders.File) error {
	err := imagefile.Accept(file.Path, file.Format)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("the command succeeded but did not create %s", file.Path)
	}
	return err
}

// listing lists the content of a directory, for the error about a missing file.
func listing(dir string) string {
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) == 0 {
		return "nothing"
	}
	const most = 10
	var names []string
	for _, entry := range entries[:min(len(entries), most)] {
		names = append(names, entry.Name())
	}
	if len(entries) > most {
		names = append(names, fmt.Sprintf("and %d more", len(entries)-most))
	}
	return strings.Join(names, ", ")
}

// Sweep implements builders.Sweeper.
func (*Builder) Sweep(ctx context.Context, dir string) error { return scratch.Sweep(ctx, dir) }

func report(job builders.Job, phase string, done, total int64) {
	if job.Progress != nil {
		job.Progress(phase, done, total)
	}
}

// InputFiles implements builders.Inputs. It digests the files that `inputs` matches, and the program itself if the
// command has a relative path.
func (b *Builder) InputFiles(ctx context.Context, config cty.Value, baseDir string) (resources.InputFiles, error) {
	s, err := b.read(config, baseDir)
	if err != nil {
		return resources.InputFiles{}, err
	}
	sets := []inputs.Set{{Base: baseDir, Patterns: s.Inputs}}
	if len(s.Command) > 0 && isLocal(s.Command[0]) {
		sets = append(sets, inputs.Set{Base: s.WorkingDir, Patterns: s.Command[:1]})
	}
	return b.inputs.Hash(ctx, baseDir, sets...)
}

func isLocal(program string) bool {
	return strings.Contains(program, "/") && !strings.HasPrefix(program, "/")
}
