// Package drivers is the contract between npctl and a cloud or another source of nodes.
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

// The error kinds to which callers react differently. A driver wraps one of them; any other error counts as transient
// and is retried within limits.
var (
	// ErrQuota: the project's quota is exhausted. Wait for capacity; no attempt is used up.
	ErrQuota = errors.New("quota exceeded")
	// ErrCapacity: the cloud has no capacity (in that zone). Another zone or provider may have some.
	ErrCapacity = errors.New("no capacity")
	// ErrRejected: a repetition of the request would fail too: bad flavor, bad image, wrong password, no permission.
	ErrRejected = errors.New("rejected")
	// ErrThrottled: the cloud asks for fewer calls. The error may implement RetryAfter.
	ErrThrottled = errors.New("throttled")
	// ErrUnavailable: the cloud does not respond, or responds that it is temporarily unavailable. The request may be
	// valid. Wait until the cloud responds; no attempt is used up.
	ErrUnavailable = errors.New("unavailable")
	// ErrNotOurs: the object to delete does not have the expected ownership tags, so it was not deleted.
	ErrNotOurs = fmt.Errorf("%w: not created by npctl for this record", ErrRejected)
)

// RetryAfter is implemented by errors that contain the time to wait before a retry.
type RetryAfter interface {
	RetryAfter() time.Duration
}

// Driver opens Clouds of one kind. Several goroutines may call its methods at any time.
type Driver interface {
	// Kind is the first label of the provider block.
	Kind() string
	// Schema describes the attributes and blocks that the driver adds to its providers.
	Schema() schema.Driver
	// Open connects to the cloud of a configuration (a value of the type of Schema().Provider). It verifies the
	// credentials, so a wrong password is an ErrRejected.
	Open(ctx context.Context, env Env, config cty.Value) (Cloud, error)
}

// Env is the environment of a driver.
type Env struct {
	Log          *slog.Logger
	Provider     string // name of the provider block
	Installation string // ID of this npctl installation; part of all ownership tags
	Dir          string // a directory for the driver's own files, such as the sandbox's; may not exist yet
	// Nodes provides nodes of the other providers. It may be nil where no driver needs it.
	Nodes NodeSource
	// WrapTransport, if not nil, wraps every HTTP transport. Tests count calls and inject faults with it.
	WrapTransport func(http.RoundTripper) http.RoundTripper
}

// Cloud is one open provider. Several goroutines may call its methods; every method returns soon after its ctx is
// done.
type Cloud interface {
	// Create requests an instance and returns when the cloud has accepted it, without waiting for it to start. The
	// instance carries the ownership tags of the Spec. With Spec.MaybeCreated, Create first searches for an instance
	// that an earlier call created, and returns it. An error for which IsNothingDone is true proves that nothing was
	// created; after any other error the instance may appear later. An offer may have several flavors in order of
	// preference: Create tries the next one when the cloud has no capacity for one, and returns ErrCapacity if it has
	// none for any. The instance shows the flavor that it has.
	Create(ctx context.Context, spec Spec) (resources.Instance, error)
	// Advance performs the next step on an instance from List, such as associating a floating IP with an active
	// server, and returns the current instance. It does not wait; the caller repeats it after later Lists until the
	// instance is Ready or Failed. A driver without such steps does nothing.
	Advance(ctx context.Context, spec Spec, seen resources.Instance) (resources.Instance, error)
	// Delete requests the deletion of an instance and of the objects that were created with it. The driver reads the
	// instance's ownership tags immediately before: if they do not name the same record as the expected ones, it
	// deletes nothing and returns ErrNotOurs. Empty expected tags stand for an instance without tags that npctl has
	// adopted. Objects that others have attached to the instance stay, and stay without tags. A missing instance is
	// no error. Only List proves to the caller that the instance is gone.
	Delete(ctx context.Context, id string, expected resources.OwnerTags) error
	// List returns all instances of the project, including those of others. The number of its API calls grows with
	// pages, not with instances.
	List(ctx context.Context) ([]resources.Instance, error)
	// Quota returns limits and use of the whole project.
	Quota(ctx context.Context) (resources.Quota, error)
	// Close releases connections. The Cloud must not be used afterwards.
	Close() error
}

