// Package plan computes the steps that bring the observed state to the desired state.
//
// Compute is pure: the same desired state and the same observations produce the same plan, byte for byte. A plan is
// data: package reconcile executes it, the renderers print it, and a plan file stores it.
package plan

import (
	"strings"
	"time"

	"github.com/npctl/npctl/resources"
)

// Address is the name of an object in plans and options, such as diskimage.debian, provider.vexxhost,
// provider.vexxhost.pool.main.label.debian-small or node.0000000001.
type Address string

// Reason is the code that states why a step is in the plan, see the Reason constants.
type Reason string

// Plan is the result of Compute.
type Plan struct {
	// Steps are in a valid order of execution.
	Steps []Step `json:"steps"`
	// Notes are observations that produce no step: drift, look-alikes, providers that did not respond.
	Notes []Note `json:"notes,omitempty"`
	// Problems are errors that only a cloud or the state reveals. A plan with a problem is not applied at all: the
	// operator did not review a part of a plan.
	Problems []Problem `json:"problems,omitempty"`
	// Unchanged holds the objects that exist and match the desired state.
	Unchanged Unchanged `json:"unchanged,omitzero"`
	// Deferred names the providers that could not be listed. The plan has no steps for them.
	Deferred []string `json:"deferred,omitempty"`
	// InProgress is another process that was working on the state. The plan skips the records that it may be
	// changing.
	InProgress *LockHolder `json:"in_progress,omitempty"`
	// Cost and Least are the results of CostOf and LeastReadyOf, for a plan that is shown. Compute does not set them.
	Cost  resources.Cost `json:"cost,omitzero"`
	Least []LeastReady   `json:"least_ready,omitempty"`
	// Consent is set if the plan needs consent for the steps with NeedsConsent.
	Consent *Consent `json:"-"`
	// Waiting lists the pools that lack the capacity for waiting requests that they could serve.
	Waiting []resources.Placement `json:"-"`
	// Relist names the providers whose ready nodes a request can have only after a newer listing.
	Relist []string `json:"-"`
}

// Meta describes the origin of a plan.
type Meta struct {
	NpctlVersion string    `json:"npctl_version"`
	Lineage      string    `json:"lineage,omitempty"`              // ID of the installation
	Serial       uint64    `json:"serial,omitempty"`               // serial of its state when the plan was computed
	Digest       string    `json:"configuration_digest,omitempty"` // see resources.Desired
	Created      time.Time `json:"created"`
	Options      Options   `json:"options"`
}

// Step is one change. Its kind decides which of the fields it has: kinds_test.go lists them, and the property tests check each
// planned step. A field that is not set has its zero value; Record is zero if the step creates the record.
type Step struct {
	ID      string  `json:"id"` // unique in the plan, the same for the same change in the next plan
	Address Address `json:"address"`
	Kind
	Reason        Reason              `json:"reason"`
	Evidence      []Fact              `json:"evidence,omitempty"`
	Changes       []Change            `json:"changes,omitempty"`
	Files         []FileChange        `json:"input_files,omitempty"` // of a build: the input files that differ, by path
	Needs         []string            `json:"needs,omitempty"`       // IDs of steps that must have succeeded
	After         []string            `json:"after,omitempty"`       // IDs of steps that must have ended, in success or failure
	Image         string              `json:"image,omitempty"`
	ImageKind     resources.ImageKind `json:"image_kind,omitempty"` // block type of the image, also after the block is removed
	Build         string              `json:"build,omitempty"`      // build ID; empty in an upload that needs a build step
	Version       string              `json:"version,omitempty"`    // of a build of an external source: the version to fetch
	Format        string              `json:"format,omitempty"`
	Formats       []string            `json:"formats,omitempty"` // of a build step
	Upload        string              `json:"upload,omitempty"`  // of a launch: the upload to boot from if no newer one is ready
	Provider      string              `json:"provider,omitempty"`
	Pool          string              `json:"pool,omitempty"`
	Label         string              `json:"label,omitempty"`
	Node          string              `json:"node,omitempty"`          // static node's name
	Slot          int64               `json:"slot,omitempty"`          // static node's slot
	Zone          string              `json:"zone,omitempty"`          // of a request's nodes
	Request       string              `json:"request,omitempty"`       // ID of the request
	EventID       string              `json:"event_id,omitempty"`      // event ID of that request, such as that of a Zuul event
	Nodes         []string            `json:"nodes,omitempty"`         // of a serve step: IDs by position in the request; empty: to launch
	Declined      []resources.Decline `json:"declined,omitempty"`      // of a decline step
	Record        resources.Key       `json:"record,omitzero"`         // the record that the step changes, if it exists
	External      string              `json:"external,omitempty"`      // ID of the object in the cloud
	Type          string              `json:"type,omitempty"`          // of a leftover: server, image, port, floating_ip, volume
	Replaces      bool                `json:"replaces,omitempty"`      // one half of a replacement
	ReplacesNode  string              `json:"replaces_node,omitempty"` // of a launch: ID of the node that it replaces
	Becomes       resources.State     `json:"becomes,omitempty"`       // of an import: the state of the node
	Values        map[string]string   `json:"values,omitempty"`        // of a launch or an upload: the planned values, as JSON
	NeedsConsent  bool                `json:"needs_consent,omitempty"` // does not run without consent
	Move          *Move               `json:"move,omitempty"`          // of a replacement with a successor in another pool
	Preconditions []Fingerprint       `json:"preconditions,omitempty"`
	Estimate      float64             `json:"estimate_seconds,omitempty"` // from the history; 0 without one
	Source        resources.Source    `json:"source,omitzero"`
}

