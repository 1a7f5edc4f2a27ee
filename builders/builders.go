// Package builders is the contract between npctl and a way of making images.
//
// A builder only makes the image file. Ids, records, conversion to other formats, checksums, uploads, retention and
// logs are shared and live in package reconcile. Every builder runs the suite in builders/buildertest.
package builders

import (
	"context"
	"errors"
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
	Version string // of a Sourced builder: the one to fetch
	// Machines lends machines in the configured providers.
	Machines Machines
	// Progress, when set, is told what is going on; done and total are 0 when unknown.
	Progress func(phase string, done, total int64)
}

// Artifact is what a build left behind.
type Artifact struct {
	Files []File
	// Kept are the files of a Remote builder, which stay where they were made, as far as it knows them.
	Kept []resources.ImageFile
	Host string // where they are
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
	// InputFiles digests those files. Their Hash, with the configuration's own, decides whether an image has changed;
	// the digests of the single files only say which of them has.
	InputFiles(ctx context.Context, config cty.Value, baseDir string) (resources.InputFiles, error)
}

// Sweeper is a Builder that may leave mounts, loop devices or directories behind when npctl is killed.
type Sweeper interface {
	// Sweep removes what dead builds left below dir.
	Sweep(ctx context.Context, dir string) error
}

// Tooled is a Builder that runs programs which the host has to have.
type Tooled interface {
	// Tools describes the builds of that configuration. A mistake in it shows when the image is built.
	Tools(config cty.Value) Tools
}

// Tools is what a build needs of the host.
type Tools struct {
	Programs []Program
	Makes    []string // formats that the builder makes without qemu-img
}

// Program is one that a builder runs.
type Program struct {
	Name    string
	Package string // what to install on Debian; empty when unknown
	Path    string // PATH, as the builder sets it
}

// ErrGone is wrapped by the error of a Build whose version cannot be fetched any more; another may be.
var ErrGone = errors.New("not there any more")

// Sourced is a Builder that fetches images which are made elsewhere, where newer ones appear by themselves.
type Sourced interface {
	// Versions lists what could be fetched now, newest first, at most 100. An error means that nobody could look.
	Versions(ctx context.Context, config cty.Value, baseDir string) ([]resources.Version, error)
}

// Remote is a Builder whose images are made on another host and stay there. Its Build may be called again with the id of
// a build that was interrupted: it goes on with it, and makes no second one.
type Remote interface {
	// Send uploads a file of a build to a provider from where it is, and returns the cloud's id of the image. The host
	// makes the format when it has not got it.
	Send(ctx context.Context, s Sending) (external string, err error)
	// Remove removes the files of a build from wherever they are. A build that no host has is an ErrAway.
	Remove(ctx context.Context, buildID string) error
	// Held tells which builds the hosts that are up have files of.
	Held(ctx context.Context) (map[string]bool, error)
}

// Hosts is a Remote that knows build hosts by the names that it gives in Artifact.Host.
type Hosts interface {
	// Up reports whether the host is up and has told which builds it has, so that what it does not offer is not there.
	// False says nothing.
	Up(ctx context.Context, host string) (bool, error)
}

// ErrAway: no host that is up has the build. It may come back.
var ErrAway = errors.New("no host that is up has it")

// Sending is an upload that another host makes.
type Sending struct {
	BuildID    string
	Image      string // name of the image there
	Provider   string // name of the provider there
	Format     string
	Name       string // of the image in the cloud
	Marks      resources.Marks
	Properties map[string]string
	Tags       []string
	Progress   func(sent, total int64)
}

// Workshop makes, sends and removes images for others: what a build host offers. Its methods may be called from several
// goroutines.
type Workshop interface {
	// Images names the images it can make.
	Images() []string
	// Kept lists the ids of the finished builds it has files of.
	Kept(ctx context.Context) ([]string, error)
	// Make makes an image. A build that is there already is not made again.
	Make(ctx context.Context, image, id string, formats []string, progress func(phase string, done, total int64)) ([]resources.ImageFile, error)
	// Send uploads a file of a build that is kept here. Without marks in s, the host uses marks of its own.
	Send(ctx context.Context, s Sending) (external string, err error)
	// Remove removes the files of a build.
	Remove(ctx context.Context, id string) error
}

// Borrower is a Builder that works on a borrowed machine.
type Borrower interface {
	// Borrows says how the pool of which provider offers the machine. An empty pool means any that offers the label.
	Borrows(config cty.Value) (provider, pool, label string, err error)
}

// Machines lends machines in providers to builders that make an image of one.
type Machines interface {
	// Boot makes a machine the way the pool offers the label, marked as the build's, and returns once the cloud shows it
	// ready. An empty pool means the first that offers it. Close the machine whatever happens.
	Boot(ctx context.Context, provider, pool, label string) (Machine, error)
}

// Machine is one that a builder has to itself.
type Machine interface {
	Address() string
	Login() resources.Login
	HostKeys() []string // where the cloud knows them; otherwise none
	// Capture makes an image of the machine's disk and writes it to a new file. It returns the format.
	Capture(ctx context.Context, path string, progress func(phase string, done, total int64)) (format string, err error)
	// Console returns what the machine printed last, or "".
	Console(ctx context.Context) string
	// Close deletes the machine and everything that was made with it in the cloud.
	Close(ctx context.Context) error
}
