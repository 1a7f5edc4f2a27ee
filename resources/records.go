package resources

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// Kind is the kind of object that a record describes.
type Kind string

// The kinds of records, in the order of listings.
const (
	KindProvider Kind = "provider"
	KindImage    Kind = "image"
	KindBuild    Kind = "build"
	KindUpload   Kind = "upload"
	KindNode     Kind = "node"
	KindRequest  Kind = "request"
	KindTemplate Kind = "template"
	KindSighting Kind = "sighting"
	KindHistory  Kind = "history"
	KindTrial    Kind = "trial"
	KindJournal  Kind = "journal"
	KindAudit    Kind = "audit"
	KindUse      Kind = "use"
)

// Kinds returns all kinds.
func Kinds() []Kind {
	return append(PlannedKinds(), KindJournal, KindAudit, KindUse)
}

// PlannedKinds returns the kinds that plans depend on.
func PlannedKinds() []Kind {
	return []Kind{KindProvider, KindImage, KindBuild, KindUpload, KindNode, KindRequest, KindTemplate, KindSighting, KindHistory, KindTrial}
}

// Key names a record. npctl generates the IDs of builds; the store assigns those of uploads, nodes, requests,
// journals and audit records.
type Key struct {
	Kind Kind   `json:"kind"`
	ID   string `json:"id"`
}

func (k Key) String() string { return string(k.Kind) + "/" + k.ID }

// Record is an object that a store keeps: *ProviderRecord, *ImageRecord, *Build, *Upload, *Node, *Request, *Template,
// *Sighting, *History, *Trial, *Journal, *Audit, *Use.
type Record interface {
	Key() Key
}

// newRecords makes an empty record of each kind.
var newRecords = map[Kind]func() Record{
	KindProvider: func() Record { return &ProviderRecord{} },
	KindImage:    func() Record { return &ImageRecord{} },
	KindBuild:    func() Record { return &Build{} },
	KindUpload:   func() Record { return &Upload{} },
	KindNode:     func() Record { return &Node{} },
	KindRequest:  func() Record { return &Request{} },
	KindTemplate: func() Record { return &Template{} },
	KindSighting: func() Record { return &Sighting{} },
	KindHistory:  func() Record { return &History{} },
	KindTrial:    func() Record { return &Trial{} },
	KindJournal:  func() Record { return &Journal{} },
	KindAudit:    func() Record { return &Audit{} },
	KindUse:      func() Record { return &Use{} },
}

// NewRecord returns an empty record of the kind, or nil for a kind that this npctl does not know.
func NewRecord(kind Kind) Record {
	if empty := newRecords[kind]; empty != nil {
		return empty()
	}
	return nil
}

// SetID sets the ID that a store assigned to a new record. Records of other kinds derive their key from their
// content.
func SetID(record Record, id string) {
	switch r := record.(type) {
	case *Node:
		r.ID = id
	case *Upload:
		r.ID = id
	case *Request:
		r.ID = id
	case *Journal:
		r.ID = id
	case *Audit:
		r.ID = id
	}
}

// IsStoreNumbered reports whether the store assigns the IDs of new records of the kind.
func IsStoreNumbered(kind Kind) bool {
	return kind == KindNode || kind == KindUpload || kind == KindRequest || kind == KindJournal || kind == KindAudit
}

// StateOf returns the state of a record, or "" for records of a kind without states.
func StateOf(record Record) State {
	switch r := record.(type) {
	case *Node:
		return r.State
	case *Build:
		return r.State
	case *Upload:
		return r.State
	case *Request:
		return r.State
	default:
		return ""
	}
}

// ProviderRecord keeps how to reach a provider, so that npctl can delete its objects after the provider's block is
// removed.
type ProviderRecord struct {
	Name           string          `json:"name"`
	Driver         string          `json:"driver"`
	Config         json.RawMessage `json:"config"`          // the driver's attributes without the sensitive ones
	Location       string          `json:"place,omitempty"` // location of its nodes and images, such as a project in a region
	PreventDestroy bool            `json:"prevent_destroy,omitempty"`
	Frozen         bool            `json:"frozen,omitempty"` // frozen by command
	// Imported lists the cloud IDs of adopted objects that import blocks name. An object may be gone since.
	Imported []string `json:"imported,omitempty"`
}

