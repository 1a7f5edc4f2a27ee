package resources

import (
	"encoding/json"
	"time"
)

// Kind says what a record describes.
type Kind string

// The kinds of records, in the order in which they are listed to people.
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
	KindJournal  Kind = "journal"
)

// Kinds lists every kind.
func Kinds() []Kind {
	return []Kind{KindProvider, KindImage, KindBuild, KindUpload, KindNode, KindRequest, KindTemplate, KindSighting, KindHistory,
		KindJournal}
}

// Key names a record. IDs of builds are made by npctl; those of uploads, nodes and requests are given by the store.
type Key struct {
	Kind Kind   `json:"kind"`
	ID   string `json:"id"`
}

func (k Key) String() string { return string(k.Kind) + "/" + k.ID }

// Record is what a store keeps: *ProviderRecord, *ImageRecord, *Build, *Upload, *Node, *Request, *Template, *Sighting,
// *History, *Journal.
type Record interface {
	Key() Key
}

// NewRecord returns an empty record of the kind, or nil for a kind that this npctl does not know.
func NewRecord(kind Kind) Record {
	switch kind {
	case KindProvider:
		return &ProviderRecord{}
	case KindImage:
		return &ImageRecord{}
	case KindBuild:
		return &Build{}
	case KindUpload:
		return &Upload{}
	case KindNode:
		return &Node{}
	case KindRequest:
		return &Request{}
	case KindTemplate:
		return &Template{}
	case KindSighting:
		return &Sighting{}
	case KindHistory:
		return &History{}
	case KindJournal:
		return &Journal{}
	default:
		return nil
	}
}

// SetID gives a new record the id that a store has given it. Records of other kinds are named by what they are.
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
	}
}

// GivenID says whether stores give ids to new records of the kind.
func GivenID(kind Kind) bool {
	return kind == KindNode || kind == KindUpload || kind == KindRequest || kind == KindJournal
}

// StateOf is the state that a record is in; empty where records of the kind have none.
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

// ProviderRecord remembers how to reach a provider, so that what is in it can be deleted after its block is gone.
type ProviderRecord struct {
	Name           string          `json:"name"`
	Driver         string          `json:"driver"`
	Config         json.RawMessage `json:"config"`          // the driver's attributes without the sensitive ones
	Place          string          `json:"place,omitempty"` // where its nodes and images were made, such as a project in a region
	PreventDestroy bool            `json:"prevent_destroy,omitempty"`
	Frozen         bool            `json:"frozen,omitempty"` // to be left alone, by command
}

// Key implements Record.
func (p *ProviderRecord) Key() Key { return Key{KindProvider, p.Name} }

// ImageRecord remembers of an image what is in none of its builds.
type ImageRecord struct {
	Name           string    `json:"name"`
	Kind           ImageKind `json:"kind"`
	PreventDestroy bool      `json:"prevent_destroy,omitempty"`
	Paused         bool      `json:"paused,omitempty"` // by command, not by configuration
	PauseReason    string    `json:"pause_reason,omitempty"`
	Gone           []string  `json:"gone,omitempty"` // versions of its source that could not be fetched any more
	// Failure and Uploads, the latter by provider, are there from a failure until it works again.
	Failure *Failure            `json:"failure,omitempty"`
	Uploads map[string]*Failure `json:"uploads,omitempty"`
}

// Key implements Record.
func (i *ImageRecord) Key() Key { return Key{KindImage, i.Name} }

// Build is one making of an image.
type Build struct {
	ID        string            `json:"id"` // 32 hex digits
	Image     string            `json:"image"`
	Kind      ImageKind         `json:"kind"`
	State     State             `json:"state"`
	StateTime time.Time         `json:"state_time"`
	Created   time.Time         `json:"created"`
	Builder   string            `json:"builder"`           // builder kind
	Host      string            `json:"host"`              // host name of who builds
	HostID    string            `json:"host_id,omitempty"` // stays the same when the host is renamed
	Hash      Hash              `json:"hash"`
	Files     []ImageFile       `json:"files,omitempty"` // on the builder's disk, under its images directory
	Login     Login             `json:"login,omitzero"`
	Seconds   float64           `json:"seconds,omitempty"` // how long it took
	Error     string            `json:"error,omitempty"`
	Extra     map[string]string `json:"extra,omitempty"`   // what a builder wants remembered, such as the Zuul build it fetched
	Version   string            `json:"version,omitempty"` // of what was fetched, where the image comes from elsewhere
	Dated     time.Time         `json:"dated,omitzero"`    // when that version was made
	Remote    bool              `json:"remote,omitempty"`  // the files are on another host, which sends and removes them
}