// Spec describes an instance to create.
type Spec struct {
	Marks    resources.OwnerTags // Marks.ID is the node's ID: the same ID means the same instance
	Hostname string
	ImageID  string // the cloud's ID of the image
	Zone     string // empty means any
	// Config is the offer's configuration, a value of the type of Schema().Label.
	Config cty.Value
	// Properties are the RequestProperties of the offer, with the values of the request.
	Properties map[string]string
	// MaybeCreated means that an earlier Create with this ID may have succeeded although npctl received no response.
	MaybeCreated bool
}

// ImageStore is a Cloud that accepts image uploads.
type ImageStore interface {
	// ImageFormat returns the upload format of this cloud, such as qcow2.
	ImageFormat() string
	// UploadImage streams the content and returns when instances can boot from the image and its size and checksums
	// are verified. After an error no usable image remains, but an object with npctl's ownership tags may: ListImages
	// returns it. With ImageSpec.MaybeCreated, UploadImage first deletes all images that carry these tags.
	UploadImage(ctx context.Context, spec ImageSpec, content io.ReadSeeker) (resources.RemoteImage, error)
	// DeleteImage requests the deletion of an image; a missing image is no error. The driver compares the image's
	// ownership tags with the expected ones immediately before, as Cloud.Delete does.
	DeleteImage(ctx context.Context, id string, expected resources.OwnerTags) error
	// ListImages returns all images of the project that carry ownership tags of any npctl installation.
	ListImages(ctx context.Context) ([]resources.RemoteImage, error)
}

// ImageSpec describes an image to upload.
type ImageSpec struct {
	Marks      resources.OwnerTags // Marks.ID is the upload's ID
	Name       string
	Format     string
	Size       int64
	SHA256     string
	MD5        string
	Properties map[string]string
	Tags       []string
	Config     cty.Value // a value of the type of Schema().Image, or null
	Progress   func(sent int64)
	// MaybeCreated means that an earlier UploadImage with these ownership tags may have created an image.
	MaybeCreated bool
}

// Snapshotter is a Cloud that can create an image of an instance's disk and return its content.
type Snapshotter interface {
	// Snapshot requests an image of the instance's disk with these ownership tags and returns its ID when the cloud
	// has accepted the request. It does not wait; ListImages shows when the image is ready.
	Snapshot(ctx context.Context, instance, name string, marks resources.OwnerTags) (string, error)
	// ReadImage streams the content of a ready image and returns its format, size and checksum.
	ReadImage(ctx context.Context, id string) (io.ReadCloser, resources.RemoteImage, error)
}

// Resolver is a Cloud that can check names in the configuration before npctl creates anything.
type Resolver interface {
	// ResolveOffer resolves the names in an offer: flavor, networks, key, zones, security groups. It returns invalid
	// names as problems with suggestions; an error means that the lookup failed.
	ResolveOffer(ctx context.Context, config cty.Value) (resources.ResolvedOffer, []resources.Problem, error)
	// ResolveImage resolves a cloud_image block: by ID, by exact name, or to the newest image that matches all
	// filters (ties are broken by ID).
	ResolveImage(ctx context.Context, spec resources.CloudImageSpec) (resources.RemoteImage, []resources.Problem, error)
}

// Cataloguer is a Cloud that can list the names that a configuration may use.
type Cataloguer interface {
	// Catalogue returns the names. A Driver that is a CatalogueReader reads them.
	Catalogue(ctx context.Context) (resources.Catalogue, error)
}

// CatalogueReader is a Driver that can check names without its cloud.
type CatalogueReader interface {
	// ResolverOf returns a Resolver that uses a catalogue and contacts nothing. config is that of the provider. The catalogue is
	// external input: it may be nil, incomplete or of another driver.
	ResolverOf(config cty.Value, names resources.Catalogue) (Resolver, error)
}