// Key implements Record.
func (p *ProviderRecord) Key() Key { return Key{KindProvider, p.Name} }

// ImageRecord keeps the facts about an image that belong to none of its builds.
type ImageRecord struct {
	Name            string    `json:"name"`
	Kind            ImageKind `json:"kind"`
	PreventDestroy  bool      `json:"prevent_destroy,omitempty"`
	Paused          bool      `json:"paused,omitempty"` // paused by command, not by configuration
	PauseReason     string    `json:"pause_reason,omitempty"`
	MissingVersions []string  `json:"gone,omitempty"` // versions of its source that can no longer be fetched
	// Failure and Uploads, by provider, are set from a failure until the next success.
	Failure *Failure            `json:"failure,omitempty"`
	Uploads map[string]*Failure `json:"uploads,omitempty"`
}

// Key implements Record.
func (i *ImageRecord) Key() Key { return Key{KindImage, i.Name} }

// Build is one run of a builder and the files that it created.
type Build struct {
	ID          string            `json:"id"` // 32 hex digits
	Image       string            `json:"image"`
	Kind        ImageKind         `json:"kind"`
	State       State             `json:"state"`
	StateTime   time.Time         `json:"state_time"`
	Created     time.Time         `json:"created"`
	Builder     string            `json:"builder"`           // builder kind
	Host        string            `json:"host"`              // host name of the build host
	HostID      string            `json:"host_id,omitempty"` // does not change when the host is renamed
	Hash        Hash              `json:"hash"`
	Files       []ImageFile       `json:"files,omitempty"` // on the build host, in its images directory
	Login       Login             `json:"login,omitzero"`
	Seconds     float64           `json:"seconds,omitempty"` // duration of the build
	Error       string            `json:"error,omitempty"`
	Extra       map[string]string `json:"extra,omitempty"`    // data of the builder, such as the Zuul build that it fetched
	Version     string            `json:"version,omitempty"`  // fetched version, for images of an external source
	VersionTime time.Time         `json:"dated,omitzero"`     // creation time of that version
	Imported    bool              `json:"imported,omitempty"` // it was adopted with an image of a cloud, and has no files
	Remote      bool              `json:"remote,omitempty"`   // the files are on another host, which uploads and deletes them
}

// Key implements Record.
func (b *Build) Key() Key { return Key{KindBuild, b.ID} }

// File returns the build's file of the format.
func (b *Build) File(format string) (ImageFile, bool) {
	for _, f := range b.Files {
		if f.Format == format {
			return f, true
		}
	}
	return ImageFile{}, false
}

// Failure describes the failures of an operation since its last success.
type Failure struct {
	Count int       `json:"count"`
	Time  time.Time `json:"time"` // of the newest failure
	Kind  FaultKind `json:"kind,omitempty"`
	Error string    `json:"error"`
	Build string    `json:"build,omitempty"` // the failed build; its log has the details
	Hash  Hash      `json:"hash,omitempty"`  // hash of the failed build
	// Requested reports whether the newest failure is that of a requested build.
	Requested bool `json:"requested,omitempty"`
}

// Version is one of the images that an external source offers.
type Version struct {
	ID   string    // does not change between listings
	Time time.Time // creation time
}

// ImageFile is a finished image file.
type ImageFile struct {
	Format string `json:"format"` // raw, qcow2, vhd, vhdx, vmdk, …
	Name   string `json:"name"`   // file name in the images directory
	Size   int64  `json:"size"`   // bytes
	SHA256 string `json:"sha256"`
	MD5    string `json:"md5"`
}

