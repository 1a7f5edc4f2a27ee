// Package drivers is the contract between npctl and a cloud, or whatever else gives nodes.
//
// A driver only translates. Rate limits, retries, timeouts and tracing are decorators around a Cloud (see Limit, Retry,
// Timeout and Trace); a driver contains none of them. Every driver runs the suite in drivers/drivertest.
package drivers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
)

// The kinds of errors that change what happens next. A driver wraps one of them; anything else is an error that may
// pass, and is tried again within limits.
var (
	// ErrQuota: the project's quota allows no more. Wait for room; it counts as no attempt.
	ErrQuota = errors.New("quota exceeded")
	// ErrCapacity: the cloud has no room (in that zone). Another zone or provider may.
	ErrCapacity = errors.New("no capacity")
	// ErrRejected: the request can never work as it is: bad flavor, bad image, wrong password, no permission.
	ErrRejected = errors.New("rejected")
	// ErrThrottled: the cloud asks for fewer calls. The error may carry a RetryAfter.
	ErrThrottled = errors.New("throttled")
	// ErrUnavailable: the cloud does not answer, or says that it cannot for now. Nothing is known to be wrong with what was
	// asked for. Wait until the cloud is there again; it counts as no attempt.
	ErrUnavailable = errors.New("unavailable")
	// ErrNotOurs: what was to be deleted does not carry the marks that the caller expects, so it was left alone.
	ErrNotOurs = fmt.Errorf("%w: not created by npctl for this record", ErrRejected)
)

// RetryAfter is implemented by errors that know when to try again.
type RetryAfter interface {
	RetryAfter() time.Duration
}

// Driver makes Clouds of one kind. Its methods may be called at any time, from several goroutines.
type Driver interface {
	// Kind is the first label of the provider block.
	Kind() string
	// Schema describes what the driver adds to the blocks of its providers.
	Schema() schema.Driver
	// Open connects to what the configuration names (a value of the type of Schema().Provider). It checks credentials,
	// so a wrong password is an ErrRejected from here.
	Open(ctx context.Context, env Env, config cty.Value) (Cloud, error)
}

// Env is what a driver may use of its surroundings.
type Env struct {
	Log          *slog.Logger
	Provider     string // name of the provider block
	Installation string // id of this npctl installation; goes into every mark
	Dir          string // a directory for files of the driver's own, such as the sandbox's; may not exist yet
	// WrapTransport, when set, is put around every HTTP transport: tests count calls and inject faults with it.
	WrapTransport func(http.RoundTripper) http.RoundTripper
}

// Cloud is one open provider. All methods may be called from several goroutines; every method ends soon after its ctx.
type Cloud interface {
	// Create asks for an instance and returns once the cloud has accepted it, without waiting for it to start. The
	// instance carries the marks of the Spec. With Spec.Retried it first looks for one that an earlier call has made,
	// and returns that. An error for which IsNothingDone holds proves that nothing was made; after any other the
	// instance may appear later.
	Create(ctx context.Context, spec Spec) (resources.Instance, error)
	// Advance does what is left to do on an instance that List showed, such as giving an active server its floating
	// IP, and returns it as it is now. It does not wait; the caller calls it again after a later List until the
	// instance is Ready or Failed. Doing nothing is right for a driver that needs none of it.
	Advance(ctx context.Context, spec Spec, seen resources.Instance) (resources.Instance, error)
	// Delete asks for the removal of an instance and of what was made with it. The driver reads the instance's marks right
	// before: when they do not name the record that the expected marks name, it deletes nothing and returns ErrNotOurs.
	// Empty marks expect an instance that carries none, which npctl has adopted. What others have attached to the instance
	// stays, and stays without marks. An instance that is not there is no error. The caller believes only List that it
	// is gone.
	Delete(ctx context.Context, id string, expected resources.Marks) error
	// List returns every instance of the project, of whomever it is. Its calls grow with pages, not with instances.
	List(ctx context.Context) ([]resources.Instance, error)
	// Quota returns limits and use of the whole project.
	Quota(ctx context.Context) (resources.Quota, error)
	// Close frees connections. The Cloud is not used afterwards.
	Close() error
}

