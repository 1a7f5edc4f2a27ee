// Package builders is the contract between npctl and a way of building images.
//
// A builder only creates the image file. IDs, records, conversion to other formats, checksums, uploads, retention and
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

// Builder creates image files. Its methods may be called from several goroutines.
type Builder interface {
	// Kind is the label of the builder block.
	Kind() string
	// Schema describes the builder block.
	Schema() schema.Block
	// Build creates the image in job.Dir and returns its files. It writes its progress and all output to log. When ctx
	// is done, it stops everything that it started, leaves no process, mount or loop device behind, and returns. After
	// an error the caller removes job.Dir.
	Build(ctx context.Context, job Job, log io.Writer) (Artifact, error)
}

// Job describes one image to build.
type Job struct {
	Image   string // name of the image block
	BuildID string
	Config  cty.Value // the builder block, a value of the type of Schema()
	Formats []string  // wanted formats; a builder creates those it can, at least one, and the caller converts
	Dir     string    // absolute, created for this build only, on the file system of the images directory
	Name    string    // base name of the files: <image>-<build id>
	BaseDir string    // directory of the configuration; relative paths start here
	Timeout time.Duration
	Version string // for a Versioned builder: the version to fetch
	// Instances lends instances in the configured providers.
	Instances Instances
	// Progress, if not nil, receives the progress of the build; done and total are 0 if unknown.
	Progress func(phase string, done, total int64)
}

// Artifact is the result of a build.
type Artifact struct {
	Files []File
	// RemoteFiles are the files of a Remote builder, as far as it knows them. They stay on the build host.
	RemoteFiles []resources.ImageFile
	Host        string // host that has RemoteFiles
	// Extra is stored with the build.
	Extra map[string]string
}

// File is an image file in Job.Dir.
type File struct {
	Format string
	Path   string // absolute
}

// Inputs is implemented by a Builder with local input files in its configuration.
type Inputs interface {
	// InputFiles digests those files. Their Hash, together with the configuration's, decides whether an image has
	// changed; the digests of the single files only identify the changed file.
	InputFiles(ctx context.Context, config cty.Value, baseDir string) (resources.InputFiles, error)
}

// Sweeper is implemented by a Builder that may leave mounts, loop devices or directories behind when npctl is killed.
type Sweeper interface {
	// Sweep removes the remains of dead builds below dir.
	Sweep(ctx context.Context, dir string) error
}

// ToolUser is implemented by a Builder that needs programs on the host.
type ToolUser interface {
	// Tools describes the builds of that configuration. An invalid configuration fails only in Build.
	Tools(config cty.Value) Tools
}

// Tools lists the requirements of a build on the host.
type Tools struct {
	Programs []Program
	Formats  []string // formats that the builder makes without qemu-img
}

// Program is an executable that a builder runs.
type Program struct {
	Name    string
	Package string // Debian package that has it; empty when unknown
	Path    string // PATH, as the builder sets it
}

// ErrVersionGone is wrapped by the error of a Build if its version is no longer available; another version may be.
var ErrVersionGone = errors.New("no longer available")

// Versioned is implemented by a Builder that fetches images from an external source, which adds versions at any time.
type Versioned interface {
	// Versions lists the available versions of an image, newest first, at most MaxVersions. An error means that the
	// source was not listed, ErrNoVersions that the image has none which can be listed.
	Versions(ctx context.Context, image string, config cty.Value, baseDir string) ([]resources.Version, error)
}

// MaxVersions limits the versions of a listing.
const MaxVersions = 100

// ErrNoVersions is wrapped by the error of Versions if the image has no external source that can be listed. Its builds
// have no versions.
var ErrNoVersions = errors.New("the image has no external source that can be listed")

// Remote is implemented by a Builder with images that are built and kept on another host. Its Build may be called again
// with the ID of an interrupted build: it resumes that build and does not start a second one.
type Remote interface {
	// Upload uploads a file of a build to a provider from its build host and returns the cloud's ID of the image. The
	// host converts the file if it does not have the format.
	Upload(ctx context.Context, s UploadJob) (external string, err error)
	// Remove removes the files of a build from all hosts. If no host has the build when it is called, the error wraps
	// ErrHostUnavailable.
	Remove(ctx context.Context, buildID string) error
	// ListBuilds returns the builds with files on the hosts that are up.
	ListBuilds(ctx context.Context) (map[string]bool, error)
}

// HostStatus is a Remote that knows build hosts by the names that it gives in Artifact.Host.
type HostStatus interface {
	// Up reports whether the host is up and offers all its builds, so that a build which it does not offer is not
	// there. False proves nothing.
	Up(ctx context.Context, host string) (bool, error)
}

// ErrHostUnavailable is returned when no host that is up has the build. The host may return.
var ErrHostUnavailable = errors.New("no available host has it")

// UploadJob is an upload by another host.
type UploadJob struct {
	BuildID    string
	Image      string // name of the image on that host
	Provider   string // name of the provider on that host
	Format     string
	Name       string // of the image in the cloud
	Marks      resources.OwnerTags
	Properties map[string]string
	Tags       []string
	Progress   func(sent, total int64)
}

// RemoteBuild is a build for another process.
type RemoteBuild struct {
	Image, BuildID string
	Version        string // of an image with an external source; the newest one if empty
	Formats        []string
	Progress       func(phase string, done, total int64)
}

// BuildService builds, uploads and removes images for other processes: the service of a build host. Its methods may be
// called from several goroutines.
type BuildService interface {
	// Images returns the names of the images that it can build.
	Images() []string
	// VersionedImages returns the names of those images that have an external source.
	VersionedImages() []string
	// Versions lists the versions of such an image, as Versioned does.
	Versions(ctx context.Context, image string) ([]resources.Version, error)
	// ListBuilds returns the IDs of the finished builds that have files on this host.
	ListBuilds(ctx context.Context) ([]string, error)
	// Build builds an image. It does not repeat an existing build.
	Build(ctx context.Context, job RemoteBuild) ([]resources.ImageFile, error)
	// Upload uploads a file of a build on this host. If s has no ownership tags, the host uses its own.
	Upload(ctx context.Context, s UploadJob) (external string, err error)
	// Remove removes the files of a build.
	Remove(ctx context.Context, id string) error
}

// InstanceUser is implemented by a Builder that works on a borrowed instance.
type InstanceUser interface {
	// InstanceOffer returns the provider, pool and label of the instance. An empty pool means any that offers the
	// label.
	InstanceOffer(config cty.Value) (provider, pool, label string, err error)
}

// Instances lends instances in providers to builders that create an image from one.
type Instances interface {
	// Boot launches an instance as the pool offers the label, with the ownership tags of the build, and returns when
	// the cloud reports it as ready. An empty pool means the first that offers the label. The caller must close the
	// instance in any case.
	Boot(ctx context.Context, provider, pool, label string) (Instance, error)
}

// Instance is a build instance for the exclusive use of one build.
type Instance interface {
	Address() string
	Login() resources.Login
	HostKeys() []string // as reported by the cloud; empty if it reports none
	// Capture creates an image of the instance's disk and writes it to a new file. It returns the format.
	Capture(ctx context.Context, path string, progress func(phase string, done, total int64)) (format string, err error)
	// Console returns the latest console output, or "".
	Console(ctx context.Context) string
	// Close deletes the instance and all its associated resources.
	Close(ctx context.Context) error
}