// Upload is a build in one provider.
type Upload struct {
	ID         string    `json:"id"`
	Image      string    `json:"image"`
	Build      string    `json:"build"`
	Provider   string    `json:"provider"`
	State      State     `json:"state"`
	StateTime  time.Time `json:"state_time"`
	Created    time.Time `json:"created"`
	Format     string    `json:"format"`
	ExternalID string    `json:"external_id,omitempty"` // ID in the cloud
	Name       string    `json:"name,omitempty"`        // name in the cloud
	Size       int64     `json:"size,omitempty"`
	Hash       Hash      `json:"hash,omitempty"`     // of the build
	Settings   Hash      `json:"settings,omitempty"` // of the provider's settings for the image; empty if unknown
	Login      Login     `json:"login,omitzero"`
	Seconds    float64   `json:"seconds,omitempty"`
	Error      string    `json:"error,omitempty"`
	Importing  bool      `json:"importing,omitempty"` // the image of another owner, until it has our ownership tags
	Unmarked   bool      `json:"unmarked,omitempty"`  // without ownership tags: the host that uploaded it does not set them
	Former     []string  `json:"former,omitempty"`    // earlier paths in a shared store, by which nodes refer to it
}

// Key implements Record.
func (u *Upload) Key() Key { return Key{KindUpload, u.ID} }

// Node is a computer for one job, from the intent to create it until its deletion.
type Node struct {
	ID                 string    `json:"id"`
	State              State     `json:"state"`
	StateTime          time.Time `json:"state_time"`
	Created            time.Time `json:"created"`
	Provider           string    `json:"provider"`
	Pool               string    `json:"pool"`
	Labels             []string  `json:"labels"`
	Hash               Hash      `json:"hash"`                  // of the offer from which it was created
	ExternalID         string    `json:"external_id,omitempty"` // ID in the cloud
	Image              string    `json:"image,omitempty"`       // image block that it was booted from, such as diskimage.debian
	ImageID            string    `json:"image_id,omitempty"`    // ID of that image in the cloud
	Upload             string    `json:"upload,omitempty"`      // upload record, if npctl uploaded the image
	Attempt            int64     `json:"attempt,omitempty"`     // number of launch attempts
	UnansweredAttempts int64     `json:"unanswered,omitempty"`  // attempts that failed because the cloud did not respond
	ReturnedAttempts   int64     `json:"returned,omitempty"`    // attempts from newer builds that launches have returned from
	Addresses          Addresses `json:"addresses,omitzero"`
	Zone               string    `json:"zone,omitempty"`
	Cloud              string    `json:"cloud,omitempty"`
	Region             string    `json:"region,omitempty"`
	HostID             string    `json:"host_id,omitempty"`
	Hostname           string    `json:"hostname,omitempty"`
	Login              Login     `json:"login,omitzero"`
	// Access are the credentials by which jobs connect to the node, see drivers.Accessor. They are a secret: records
	// and views in JSON omit them.
	Access     string            `json:"-"`
	HostKeys   []string          `json:"host_keys,omitempty"`
	Resources  ResourceAmounts   `json:"resources,omitzero"`
	Attributes map[string]string `json:"attributes,omitempty"`
	Static     bool              `json:"static,omitempty"` // a machine that npctl never creates or deletes
	Slot       int64             `json:"slot,omitempty"`
	Comment    string            `json:"comment,omitempty"`
	Seconds    float64           `json:"seconds,omitempty"` // from intent to ready
	Error      string            `json:"error,omitempty"`
	Request    string            `json:"request,omitempty"` // the request that reserved or received the node
	Tenant     string            `json:"tenant,omitempty"`
	Requestor  string            `json:"requestor,omitempty"`
	Lease      *Lease            `json:"lease,omitempty"`       // set while in use, if its user must renew the use
	HoldUntil  time.Time         `json:"hold_until,omitzero"`   // zero: max_hold_age alone limits the hold
	VerifiedAt time.Time         `json:"checked,omitzero"`      // last time when the node responded
	Phases     Phases            `json:"phases,omitzero"`       // duration of the parts of the launch
	Shares     bool              `json:"shares,omitempty"`      // it is the slot Slot of a machine that other nodes share
	IdleSince  time.Time         `json:"idle_since,omitzero"`   // of a backing node: when its last slot was deleted
	Retired    bool              `json:"retired,omitempty"`     // a backing node that gets no more slots: one did not answer, or the cloud does not list it as ready
	Replaces   string            `json:"replaces,omitempty"`    // ID of the node that it was launched to replace, which may be gone
	DeletedFor string            `json:"deleted_for,omitempty"` // reason of the plan for the deletion of a ready node, if that counts against disruption budgets
	Validates  string            `json:"validates,omitempty"`   // of a test node: the ID of its upload; such a node serves no request
	Importing  State             `json:"importing,omitempty"`   // while the server of another owner is imported: the state that the node gets

	// Zuul and Nodepool write the following fields. npctl shows them and never changes them.
	Launcher   string `json:"launcher,omitempty"`    // pool ID of the other program that launched the node
	HoldJob    string `json:"hold_job,omitempty"`    // the job for which it is held
	UserData   string `json:"user_data,omitempty"`   // the user's description of its use
	DriverData string `json:"driver_data,omitempty"` // of the driver that created it, as JSON
}