// Spec is an instance to make.
type Spec struct {
	Marks    resources.Marks // Marks.ID is the node's id: the same id means the same instance
	Hostname string
	ImageID  string // the cloud's id of the image
	Zone     string // empty: any
	// Config is the offer's configuration, a value of the type of Schema().Label.
	Config cty.Value
	// Properties are further metadata the user asked for.
	Properties map[string]string
	// Retried means an earlier Create with this id may have happened without us hearing of it.
	Retried bool
}

// ImageStore is a Cloud that images can be uploaded to.
type ImageStore interface {
	// ImageFormat is the format this cloud wants uploads in, such as qcow2.
	ImageFormat() string
	// UploadImage streams the content and returns once the image can be booted from, its size and checksums
	// verified. On error nothing usable is left, but something with our marks may be: ListImages shows it. With
	// ImageSpec.Retried it first deletes every image that carries these marks.
	UploadImage(ctx context.Context, spec ImageSpec, content io.ReadSeeker) (resources.RemoteImage, error)
	// DeleteImage asks for removal; an image that is not there is no error. The driver compares the image's marks with the
	// expected ones right before, as Cloud.Delete does.
	DeleteImage(ctx context.Context, id string, expected resources.Marks) error
	// ListImages returns every image of the project that carries marks of any npctl installation.
	ListImages(ctx context.Context) ([]resources.RemoteImage, error)
}

// ImageSpec is an image to upload.
type ImageSpec struct {
	Marks      resources.Marks // Marks.ID is the upload's id
	Name       string
	Format     string
	Size       int64
	SHA256     string
	MD5        string
	Properties map[string]string
	Tags       []string
	Config     cty.Value // a value of the type of Schema().Image, or null
	Progress   func(sent int64)
	// Retried means that an earlier UploadImage with these marks may have created an image.
	Retried bool
}

// Snapshots is a Cloud that can make an image of an instance's disk, and give its content.
type Snapshots interface {
	// Snapshot asks for an image of the instance's disk with these marks, and returns its id once the cloud has accepted
	// it. It does not wait; ListImages shows when it is ready.
	Snapshot(ctx context.Context, instance, name string, marks resources.Marks) (string, error)
	// ReadImage streams the content of a ready image and tells its format, size and checksum.
	ReadImage(ctx context.Context, id string) (io.ReadCloser, resources.RemoteImage, error)
}

// Resolver is a Cloud that can tell before anything is made whether names in the configuration mean something.
type Resolver interface {
	// ResolveOffer looks up what an offer names: flavor, networks, key, zones, security groups. Mistakes come back as
	// problems, with near matches; the error is for not having been able to look.
	ResolveOffer(ctx context.Context, config cty.Value) (resources.ResolvedOffer, []resources.Problem, error)
	// ResolveImage finds the image a cloud_image block means: by id, by exact name, or the newest that matches all
	// filters (ties broken by id).
	ResolveImage(ctx context.Context, spec resources.CloudImageSpec) (resources.RemoteImage, []resources.Problem, error)
}

// Sweeper is a Cloud in which more than instances and images can be left behind.
type Sweeper interface {
	// Leftovers lists ports, floating IPs and volumes that carry marks of any npctl installation.
	Leftovers(ctx context.Context) ([]resources.Leftover, error)
	// DeleteLeftover removes one; one that is not there is no error. One that carries other marks than l, or is in use
	// otherwise than l says, is ErrNotOurs and stays.
	DeleteLeftover(ctx context.Context, l resources.Leftover) error
}

// Placed is a Cloud that can say where it is, so that a provider whose block was made to lead elsewhere is noticed.
type Placed interface {
	// Place names the project and region, or whatever holds the instances. It is the same however one gets there.
	Place() string
}

// Console is a Cloud that can show what a machine printed while it started.
type Console interface {
	// ConsoleLog returns the newest lines, at most 64 KiB.
	ConsoleLog(ctx context.Context, id string) (string, error)
}

// ErrNotSupported is returned through decorators when the Cloud below lacks an optional ability.
var ErrNotSupported = errors.New("not supported by this driver")
