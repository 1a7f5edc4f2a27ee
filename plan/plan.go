// Package plan decides what has to happen so that what is becomes what is wanted.
//
// Compute is pure: the same desired state and the same observations give the same plan, byte for byte. A plan is data;
// package reconcile executes it, the renderers show it, and a plan file keeps it.
package plan

import (
	"strings"
	"time"

	"github.com/npctl/npctl/resources"
)

// Address names a thing the way people and -target do, such as diskimage.debian, provider.vexxhost,
// provider.vexxhost.pool.main.label.debian-small or node.0000000001.
type Address string

// Action is what a step does.
type Action string

// The actions. Create-like ones come before delete-like ones in every summary.
const (
	ActionBuild      Action = "build"      // make an image
	ActionConvert    Action = "convert"    // make a further format of a build
	ActionUpload     Action = "upload"     // put a build into a provider
	ActionLaunch     Action = "launch"     // make a node
	ActionRegister   Action = "register"   // take a static node's slot into the pool
	ActionUpdate     Action = "update"     // change a record in place
	ActionServe      Action = "serve"      // give nodes to a request
	ActionDecline    Action = "decline"    // say that pools will not serve a request
	ActionForget     Action = "forget"     // drop a record whose thing is gone
	ActionUnregister Action = "unregister" // drop the record of a static node's slot; the machine stays
	ActionDelete     Action = "delete"     // remove a thing and its record
)

// Thing is what a step acts on.
type Thing string

// The things.
const (
	ThingBuild    Thing = "build"
	ThingUpload   Thing = "upload"
	ThingNode     Thing = "node"
	ThingRequest  Thing = "request"
	ThingLeftover Thing = "leftover" // in the cloud, ours, without a record
	ThingFile     Thing = "file"     // image file on disk
	ThingRecord   Thing = "record"   // bookkeeping: provider and image records, templates
)

// Reason is why a step is in the plan: one of a fixed list of codes (see Reasons).
type Reason string

// Plan is what Compute returns.
type Plan struct {
	// Steps are in an order in which they could be done one after the other.
	Steps []Step `json:"steps"`
	// Notes tell what was seen and leads to no step: drift, look-alikes, providers that did not answer.
	Notes []Note `json:"notes,omitempty"`
	// Problems are mistakes that only the cloud or the state could show. With one of them nothing is
	// applied at all: a part of a plan is not what was reviewed.
	Problems []Problem `json:"problems,omitempty"`
	// Unchanged lists the things that exist and are as wanted, sorted.
	Unchanged []Address `json:"unchanged,omitempty"`
	// Deferred names providers that could not be queried, and so are left alone.
	Deferred []string `json:"deferred,omitempty"`
	// InProgress is another process that was working on the state; what it works on is left alone.
	InProgress *Worker `json:"in_progress,omitempty"`
	// Consent is set when the steps that are Held need consent.
	Consent *Consent `json:"-"`
	// Waiting lists the pools for which requests wait that they can serve and have no room for now.
	Waiting []resources.Place `json:"-"`
}