// Lease is a use that ends unless its holder renews it in time.
type Lease struct {
	Holder  string    `json:"holder"`
	Until   time.Time `json:"until"`
	Seconds int64     `json:"seconds"` // duration of a renewal
}

// Phases are the durations of the parts of a launch, in seconds.
type Phases struct {
	Create  float64 `json:"create,omitempty"`  // until the cloud accepted the request
	Boot    float64 `json:"boot,omitempty"`    // until the cloud reported the instance active, with its addresses
	Keyscan float64 `json:"keyscan,omitempty"` // until the node responded and its host keys were known
}

// Key implements Record.
func (n *Node) Key() Key { return Key{KindNode, n.ID} }

// Addresses are the network addresses of a node.
type Addresses struct {
	Interface   string `json:"interface,omitempty"` // the address to connect to
	PublicIPv4  string `json:"public_ipv4,omitempty"`
	PrivateIPv4 string `json:"private_ipv4,omitempty"`
	PublicIPv6  string `json:"public_ipv6,omitempty"`
	PrivateIPv6 string `json:"private_ipv6,omitempty"`
}

// ChangedTo returns the first recorded address that a list shows with another value. A list may omit addresses.
func (a Addresses) ChangedTo(listed Addresses) (before, after string, changed bool) {
	for _, pair := range [][2]string{{a.Interface, listed.Interface}, {a.PublicIPv4, listed.PublicIPv4}, {a.PublicIPv6, listed.PublicIPv6},
		{a.PrivateIPv4, listed.PrivateIPv4}, {a.PrivateIPv6, listed.PrivateIPv6}} {
		if pair[0] != "" && pair[1] != "" && pair[0] != pair[1] {
			return pair[0], pair[1], true
		}
	}
	return "", "", false
}

// ResourceAmounts are the quantities that an object uses of a quota, or that a quota allows.
type ResourceAmounts struct {
	Instances int64 `json:"instances,omitempty"`
	Cores     int64 `json:"cores,omitempty"`
	RAM       int64 `json:"ram,omitempty"` // MiB
	Volumes   int64 `json:"volumes,omitempty"`
	VolumeGB  int64 `json:"volume_gb,omitempty"`
	Addresses int64 `json:"addresses,omitempty"` // floating IPs
	// Other are amounts of resources that only this kind of cloud has, by the cloud's own names: service quota codes of
	// AWS, resources of Kubernetes such as nvidia.com/gpu. A limit without an entry has no limit of that resource.
	Other map[string]int64 `json:"other,omitempty"`
}

// Dimension is a quantity that every kind of cloud may limit.
type Dimension int

// Dimensions are all dimensions by their names in metrics. Limits has an attribute for each one but the last.
var Dimensions = [...]string{"instances", "cores", "ram_mib", "volumes", "volume_gb", "addresses"}

// Of returns the amount of a dimension.
func (a *ResourceAmounts) Of(d Dimension) int64 {
	return [...]int64{a.Instances, a.Cores, a.RAM, a.Volumes, a.VolumeGB, a.Addresses}[d]
}

// IsZero reports whether all amounts are zero.
func (a ResourceAmounts) IsZero() bool {
	for _, n := range a.Other {
		if n != 0 {
			return false
		}
	}
	return a.Instances == 0 && a.Cores == 0 && a.RAM == 0 && a.Volumes == 0 && a.VolumeGB == 0 && a.Addresses == 0
}