// Key implements Record.
func (b *Build) Key() Key { return Key{KindBuild, b.ID} }

// File returns the build's file of that format.
func (b *Build) File(format string) (ImageFile, bool) {
	for _, f := range b.Files {
		if f.Format == format {
			return f, true
		}
	}
	return ImageFile{}, false
}

// Failure is what is remembered of something that has failed since it last worked.
type Failure struct {
	Count int       `json:"count"`
	Time  time.Time `json:"time"` // of the newest
	Kind  FaultKind `json:"kind,omitempty"`
	Error string    `json:"error"`
	Build string    `json:"build,omitempty"` // whose log may tell more
	Hash  Hash      `json:"hash,omitempty"`  // of what that was to be made of
	// Requested: the newest failure was of a build that somebody asked for.
	Requested bool `json:"requested,omitempty"`
}

// Version is one of the images that a source offers.
type Version struct {
	ID   string    // the same for the same image
	Time time.Time // when it was made
}

// ImageFile is a finished image file.
type ImageFile struct {
	Format string `json:"format"` // raw, qcow2, vhd, vhdx, vmdk, …
	Name   string `json:"name"`   // file name inside the images directory
	Size   int64  `json:"size"`   // bytes
	SHA256 string `json:"sha256"`
	MD5    string `json:"md5"`
}

// Upload is an image build in a provider.
type Upload struct {
	ID         string    `json:"id"`
	Image      string    `json:"image"`
	Build      string    `json:"build"`
	Provider   string    `json:"provider"`
	State      State     `json:"state"`
	StateTime  time.Time `json:"state_time"`
	Created    time.Time `json:"created"`
	Format     string    `json:"format"`
	ExternalID string    `json:"external_id,omitempty"` // the cloud's id
	Name       string    `json:"name,omitempty"`        // the cloud's name
	Size       int64     `json:"size,omitempty"`
	Hash       Hash      `json:"hash,omitempty"` // of the build
	Login      Login     `json:"login,omitzero"`
	Seconds    float64   `json:"seconds,omitempty"`
	Error      string    `json:"error,omitempty"`
	Unmarked   bool      `json:"unmarked,omitempty"` // it carries no marks, because a host that knows none has made it
}

// Key implements Record.
func (u *Upload) Key() Key { return Key{KindUpload, u.ID} }

// Node is a machine, from the intent to make it until it is gone.
type Node struct {
	ID         string            `json:"id"`
	State      State             `json:"state"`
	StateTime  time.Time         `json:"state_time"`
	Created    time.Time         `json:"created"`
	Provider   string            `json:"provider"`
	Pool       string            `json:"pool"`
	Labels     []string          `json:"labels"`
	Hash       Hash              `json:"hash"`                  // of the offer it was made from
	ExternalID string            `json:"external_id,omitempty"` // the cloud's id
	Image      string            `json:"image,omitempty"`       // image block it was booted from, such as diskimage.debian
	ImageID    string            `json:"image_id,omitempty"`    // the cloud's id of that image
	Upload     string            `json:"upload,omitempty"`      // upload record, when npctl uploaded the image
	Attempt    int64             `json:"attempt,omitempty"`     // launch attempts so far
	Unanswered int64             `json:"unanswered,omitempty"`  // those of them that came to nothing since the cloud did not answer
	Addresses  Addresses         `json:"addresses,omitzero"`
	Zone       string            `json:"zone,omitempty"`
	Cloud      string            `json:"cloud,omitempty"`
	Region     string            `json:"region,omitempty"`
	HostID     string            `json:"host_id,omitempty"`
	Hostname   string            `json:"hostname,omitempty"`
	Login      Login             `json:"login,omitzero"`
	HostKeys   []string          `json:"host_keys,omitempty"`
	Resources  Amounts           `json:"resources,omitzero"`
	Attributes map[string]string `json:"attributes,omitempty"`
	Static     bool              `json:"static,omitempty"` // exists anyway: never created or deleted
	Slot       int64             `json:"slot,omitempty"`
	Comment    string            `json:"comment,omitempty"`
	Seconds    float64           `json:"seconds,omitempty"` // from intent to ready
	Error      string            `json:"error,omitempty"`
	Request    string            `json:"request,omitempty"` // the request that it is for, or was taken with
	Tenant     string            `json:"tenant,omitempty"`
	Requestor  string            `json:"requestor,omitempty"`
	Lease      *Lease            `json:"lease,omitempty"`     // while in use, when its user has to say now and then that it is alive
	HoldUntil  time.Time         `json:"hold_until,omitzero"` // zero: for as long as max_hold_age allows
	Checked    time.Time         `json:"checked,omitzero"`    // when it was last seen to answer
	Phases     Phases            `json:"phases,omitzero"`     // how long the parts of its launch took

	// What Zuul and Nodepool write. npctl shows it and never changes it.
	Launcher   string `json:"launcher,omitempty"`    // id of the pool of another program that launched it
	HoldJob    string `json:"hold_job,omitempty"`    // what it is held for
	UserData   string `json:"user_data,omitempty"`   // what its user says of its use
	DriverData string `json:"driver_data,omitempty"` // of the driver that made it, as JSON
}