// Cause returns the reason with its evidence, on one line.
func (s *Step) Cause() string {
	if len(s.Evidence) == 0 {
		return s.Reason.Text()
	}
	facts := make([]string, len(s.Evidence))
	for i, f := range s.Evidence {
		facts[i] = f.Name + ": " + f.Value
	}
	return s.Reason.Text() + " (" + strings.Join(facts, "; ") + ")"
}

// Fact is one piece of evidence.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Change is one attribute that differs.
type Change struct {
	Attribute string `json:"attribute"`
	Before    string `json:"before,omitempty"`
	After     string `json:"after,omitempty"`
	Forces    bool   `json:"forces_replacement,omitempty"`
}

// FileChange is an input file that differs from that of the newest build of an image.
type FileChange struct {
	Path   string    `json:"path"` // relative to the configuration
	Change FileState `json:"change"`
}

// FileState is the kind of difference of a file.
type FileState string

// The differences of files.
const (
	FileAdded   FileState = "added"
	FileRemoved FileState = "removed"
	FileChanged FileState = "changed"
)

// Severity of a Note.
type Severity string

// The severities.
const (
	Info    Severity = "info"
	Warning Severity = "warning"
)

// Note is an observation in a plan that produces no step.
type Note struct {
	Severity Severity         `json:"severity"`
	Code     string           `json:"code"`
	Address  Address          `json:"address,omitempty"`
	Text     string           `json:"text"`
	Source   resources.Source `json:"source,omitzero"`
}

// Problem is an error that only a cloud or the state reveals. A plan with a problem is not applied.
type Problem struct {
	Address  Address          `json:"address"`
	Provider string           `json:"provider,omitempty"`
	Text     string           `json:"text"`
	Hint     string           `json:"hint,omitempty"`
	Source   resources.Source `json:"source,omitzero"`
}

// Options narrow or widen a plan.
type Options struct {
	Targets      []Address `json:"targets,omitempty"`
	Excludes     []Address `json:"excludes,omitempty"`
	Replace      []Address `json:"replace,omitempty"`
	Destroy      bool      `json:"destroy,omitempty"`      // delete everything
	RefreshOnly  bool      `json:"refresh_only,omitempty"` // only remove the records of lost objects
	NoRefresh    bool      `json:"no_refresh,omitempty"`   // the clouds were not queried; Compute ignores it
	AllowDestroy Allow     `json:"allow_destroy,omitempty"`
	// Remove names builds and uploads to delete. The plan contains nothing else.
	Remove []resources.Key `json:"remove,omitempty"`
	// Images names images. The plan has steps and notes only about them, and no node changes.
	Images []string `json:"images,omitempty"`
	// Upload names builds by ID. Each is uploaded as if it were the newest of its image. The plan builds none of
	// these images and contains nothing else.
	Upload []string `json:"upload,omitempty"`
	// Imports names objects to import. The plan contains nothing else.
	Imports []ImportKey `json:"imports,omitempty"`
	// Moves limits the plan to the moves of records.
	Moves bool `json:"moves,omitempty"`
	// RequireConsent requires consent for every removal of objects that are no longer configured, because an earlier
	// plan of the configuration needed consent.
	RequireConsent bool `json:"-"`
	// HonorBackoff postpones the repetition of failed operations, for longer after each failure. A plan that an
	// operator applies does not honor the backoff.
	HonorBackoff bool `json:"honor_backoff,omitempty"`
	// Explain adds a note for each request that waits and each postponed launch.
	Explain bool `json:"explain,omitempty"`
}