// Plus adds amounts.
func (a ResourceAmounts) Plus(b ResourceAmounts) ResourceAmounts {
	return a.combined(b, func(x, y int64) int64 { return x + y })
}

// Minus subtracts amounts.
func (a ResourceAmounts) Minus(b ResourceAmounts) ResourceAmounts {
	return a.combined(b, func(x, y int64) int64 { return x - y })
}

func (a ResourceAmounts) combined(b ResourceAmounts, f func(x, y int64) int64) ResourceAmounts {
	sum := ResourceAmounts{Instances: f(a.Instances, b.Instances), Cores: f(a.Cores, b.Cores), RAM: f(a.RAM, b.RAM),
		Volumes: f(a.Volumes, b.Volumes), VolumeGB: f(a.VolumeGB, b.VolumeGB), Addresses: f(a.Addresses, b.Addresses)}
	for _, names := range []map[string]int64{a.Other, b.Other} {
		for name := range names {
			if sum.Other == nil {
				sum.Other = make(map[string]int64, len(names))
			}
			sum.Other[name] = f(a.Other[name], b.Other[name])
		}
	}
	return sum
}

// Template keeps the replacing attributes behind a hash as text, with sensitive values masked, so that a plan can
// show the changes.
type Template struct {
	Hash   Hash              `json:"hash"`
	Static map[string]string `json:"static"`
	// Files is InputFiles.Files of an image. It is also nil in records that were written before file lists existed.
	Files map[string]string `json:"files,omitempty"`
}

// Key implements Record.
func (t *Template) Key() Key { return Key{KindTemplate, string(t.Hash)} }

// Sighting records that a listing contained an object with our ownership tags and without a record.
type Sighting struct {
	Provider string    `json:"provider"`
	Type     string    `json:"type"` // server, image, port, floating_ip, volume
	External string    `json:"external_id"`
	First    time.Time `json:"first"`
	Last     time.Time `json:"last"`
	Count    int       `json:"count"`
	// Record is the record that the object's ownership tags name. It may not exist.
	Record Key `json:"of,omitzero"`
	// NewerThanState is set by the store if the ID in the ownership tags is higher than any ID that the store has
	// assigned: the state is older than the cloud.
	NewerThanState bool `json:"ahead,omitempty"`
	// Deleted is the start of the newest deletion. The record is kept for leak_age after it, since leak_limit counts
	// it.
	Deleted time.Time `json:"deleted,omitzero"`
}

// Key implements Record.
func (s *Sighting) Key() Key {
	return Key{KindSighting, s.Provider + "/" + s.Type + "/" + s.External}
}

// History keeps the durations of the newest runs of a step; plans derive estimates from them.
type History struct {
	Subject string    `json:"subject"` // for example build/debian or launch/vexxhost/debian-small
	Seconds []float64 `json:"seconds"` // newest last
}

// Key implements Record.
func (h *History) Key() Key { return Key{KindHistory, h.Subject} }

// Trial is what the launches from an upload have shown. Only failures that the image may have caused count: the instance
// was active and did not become a usable node. Quotas, capacity, outages and errors of the cloud say nothing about it.
type Trial struct {
	Upload   string    `json:"upload"` // ID; that of Upload.Former after a move in a shared store
	Build    string    `json:"build"`
	Launched time.Time `json:"launched,omitzero"` // a successful launch; updated at most once per hour
	// Failures counts the failed launches since the newest successful one. Since and Failed are the times of the first
	// and of the newest of them, Error is the reason of the newest.
	Failures int       `json:"failures,omitempty"`
	Since    time.Time `json:"since,omitzero"`
	Failed   time.Time `json:"failed,omitzero"`
	Error    string    `json:"error,omitempty"`
	// Passed counts the test nodes that have succeeded, Validated is the time at which they were enough, or at which a person has
	// promoted the build.
	Passed    int       `json:"passed,omitempty"`
	Validated time.Time `json:"validated,omitzero"`
	// Stage is the stage of the rollout, from 0; StagePassed counts its successful launches, StageSince is the time of the one
	// that began it. Completed is the end of the last stage, or the time at which a person has promoted the build.
	Stage       int       `json:"stage,omitempty"`
	StagePassed int       `json:"stage_passed,omitempty"`
	StageSince  time.Time `json:"stage_since,omitzero"`
	Completed   time.Time `json:"completed,omitzero"`
	// Rejected is set while a person or the validation forbids launches from the upload, Pinned while a person requires them to use it.
	Rejected *Decision `json:"rejected,omitempty"`
	Pinned   *Decision `json:"pinned,omitempty"`
}