// Sweeper is a Cloud in which other objects than instances and images can leak.
type Sweeper interface {
	// Leftovers lists ports, floating IPs and volumes that carry ownership tags of any npctl installation.
	Leftovers(ctx context.Context) ([]resources.Leftover, error)
	// DeleteLeftover deletes one leftover; a missing one is no error. If its ownership tags or its use differ from l,
	// it stays and DeleteLeftover returns ErrNotOurs.
	DeleteLeftover(ctx context.Context, l resources.Leftover) error
}

// Finisher is a Cloud whose deleted instances leave objects that it can delete only when the instance is gone, such as a host.
type Finisher interface {
	// FinishDeletion deletes what an instance that this Cloud has deleted leaves. Call it when a List no longer contains the
	// instance. It may be called again after an error; what remains then is a Leftover.
	FinishDeletion(ctx context.Context, id string) error
}

// Locator is a Cloud that knows its location, so that npctl detects a provider block that now refers to another
// cloud.
type Locator interface {
	// Location names the project and region, or another container of the instances. It does not depend on the access
	// path.
	Location() string
}

// Accessor is a Cloud that issues credentials by which jobs connect to its instances, such as the token of
// a Kubernetes namespace.
type Accessor interface {
	// Access returns the credentials of a ready instance: the JSON object that Zuul expects as connection_port for the
	// connection type of the instance. It is a secret.
	Access(ctx context.Context, id string) (string, error)
}

// Console is a Cloud that can return the console output of an instance.
type Console interface {
	// ConsoleLog returns the newest lines, at most 64 KiB.
	ConsoleLog(ctx context.Context, id string) (string, error)
}

// Adopter is a Cloud in which npctl can adopt servers and images that others created.
type Adopter interface {
	// LookUp reads a server (KindNode) or an image (KindUpload) by its ID, with any tags or none. found is false if the
	// project has no such object.
	LookUp(ctx context.Context, kind resources.Kind, id string) (object resources.ExistingObject, found bool, err error)
	// ListOthers lists the servers and images of the project that carry no ownership tags of npctl. Only Instance, Image
	// and Program are set. It reads every image of the project, which List and ListImages do not.
	ListOthers(ctx context.Context) ([]resources.ExistingObject, error)
	// Adopt writes the ownership tags to a server (Marks.Kind is KindNode) or an image (KindUpload) and removes the tags
	// by which another program would delete it. It may be repeated. The driver reads the tags immediately before: an
	// object with the ownership tags of another record stays unchanged, and Adopt returns ErrNotOurs, unless the tags
	// equal replaced. A missing object is an ErrRejected.
	Adopt(ctx context.Context, id string, marks, replaced resources.OwnerTags) error
	// Release is the reverse of Adopt: it removes the ownership tags of a server and of the objects that were created with
	// it, or of an image, and the tags by which another program would delete it. It changes nothing else. It may be
	// repeated, and completes an interrupted Release. An object with the ownership tags of another record stays unchanged,
	// and Release returns ErrNotOurs. A missing object is no error.
	Release(ctx context.Context, id string, marks resources.OwnerTags) error
}

// NodeSource provides nodes of the other providers of this npctl to a driver, by ordinary requests and in ordinary
// records. Several goroutines may call its methods.
type NodeSource interface {
	// Labels returns the labels that pools offer, with the kinds of their drivers. The kind of a driver of another process
	// is "".
	Labels(ctx context.Context) (map[string][]string, error)
	// Serving reports whether requests are served while this process runs. In npctl apply they are not.
	Serving() bool
	// Request creates a request of the provider for one node of the label and returns its ID.
	Request(ctx context.Context, label string) (string, error)
	// List returns the records of the provider's requests and nodes.
	List(ctx context.Context) (SourcedNodes, error)
	// Take takes the node of a fulfilled request. It is then in use by the provider and keeps the ID of the request, and the
	// request is gone. A request that is gone is no error.
	Take(ctx context.Context, request string) error
	// MarkIdle records that the last slot of the node of a request was deleted now. A missing node is no error.
	MarkIdle(ctx context.Context, request string) error
	// Retire records that the node of a request gets no more instances. A missing node is no error.
	Retire(ctx context.Context, request string) error
	// Return gives the node of a request back: npctl deletes it. It also takes the node of a fulfilled request and returns
	// it. A request that is gone is no error.
	Return(ctx context.Context, request string) error
}