// Describe sets the parts of a plan that only readers need, unless the plan deletes everything or is about single objects.
func (p *Plan) Describe(want resources.Desired, seen Observed, o Options) {
	if !o.Destroy && !o.RefreshOnly && !o.Moves && len(o.Remove)+len(o.Images)+len(o.Upload)+len(o.Imports) == 0 {
		p.Cost, p.Least = CostOf(want, seen), LeastReadyOf(*p, seen.Records)
	}
}

// Allow states what a plan may delete.
type Allow string

// The values of Allow. Without one, a plan may delete everything within the limits of Consent.
const (
	AllowNone   Allow = "none"
	AllowNodes  Allow = "nodes"
	AllowImages Allow = "images"
	AllowAll    Allow = "all"
)

// Observed is the observed state: the records, and the contents of the clouds and the images directory, which were
// read before the records.
type Observed struct {
	Now              time.Time
	Installation     string
	Records          Records
	Providers        map[string]ProviderView         // a provider without a view was not queried (-refresh=false)
	Files            []ImageFile                     // in the images directory; nil: not read
	Inputs           map[string]resources.InputFiles // by image: its local input files
	InputErrors      map[string]string               // by image: why its input files could not be read
	Formats          map[string]string               // by provider: the image format that it needs
	Versions         map[string]SourceView           // by image of an external source, here or on a build host; nil: not queried
	InstanceOffers   map[string]OfferRef             // by image: the offer of the instance that its builder uses
	Hosts            map[string]HostsView            // by builder kind: the build hosts that keep the files of its builds
	Builders         []string                        // builder kinds that can run on this host
	LockHolder       *LockHolder                     // another process that holds the lock of the state; nil without one
	Tools            map[string]Tools                // by image: the tools of its builds on this host
	Converter        []Program                       // programs for conversions that this host lacks
	Busy             map[resources.Key]bool          // records that a running step changes; the plan skips them
	Serving          []Step                          // running serve steps; the records may not show their result yet
	Frozen           map[string]bool                 // frozen providers
	LaunchFailures   map[Address]*resources.Failure  // by offer and provider: the failures of its newest launches
	FailingSteps     map[string]*resources.Failure   // by step ID: the failures of its newest attempts
	Reloaded         time.Time                       // time of the last reload, which may fix earlier failures; zero: none
	Shared           bool                            // other processes use the same store
	RegisteredPools  []resources.RegisteredPool      // the registered pools of a shared store, including ours
	BuilderID        string                          // of this process; empty before its first build
	OtherBuilders    map[string]bool                 // in a shared store: IDs of the registered builders of other npctl processes
	NodepoolBuilders []string                        // in a shared store: hosts of the registered builders of other programs
	StoreReconnected bool                            // the store recovered just now; others may not have registered again
	MaxListingAge    time.Duration                   // how much older than a request a listing may be that shows its ready nodes; 0: no limit
	ForeignClaims    map[resources.Key]bool          // records that other processes have claimed; the plan skips them
	RequestedBuilds  []string                        // images with a build request
	OwnClaims        map[resources.Key]bool          // records that this process had claimed after the records were read
	StepEpoch        uint64                          // number of the runner's steps that had ended before the records were read
}

// SourceView is the versions that the external source of an image offers, newest first.
type SourceView struct {
	Err      string // why the source could not be queried
	Versions []resources.Version
}