// ForgetFailures removes the failed launches.
func (t *Trial) ForgetFailures() {
	t.Failures, t.Since, t.Failed, t.Error = 0, time.Time{}, time.Time{}, ""
}

// Decision of a person, or of the validation, about a build.
type Decision struct {
	Time   time.Time `json:"time"`
	Actor  string    `json:"actor"` // as in Audit, or ValidationActor
	Reason string    `json:"reason,omitempty"`
}

// ValidationActor is the actor of a rejection by test nodes.
const ValidationActor = "its validation"

// Key implements Record.
func (t *Trial) Key() Key { return Key{KindTrial, t.Upload} }

// CompareBuilds orders builds by age, the newest first. It defines the newest build of an image.
func CompareBuilds(a, b *Build) int {
	return cmp.Or(b.StateTime.Compare(a.StateTime), cmp.Compare(a.ID, b.ID))
}

// CompareUploads orders the uploads of an image by the age of their builds, the newest first. Nodes boot from the first
// ready one in their provider. The age of the upload itself counts only if a build is unknown: a late retry of an old
// build is still old.
func CompareUploads(a, b *Upload, build func(id string) *Build) int {
	if x, y := build(a.Build), build(b.Build); x != nil && y != nil && x != y {
		return CompareBuilds(x, y)
	}
	return cmp.Or(b.StateTime.Compare(a.StateTime), cmp.Compare(b.ID, a.ID))
}

// Request asks for one node for each label, all from one pool and, where zones exist, from one zone.
type Request struct {
	ID        string    `json:"id"`
	State     State     `json:"state"`
	StateTime time.Time `json:"state_time"`
	Created   time.Time `json:"created"`
	// Labels are the requested labels, in this order; a label may occur several times.
	Labels           []string        `json:"labels"`
	Priority         int64           `json:"priority"`                    // lower goes first; 100 high, 200 normal, 300 low
	RelativePriority int64           `json:"relative_priority,omitempty"` // orders requests of the same priority; lower goes first
	Requestor        string          `json:"requestor,omitempty"`
	Tenant           string          `json:"tenant,omitempty"`
	EventID          string          `json:"event_id,omitempty"`
	Provider         string          `json:"provider,omitempty"` // required, in a shared store preferred; empty: any
	Data             json.RawMessage `json:"data,omitempty"`     // data of the requestor, returned unchanged
	Deadline         time.Time       `json:"deadline,omitzero"`  // the request fails unless it is fulfilled by then
	Fresh            bool            `json:"fresh,omitempty"`    // only nodes that are launched for it
	// Placement is the location of its nodes, set when the request becomes pending.
	Placement Placement `json:"place,omitzero"`
	// Nodes are the IDs of its nodes in the order of Labels, once the request is fulfilled.
	Nodes        []string  `json:"nodes,omitempty"`
	Declined     []Decline `json:"declined,omitempty"`
	Error        string    `json:"error,omitempty"` // reason of the failure
	PendingSince time.Time `json:"taken,omitzero"`  // time of acceptance by a pool
	Ready        time.Time `json:"ready,omitzero"`  // time when its last node became ready
}

// Key implements Record.
func (r *Request) Key() Key { return Key{KindRequest, r.ID} }

// IsOpen reports whether the request is neither fulfilled nor failed.
func (r *Request) IsOpen() bool { return r.State == StateRequested || r.State == StatePending }

// IsDone reports whether the request is fulfilled or has failed.
func (r *Request) IsDone() bool { return r.State == StateFulfilled || r.State == StateFailed }

// Placement is a pool of a provider, and optionally a zone.
type Placement struct {
	Provider string `json:"provider"`
	Pool     string `json:"pool"`
	Zone     string `json:"zone,omitempty"`
}

