// Package builders is the contract between npctl and a way of making images.
//
// A builder only makes the image file. Ids, records, conversion to other formats, checksums, uploads, retention and
// logs are shared and live in package reconcile. Every builder runs the suite in builders/buildertest.
package builders

import (
	"context"
	"io"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
)

// Builder makes image files. Its methods may be called from several goroutines.
type Builder interface {
	// Kind is the label of the builder block.
	Kind() string
	// Schema describes the builder block.
	Schema() schema.Block
	// Build makes the image and returns what it left in job.Dir. It writes what happens to log. When ctx ends it
	// stops whatever it started, leaves no process, mount or loop device behind, and returns. After an error the
	// caller removes job.Dir.
	Build(ctx context.Context, job Job, log io.Writer) (Artifact, error)
}

// Job is one image to make.
type Job struct {
	Image   string // name of the image block
	BuildID string
	Config  cty.Value // the builder block, a value of the type of Schema()
	Formats []string  // wanted in the end; a builder makes those it can, at least one, and the caller converts
	Dir     string    // absolute, made for this build alone, on the file system of the images directory
	Name    string    // base name of the files: <image>-<build id>
	BaseDir string    // directory of the configuration; relative paths start here
	Timeout time.Duration
	// Progress, when set, is told what is going on; done and total are 0 when unknown.
	Progress func(phase string, done, total int64)
}

// Artifact is what a build left behind.
type Artifact struct {
	Files []File
	// Extra is remembered with the build.
	Extra map[string]string
}

// File is an image file in Job.Dir.
type File struct {
	Format string
	Path   string // absolute
}

// Inputs is a Builder whose configuration names local files that go into the image.
type Inputs interface {
	// InputHash digests the content of those files; with the configuration's own hash it decides whether an image
	// has changed.
	InputHash(ctx context.Context, config cty.Value, baseDir string) (resources.Hash, error)
}

// Sweeper is a Builder that may leave mounts, loop devices or directories behind when npctl is killed.
type Sweeper interface {
	// Sweep removes what dead builds left below dir.
	Sweep(ctx context.Context, dir string) error
}