// HostsView is the builds on the build hosts that respond.
type HostsView struct {
	Err    string // why the hosts could not be queried
	Builds map[string]bool
}

// ImageFile is a file in the images directory.
type ImageFile struct {
	Name         string
	Size         int64
	Installation string // that has made the file, by the mark of its build; empty without a mark
}

// Records is the content of the store.
type Records struct {
	Providers []*resources.ProviderRecord
	Images    []*resources.ImageRecord
	Builds    []*resources.Build
	Uploads   []*resources.Upload
	Nodes     []*resources.Node
	Requests  []*resources.Request
	Templates []*resources.Template
	Sightings []*resources.Sighting
	Histories []*resources.History
	Trials    []*resources.Trial
	Revisions map[resources.Key]uint64
}

// ProviderView is the observed state of one provider.
type ProviderView struct {
	Err               string                  `json:"error,omitempty"`    // why it could not be listed; there is no listing then
	Rejected          bool                    `json:"rejected,omitempty"` // with Err: a retry does not help, the operator has to fix something
	ListedAt          time.Time               `json:"listed_at"`          // start of the listing
	Instances         []resources.Instance    `json:"instances,omitempty"`
	DeletedInstances  map[string]bool         `json:"deleted_instances,omitempty"`  // IDs of instances deleted since the listing
	DeletingInstances map[string]bool         `json:"deleting_instances,omitempty"` // those of DeletedInstances with a deletion that started before Quota was read
	Images            []resources.RemoteImage `json:"images,omitempty"`
	Leftovers         []resources.Leftover    `json:"leftovers,omitempty"`
	Location          string                  `json:"location,omitempty"` // such as a project in a region; empty if the driver does not report it
	Quota             resources.Quota         `json:"quota"`
	Offers            map[OfferKey]OfferView  `json:"-"`
	// CloudImages are the resolved cloud_image blocks by name.
	CloudImages map[string]CloudImageView `json:"-"`
	// Unneeded are the nodes of other providers that this provider uses and no longer needs.
	Unneeded []resources.UnneededNode `json:"unneeded,omitempty"`
	// Others are the servers and images without ownership tags of npctl, if reconcile.Options.ListOthers is set.
	Others    []resources.ExistingObject `json:"-"`
	OthersErr string                     `json:"-"` // why they could not be listed
	// CannotRelease means that the driver cannot remove ownership tags (drivers.Adopter).
	CannotRelease bool `json:"cannot_release,omitempty"`
	// Imports are the objects that imports name, except the imported ones.
	Imports map[ImportKey]ImportView `json:"-"`
}

// ImportKey names the object of an import inside a provider.
type ImportKey struct {
	Kind resources.Kind `json:"kind"` // KindNode or KindUpload
	ID   string         `json:"id"`   // in the cloud
}

// ImportView is the object of an import as the cloud describes it now.
type ImportView struct {
	resources.ExistingObject
	Found bool
	Err   string // why it could not be read
}

// OfferKey names an offer inside a provider.
type OfferKey struct{ Pool, Label string }

// OfferRef names an offer. An empty pool means any of the provider that has the label.
type OfferRef struct{ Provider, Pool, Label string }

// OfferView is an offer as the cloud resolves it now.
type OfferView struct {
	resources.ResolvedOffer
	Problems []resources.Problem
}

// CloudImageView is a cloud_image block as the cloud resolves it now.
type CloudImageView struct {
	Image    resources.RemoteImage
	Problems []resources.Problem
}

// imageAddress returns the address of an image block.
func imageAddress(kind resources.ImageKind, name string) Address {
	return Address(string(kind) + "." + name)
}

// ProviderAddress returns the address of a provider block.
func ProviderAddress(name string) Address { return Address("provider." + name) }
func nodeAddress(id string) Address       { return Address("node." + id) }
func uploadAddress(provider, image string) Address {
	return ProviderAddress(provider) + Address(".image."+image)
}
func poolAddress(provider, pool string) Address {
	return ProviderAddress(provider) + Address(".pool."+pool)
}

// OfferAddress returns the address of a label block in a pool.
func OfferAddress(provider, pool, label string) Address {
	return poolAddress(provider, pool) + Address(".label."+label)
}