// Decline states that a pool, or one zone of it, will not serve a request, and the reason.
type Decline struct {
	Provider string `json:"provider"`
	Pool     string `json:"pool"`
	Zone     string `json:"zone,omitempty"`
	Reason   string `json:"reason"`
	PoolID   string `json:"by,omitempty"` // ID of the registered pool, in a shared store
}

// Journal is a part of the list of recent events, oldest first. The store keeps the newest parts.
type Journal struct {
	ID     string  `json:"id"` // increases
	Events []Event `json:"events"`
}

// Key implements Record.
func (j *Journal) Key() Key { return Key{KindJournal, j.ID} }

// Event is a decision or an occurrence.
type Event struct {
	Time    time.Time `json:"time"`
	Subject string    `json:"subject"`           // such as node/0000000001, request/0000000007, label/debian, image/debian, provider/one
	Related []string  `json:"related,omitempty"` // further subjects
	Code    string    `json:"code"`              // for example launched, ready, fulfilled, waiting
	Text    string    `json:"text"`
	EventID string    `json:"event_id,omitempty"` // event ID of the request that it concerns, assigned by the requestor
}

// Concerns reports whether the event is about a subject or related to it. Every event concerns the empty subject.
func (e *Event) Concerns(subject string) bool {
	return subject == "" || e.Subject == subject || slices.Contains(e.Related, subject)
}

// Audit is an operation by which a person or program changed the fleet, its records or the configuration in force. The store keeps all of
// them.
type Audit struct {
	ID        string    `json:"id"` // increases
	Time      time.Time `json:"time"`
	Operation string    `json:"operation"`         // such as apply, reload, state rm
	Actor     string    `json:"actor"`             // such as anna@host, token NAME: the operating system or the caller says who it is
	Objects   []string  `json:"objects,omitempty"` // addresses of the steps, or what the command names
	// Configuration is the digest of the configuration, and Plan that of the steps, as npctl plan -json prints them.
	Configuration Hash   `json:"configuration_digest,omitempty"`
	Plan          string `json:"plan_digest,omitempty"`
	Summary       string `json:"summary,omitempty"` // of the plan, such as "2 to launch"
	// Reviewed is the digest of the reviewed effect, if the operation was limited to it.
	Reviewed  string      `json:"reviewed_digest,omitempty"`
	Overrides []string    `json:"overrides,omitempty"` // failures of checks that were accepted, with the reasons
	Result    AuditResult `json:"result,omitempty"`    // empty: it runs, or the process was killed
	Error     string      `json:"error,omitempty"`
	Seconds   float64     `json:"seconds,omitempty"`
}

// Key implements Record.
func (a *Audit) Key() Key { return Key{KindAudit, a.ID} }

// AuditResult is the result of an audited operation.
type AuditResult string

// The results of audited operations.
const (
	AuditDone        AuditResult = "done"
	AuditFailed      AuditResult = "failed"
	AuditInterrupted AuditResult = "interrupted"
)

// RegisteredPool is a pool that a process serves and has registered for the other processes that serve the same
// requests.
type RegisteredPool struct {
	ID       string // valid while the process runs; a request that the pool declined lists it
	Own      bool   // served by this process
	Host     string // host of the process
	Program  string // name and version of the program, as registered; see IsNpctl
	Provider string
	Pool     string
	Labels   []string
	Priority int64 // lower goes first
	Paused   bool  // it accepts no requests: it waits for capacity, its process is a standby, or its provider does not respond
}

// Presence is the pools and the builder that a process registers for other processes in a shared store.
type Presence struct {
	Pools   []RegisteredPool
	Builder string // builder ID of the process; empty if it does not build images
}

// IsNpctl reports whether the process that serves the pool is an npctl. Processes of npctl elect a leader for each
// provider; other programs do not.
func (p *RegisteredPool) IsNpctl() bool { return p.Own || strings.HasPrefix(p.Program, "npctl") }

// OtherLauncher returns a pool that another program, such as Nodepool, serves in one of the providers, or nil.
func OtherLauncher(registered []RegisteredPool, serves func(provider string) bool) *RegisteredPool {
	for i := range registered {
		if p := &registered[i]; !p.IsNpctl() && serves(p.Provider) {
			return p
		}
	}
	return nil
}