// SourcedNodes are records of a provider that uses nodes of other providers. The caller must not change them.
type SourcedNodes struct {
	Requests []*resources.Request // that the provider has made, in any state
	InUse    []*resources.Node    // in use by the provider, or on hold; Node.Request is the request
	Own      []*resources.Node    // nodes that the provider launches and has launched
}

// NodeUser is a Cloud whose instances run on nodes of other providers (see Env.Nodes).
type NodeUser interface {
	// Unneeded lists the nodes and requests that the provider no longer needs. offers are the configurations of the
	// configured offers, values of the type of Schema().Label.
	Unneeded(ctx context.Context, offers []cty.Value) ([]resources.UnneededNode, error)
	// ReturnNode returns the node of a request. If the provider needs it again, it stays, and ReturnNode returns ErrInUse.
	ReturnNode(ctx context.Context, request string) error
	// Unreachable reports that an instance does not answer within boot_timeout, before its deletion.
	Unreachable(ctx context.Context, id string) error
}

// ErrInUse is the error of ReturnNode for a node with instances.
var ErrInUse = errors.New("in use")

// ErrNotSupported is the error of a decorated Cloud without an optional ability.
var ErrNotSupported = errors.New("not supported by this driver")

// Checker is a Cloud of machines that exist without npctl and may be unreachable.
type Checker interface {
	// Check connects to the node and returns its host keys, "type base64" each; none for nodes that do not use SSH.
	// An error means that the node must not be used now: it does not respond, or it lacks a host key from the
	// configuration, which is an ErrRejected.
	Check(ctx context.Context, node resources.StaticNode) ([]string, error)
}

// NothingDone is implemented by errors that prove that the cloud did nothing: a rejection, or a request that was
// never sent. After any other error, such as a timeout or a server error, the cloud may have executed the request or
// may still execute it.
type NothingDone interface {
	NothingDone() bool
}

// Unsent marks the error of a call that has changed nothing, such as that of a request that was never sent.
func Unsent(err error) error { return unsentError{err} }

type unsentError struct{ error }

func (u unsentError) Unwrap() error   { return u.error }
func (unsentError) NothingDone() bool { return true }

// Rejectf returns an ErrRejected of a call that has changed nothing.
func Rejectf(format string, args ...any) error {
	return Unsent(fmt.Errorf("%w: %w", ErrRejected, fmt.Errorf(format, args...)))
}

// IsNothingDone reports whether the error proves that nothing was done.
func IsNothingDone(err error) bool {
	var proof NothingDone
	return errors.As(err, &proof) && proof.NothingDone()
}

// Attributes with a meaning for npctl are part of the contract. A driver that supports one embeds the struct inline in the
// settings of its block, or declares an attribute of the same name and type.

// Reach are attributes of an offer: they state how npctl verifies that a new node is reachable. Without them a node is
// ready when the cloud reports it as ready.
type Reach struct {
	HostKeyChecking bool `config:"host_key_checking" default:"true" doc:"A node is ready when it presents its SSH host keys."`
}

// RequestProperties are an attribute of an offer: metadata of instances with values of the request. npctl fills the
// placeholders; Spec.Properties contains the result.
type RequestProperties struct {
	RequestProperties map[string]string `config:"request_properties,new" doc:"Metadata of servers with values of the request for which npctl creates the server: '{request.id}', '{request.labels}', '{request.requestor}', '{request.requestor_data}', '{request.relative_priority}', '{request.event_id}', '{request.created_time}' (seconds since 1970), '{request.tenant_name}'; '{{' and '}}' are braces. Placeholders are empty for servers that are created without a request. Overrides 'instance_properties'; npctl cuts values to 255 bytes."`
}

// Format is an attribute of a provider: the format of uploaded images, instead of the first one of the Formats of the
// driver's schema.
type Format struct {
	ImageFormat string `config:"image_format"`
}