// Step is one change.
type Step struct {
	ID        string              `json:"id"` // unique in the plan, the same for the same change in the next plan
	Address   Address             `json:"address"`
	Action    Action              `json:"action"`
	Thing     Thing               `json:"thing"`
	Reason    Reason              `json:"reason"`
	Evidence  []Fact              `json:"evidence,omitempty"`
	Changes   []Change            `json:"changes,omitempty"`
	Files     []FileChange        `json:"input_files,omitempty"` // of a build: the input files that differ, by path
	Needs     []string            `json:"needs,omitempty"`       // IDs of steps that must have succeeded
	After     []string            `json:"after,omitempty"`       // IDs of steps that must have ended, however
	Image     string              `json:"image,omitempty"`
	ImageKind resources.ImageKind `json:"image_kind,omitempty"` // the block type that the image has, or had
	Build     string              `json:"build,omitempty"`      // build id; empty in an upload whose build is a step it needs
	Version   string              `json:"version,omitempty"`    // of a build that is fetched: which one
	Format    string              `json:"format,omitempty"`
	Formats   []string            `json:"formats,omitempty"` // of a build step
	Upload    string              `json:"upload,omitempty"`  // of a launch: the upload to boot from when no newer one arrives
	Provider  string              `json:"provider,omitempty"`
	Pool      string              `json:"pool,omitempty"`
	Label     string              `json:"label,omitempty"`
	Node      string              `json:"node,omitempty"`     // static node's name
	Slot      int64               `json:"slot,omitempty"`     // static node's slot
	Zone      string              `json:"zone,omitempty"`     // of a request's nodes
	Request   string              `json:"request,omitempty"`  // id of the request that it is for
	EventID   string              `json:"event_id,omitempty"` // of that request: what its requestor calls it, such as an event of Zuul
	Nodes     []string            `json:"nodes,omitempty"`    // of a serve step: ids by position in the request; empty where one is launched
	Declined  []resources.Decline `json:"declined,omitempty"` // of a decline step
	Record    resources.Key       `json:"record,omitzero"`    // the record it acts on, when there is one
	External  string              `json:"external,omitempty"` // the cloud's id of what it acts on
	Type      string              `json:"type,omitempty"`     // of a leftover: server, image, port, floating_ip, volume
	Replaces  bool                `json:"replaces,omitempty"` // one half of a replacement
	Values    map[string]string   `json:"values,omitempty"`   // of a launch or an upload: what it is to be made with, as JSON text
	Held      bool                `json:"held,omitempty"`     // is not done without consent
	Move      *Move               `json:"move,omitempty"`     // of a replacement whose successor is launched in another pool
	Touches   []Fingerprint       `json:"touches,omitempty"`
	Estimate  float64             `json:"estimate_seconds,omitempty"` // from the history; 0 when there is none
	Source    resources.Source    `json:"source,omitzero"`
}

// Cause is the reason with its evidence, in one line.
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

// Removes reports whether the step takes something out of service: what guards against deletion count.
func (s *Step) Removes() bool { return s.Action == ActionDelete || s.Action == ActionUnregister }

// ChecksMachine reports whether the step checks a machine and registers it. Other steps about a static node, such as the one
// that frees it when its request is gone, only change its record.
func (s *Step) ChecksMachine() bool {
	return s.Thing == ThingNode && s.Node != "" && s.Reason != ReasonRequestGone && !s.Removes()
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

// FileChange is a file that is not as it was when the newest build of an image was made.
type FileChange struct {
	Path   string    `json:"path"` // relative to the configuration
	Change FileState `json:"change"`
}

// FileState says how a file differs.
type FileState string

// How a file differs.
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

// Note is something worth knowing that leads to no step.
type Note struct {
	Severity Severity         `json:"severity"`
	Code     string           `json:"code"`
	Address  Address          `json:"address,omitempty"`
	Text     string           `json:"text"`
	Source   resources.Source `json:"source,omitzero"`
}

// Problem is a mistake that keeps steps from being planned.
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
	Destroy      bool      `json:"destroy,omitempty"`      // remove everything
	RefreshOnly  bool      `json:"refresh_only,omitempty"` // only bring records in line with what is
	NoRefresh    bool      `json:"no_refresh,omitempty"`   // the clouds were not looked at; Compute itself does not care
	AllowDestroy Allow     `json:"allow_destroy,omitempty"`
	// Remove names builds and uploads to delete. Nothing else is planned then.
	Remove []resources.Key `json:"remove,omitempty"`
	// Images names images. Nothing is planned or told of but for them, and nodes stay as they are.
	Images []string `json:"images,omitempty"`
	// Upload names builds by their ids. Each is uploaded as if it were the newest of its image, none is built of that
	// image, and nothing else is planned.
	Upload []string `json:"upload,omitempty"`
	// Hold holds back everything that the configuration no longer wants: an earlier plan of it needed consent.
	Hold bool `json:"-"`
	// Patient leaves what has failed alone for a while, longer each time. Somebody who applies a plan is not patient.
	Patient bool `json:"patient,omitempty"`
	// Explain adds a note to each request that waits.
	Explain bool `json:"explain,omitempty"`
}

