// Package snapshot builds images on an instance: it boots an instance in a provider, runs a script on it over SSH, and
// downloads a snapshot of its disk.
package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/zclconf/go-cty/cty"
	"golang.org/x/crypto/ssh"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/internal/imagefile"
	"github.com/npctl/npctl/internal/inputs"
	"github.com/npctl/npctl/internal/process"
	"github.com/npctl/npctl/resources"
)

// closeLimit limits the deletion of the instance, whether or not the build succeeded.
const closeLimit = 5 * time.Minute

// Builder creates images from instances. Its zero value is ready to use.
type Builder struct {
	LogLimit int64 // bytes of output that are logged; process.DefaultLogLimit when 0
	inputs   inputs.Hasher
}

var (
	_ builders.Builder = (*Builder)(nil)
	_ builders.Inputs  = (*Builder)(nil)
)

// Kind implements builders.Builder.
func (*Builder) Kind() string { return "snapshot" }

// build is one build of an image.
type build struct {
	settings
	job      builders.Job
	log      io.Writer
	logLimit int64
	mask     *process.Masker
	key      ssh.Signer // to log in with
}

// Build implements builders.Builder.
func (b *Builder) Build(ctx context.Context, job builders.Job, log io.Writer) (builders.Artifact, error) {
	s, err := b.read(job.Config, job.BaseDir)
	if err != nil {
		return builders.Artifact{}, err
	}
	if job.Instances == nil {
		return builders.Artifact{}, errors.New("no build instances are available: builder \"snapshot\" works in npctl itself, not on a host without providers")
	}
	if ctx.Err() != nil {
		return builders.Artifact{}, fmt.Errorf("no instance was booted: %w", context.Cause(ctx))
	}
	ctx, cancel := process.WithTimeout(ctx, job.Timeout)
	defer cancel()
	one := &build{settings: s, job: job, log: log, logLimit: b.LogLimit, mask: process.NewMasker(s.secrets)}
	return one.run(ctx)
}

// run boots the instance, builds the image, and deletes the instance in any case.
func (b *build) run(ctx context.Context) (builders.Artifact, error) {
	if err := b.ready(); err != nil { // before the instance costs anything
		return builders.Artifact{}, err
	}
	b.report("booting an instance", 0, 0)
	b.logf("booting an instance of label %s in provider %s", b.Label, b.Provider)
	machine, err := b.job.Instances.Boot(ctx, b.Provider, b.Pool, b.Label)
	if err != nil {
		return builders.Artifact{}, fmt.Errorf("boot an instance of label %s in provider %s: %w", b.Label, b.Provider, err)
	}
	file, err := b.provision(ctx, machine)
	b.report("deleting the instance", 0, 0)
	closing, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), closeLimit, fmt.Errorf("not gone after %s", closeLimit))
	defer cancel()
	if left := machine.Close(closing); left != nil {
		left = fmt.Errorf("delete the instance: %w", left)
		b.logf("cannot %v; the next plan deletes the rest", left)
		if err != nil {
			err = errors.Join(err, left)
		}
	}
	if err != nil {
		return builders.Artifact{}, err
	}
	return builders.Artifact{Files: []builders.File{file}}, nil
}

// ready loads the local files that the build needs.
func (b *build) ready() (err error) {
	if _, err := b.script.read(); err != nil {
		return err
	}
	b.key, err = b.signer()
	return err
}

// provision performs all steps on the instance.
func (b *build) provision(ctx context.Context, machine builders.Instance) (builders.File, error) {
	connection, err := b.connect(ctx, machine)
	if err != nil {
		return builders.File{}, err
	}
	defer connection.Close() //nolint:errcheck // the instance is deleted next
	if err := b.runScript(ctx, connection); err != nil {
		return builders.File{}, err
	}
	b.shutDown(ctx, connection)
	return b.capture(ctx, machine)
}

// formatName keeps the cloud's name of a format from being a path.
var formatName = regexp.MustCompile(`^[a-z0-9][a-z0-9.]{0,31}$`)

// capture downloads the image of the disk.
func (b *build) capture(ctx context.Context, machine builders.Instance) (builders.File, error) {
	b.report("creating a snapshot", 0, 0)
	b.logf("creating a snapshot of the instance")
	output := filepath.Join(b.job.Dir, b.job.Name)
	fresh := imagefile.PartName(output)
	format, err := machine.Capture(ctx, fresh, b.report)
	if err == nil && !formatName.MatchString(format) {
		err = fmt.Errorf("the provider reports format %q", format)
	}
	if err == nil {
		err = imagefile.Accept(fresh, format)
	}
	if err == nil {
		err = os.Rename(fresh, output+"."+format)
	}
	if err != nil {
		_ = os.Remove(fresh)
		return builders.File{}, fmt.Errorf("snapshot of the instance: %w", stopped(ctx, err))
	}
	return builders.File{Format: format, Path: output + "." + format}, nil
}

// stopped adds the cause of the context's end to err, which may not include it.
func stopped(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w (%w)", cause, err)
	}
	return err
}

func (b *build) report(phase string, done, total int64) {
	if b.job.Progress != nil {
		b.job.Progress(phase, done, total)
	}
}

// logf writes a line with the prefix of npctl to the log.
func (b *build) logf(format string, args ...any) {
	_, _ = fmt.Fprintln(b.log, "npctl:", b.mask.Text(fmt.Sprintf(format, args...)))
}

// InputFiles implements builders.Inputs. It digests the script and the files that `inputs` matches.
func (b *Builder) InputFiles(ctx context.Context, config cty.Value, baseDir string) (resources.InputFiles, error) {
	s, err := b.read(config, baseDir)
	if err != nil {
		return resources.InputFiles{}, err
	}
	set := inputs.Set{Base: baseDir, Patterns: s.Inputs}
	if s.script.file != "" {
		set.Patterns = append(set.Patterns, s.script.file)
	}
	return b.inputs.Hash(ctx, baseDir, set)
}