// Lease is a use that ends by itself unless it is renewed.
type Lease struct {
	Holder  string    `json:"holder"`
	Until   time.Time `json:"until"`
	Seconds int64     `json:"seconds"` // by how much a renewal prolongs it
}

// Phases are the parts of a launch, in seconds.
type Phases struct {
	Create  float64 `json:"create,omitempty"`  // until the cloud had accepted it
	Boot    float64 `json:"boot,omitempty"`    // until the cloud said that it was active and had its addresses
	Keyscan float64 `json:"keyscan,omitempty"` // until it answered and its host keys were known
}

// Key implements Record.
func (n *Node) Key() Key { return Key{KindNode, n.ID} }

// Addresses is where a node is reached.
type Addresses struct {
	Interface   string `json:"interface,omitempty"` // the one to connect to
	PublicIPv4  string `json:"public_ipv4,omitempty"`
	PrivateIPv4 string `json:"private_ipv4,omitempty"`
	PublicIPv6  string `json:"public_ipv6,omitempty"`
	PrivateIPv6 string `json:"private_ipv6,omitempty"`
}

// Amounts is what something takes of a quota, or what a quota allows.
type Amounts struct {
	Instances int64 `json:"instances,omitempty"`
	Cores     int64 `json:"cores,omitempty"`
	RAM       int64 `json:"ram,omitempty"` // MiB
	Volumes   int64 `json:"volumes,omitempty"`
	VolumeGB  int64 `json:"volume_gb,omitempty"`
	Addresses int64 `json:"addresses,omitempty"` // floating IPs
}

// Template keeps the static attributes behind a hash, as text with sensitive values masked, so that a plan can show
// what changed.
type Template struct {
	Hash   Hash              `json:"hash"`
	Static map[string]string `json:"static"`
	// Files is InputFiles.Files of an image. It is nil in records that were made before there were lists, too.
	Files map[string]string `json:"files,omitempty"`
}

// Key implements Record.
func (t *Template) Key() Key { return Key{KindTemplate, string(t.Hash)} }

// Sighting remembers that something of ours was seen in a cloud without a record.
type Sighting struct {
	Provider string    `json:"provider"`
	Type     string    `json:"type"` // server, image, port, floating_ip, volume
	External string    `json:"external_id"`
	First    time.Time `json:"first"`
	Last     time.Time `json:"last"`
	Count    int       `json:"count"`
	// Of is the record that its marks name, which may not be there.
	Of Key `json:"of,omitzero"`
	// Ahead is set by the store: it had never given an id as high as the one in the marks, so it is older than the cloud.
	Ahead bool `json:"ahead,omitempty"`
	// Deleted is when its newest deletion began. The record is kept for leak_age after that, since leak_limit counts it.
	Deleted time.Time `json:"deleted,omitzero"`
}

// Key implements Record.
func (s *Sighting) Key() Key {
	return Key{KindSighting, s.Provider + "/" + s.Type + "/" + s.External}
}

// History keeps how long the newest runs of a step took, so that plans can say how long the next will take.
type History struct {
	Subject string    `json:"subject"` // such as build/debian or launch/vexxhost/debian-small
	Seconds []float64 `json:"seconds"` // newest last
}

// Key implements Record.
func (h *History) Key() Key { return Key{KindHistory, h.Subject} }