// Allow says what a plan may delete.
type Allow string

// What a plan may delete. When nothing is said, a plan may delete everything as long as it is not much, see Consent.
const (
	AllowNone   Allow = "none"
	AllowNodes  Allow = "nodes"
	AllowImages Allow = "images"
	AllowAll    Allow = "all"
)

// Observed is what was found: the records, and what the clouds and the images directory showed before them.
type Observed struct {
	Now          time.Time
	Installation string
	Records      Records
	Providers    map[string]ProviderView         // a provider without a view was not asked (-refresh=false)
	Files        []ImageFile                     // in the images directory; nil when not looked
	FilesOf      string                          // the installation that the images directory belongs to; empty when none has claimed it
	Inputs       map[string]resources.InputFiles // by image: the local files that go into it
	Unread       map[string]string               // by image: why the local files that go into it could not be read
	Formats      map[string]string               // by provider: the image format it wants
	Sources      map[string]SourceView           // by image, of those that are fetched from elsewhere; nil when nobody looked
	Borrows      map[string]OfferRef             // by image: the offer whose machine its builder works on
	Hosts        map[string]HostsView            // by builder kind, of those whose builds stay on the host that made them
	Builders     []string                        // builder kinds that can be run here
	Worker       *Worker                         // another process that holds the lock of the state; nil when there is none
	Tools        map[string]Tools                // by image: what builds need of this host
	Converter    []Program                       // the programs of conversions that this host lacks
	Busy         map[resources.Key]bool          // records that a running step works on; they are left alone
	Serving      []Step                          // that give nodes to requests just now; their records may not show it yet
	Frozen       map[string]bool                 // providers that are to be left alone
	Launching    map[Address]*resources.Failure  // of offers and providers whose newest launches failed
	Failing      map[string]*resources.Failure   // by step id: steps whose newest tries have failed
	Reloaded     time.Time                       // when a new configuration was taken, which may mend what had failed; zero when none was
	Shared       bool                            // others work in the same store
	Peers        []resources.Peer                // where it is shared: the pools that are registered, ours too
	Returning    bool                            // the store was away until a moment ago, so that others may not have registered again
	Claimed      map[resources.Key]bool          // records that others work on; they are left alone
	Wished       []string                        // images that somebody else has asked to be built
	Held         map[resources.Key]bool          // records that this process has claimed, as of after the records were read
	Moment       uint64                          // tells a runner which of its steps had ended before the records were read
}

// SourceView is what there is to fetch for an image, newest first.
type SourceView struct {
	Err      string // why nobody could look
	Versions []resources.Version
}

// HostsView tells which builds the build hosts that are up have.
type HostsView struct {
	Err  string // why nobody could look
	Held map[string]bool
}

// ImageFile is a file in the images directory.
type ImageFile struct {
	Name string
	Size int64
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
	Revisions map[resources.Key]uint64
}

// ProviderView is what one provider showed.
type ProviderView struct {
	Err       string    // why it could not be queried; the rest is empty then
	Rejected  bool      // with Err: trying again is no use, somebody has to mend something
	ListedAt  time.Time // when the listing began
	Instances []resources.Instance
	Gone      map[string]bool // ids of instances that are known to have gone since the listing
	Going     map[string]bool // those of them that somebody had begun to delete before Quota was read
	Images    []resources.RemoteImage
	Leftovers []resources.Leftover
	Place     string // what the provider leads to, such as a project in a region; empty when the driver cannot tell
	Quota     resources.Quota
	Offers    map[OfferKey]OfferView
	// CloudImages are the resolved cloud_image blocks by name.
	CloudImages map[string]CloudImageView
}

// OfferKey names an offer inside a provider.
type OfferKey struct{ Pool, Label string }

// OfferRef names an offer. An empty pool means any of the provider that has the label.
type OfferRef struct{ Provider, Pool, Label string }

// OfferView is what an offer means in the cloud today.
type OfferView struct {
	resources.ResolvedOffer
	Problems []resources.Problem
}

// CloudImageView is what a cloud_image block means today.
type CloudImageView struct {
	Image    resources.RemoteImage
	Problems []resources.Problem
}
