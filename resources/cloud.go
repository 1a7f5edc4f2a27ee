package resources

import (
	"encoding/json"
	"time"
)

// OwnerTags are the ownership tags of an object in a cloud: they name the record that it was created for. An object
// without the tags of this Installation is foreign unless a record names its ID.
type OwnerTags struct {
	Installation string
	Kind         Kind   // KindNode, KindUpload or KindBuild
	ID           string // of the record
	Provider     string
	Pool         string
	Label        string
	Image        string
	Build        string
	Hash         Hash
}

// OwnerJSON is the form of ownership tags in files, annotations and messages to other programs, which later versions have to read.
type OwnerJSON struct {
	Installation string `json:"installation,omitempty"`
	Kind         Kind   `json:"kind,omitempty"`
	ID           string `json:"id,omitempty"`
	Provider     string `json:"provider,omitempty"`
	Pool         string `json:"pool,omitempty"`
	Label        string `json:"label,omitempty"`
	Image        string `json:"image,omitempty"`
	Build        string `json:"build,omitempty"`
	Hash         Hash   `json:"hash,omitempty"`
}

// SameRecord reports whether both sets of tags name the same record of the same installation. The tags of objects
// that npctl did not create are empty and equal to each other.
func (m OwnerTags) SameRecord(other OwnerTags) bool {
	return m.Installation == other.Installation && m.Kind == other.Kind && m.ID == other.ID
}

// Status is the progress of an instance or image.
type Status string

// The statuses, independent of the names that a cloud uses.
const (
	StatusPending  Status = "pending"  // being created, or waiting for the driver's Advance
	StatusReady    Status = "ready"    // active and reachable as far as the cloud reports
	StatusFailed   Status = "failed"   // permanently failed; Fault has the reason
	StatusDeleting Status = "deleting" // being deleted
)

// FaultKind classifies why an instance failed, if the cloud reports the cause.
type FaultKind string

// The kinds of faults that change the next step.
const (
	FaultQuota    FaultKind = "quota"
	FaultCapacity FaultKind = "capacity"
	FaultRejected FaultKind = "rejected"
	// FaultUnavailable: the instance was never created because the cloud did not respond.
	FaultUnavailable FaultKind = "unavailable"
)

// Instance is a virtual machine in a cloud.
type Instance struct {
	ID     string
	Name   string
	Marks  OwnerTags // zero without ownership tags
	Status Status
	// AddressLate means that the instance is pending only because its address is missing, which the cloud may list with a delay.
	AddressLate bool
	Fault       string // the reason of a failure, or why a pending instance does not start, as the cloud reports it
	FaultKind   FaultKind
	Addresses   Addresses
	Zone        string
	Region      string
	Cloud       string
	HostID      string
	Flavor      string
	Resources   ResourceAmounts
	Created     time.Time
	HostKeys    []string // if the driver knows them
	// Login are the attributes by which jobs connect to the instance, as far as the driver knows them: they override
	// the login of the image.
	Login Login
	// Slot is the number of the part of a machine that the instance is, from 0; nil if it is a whole one.
	Slot *int64
	// Attributes are attributes of the node that the driver knows. Those of the pool override them.
	Attributes map[string]string
}

// UnneededNode is a node, or a request for one, that a provider has obtained from other providers and no longer needs.
type UnneededNode struct {
	Request string // the request by which the provider obtained the node
	Node    string // ID of the node; empty while the request is open
	Label   string
	Why     string
}

// Unlimited is the value of a quota without limit.
const Unlimited = -1

// NoLimits returns the limits of a quota that limits nothing.
func NoLimits() ResourceAmounts {
	return ResourceAmounts{Instances: Unlimited, Cores: Unlimited, RAM: Unlimited, Volumes: Unlimited, VolumeGB: Unlimited, Addresses: Unlimited}
}

// Quota is the limits and the use of a cloud project. A resource in Limit.Other without an entry is unlimited.
type Quota struct {
	Limit ResourceAmounts
	Used  ResourceAmounts
}

// RemoteImage is an image in a cloud.
type RemoteImage struct {
	ID         string
	Name       string
	Marks      OwnerTags
	Status     Status
	Format     string
	Size       int64
	SHA256     string
	Properties map[string]string
	Created    time.Time
	// Architecture is the one of its programs, in the words of the cloud; "" if the cloud does not say.
	Architecture string
}

// ResolvedOffer is an offer with its names resolved to the current objects of the cloud.
type ResolvedOffer struct {
	Flavor    string          // name and ID, for people; of several flavors the preferred one
	Resources ResourceAmounts // quota that one node uses; of several flavors the preferred one
	// FlavorNames are the names of the flavors in order of preference, for the prices of the provider.
	FlavorNames []string
	// Architectures are the ones that each flavor can run, by its name, in the words of RemoteImage. The image of a node has to
	// have one of each flavor for which there are any.
	Architectures map[string][]string
	Zones         []string // zones to choose from; empty: the cloud chooses
	// Values are the resolved names of the configuration. They replace the entries of Offer.Values.
	Values map[string]string
}

// Problem is an error in the configuration that only the cloud can detect.
type Problem struct {
	Attribute   string // for example flavor
	Value       string
	Detail      string // the error
	Suggestions []string
}

// Catalogue has the names of one cloud that a configuration may use, such as flavors with their sizes, images, networks, zones
// and keys: lists by their kind, as JSON of the driver. It has no secrets.
type Catalogue map[string]json.RawMessage

// Leftover is an associated resource: an object in a cloud other than an instance or image.
type Leftover struct {
	Type  string // one of LeftoverTypes
	ID    string
	Name  string
	Marks OwnerTags
	InUse bool // attached to another object
	// Server is the ID of the server that uses the resource, if the resource can be deleted once that server is gone.
	Server string
}

// LeftoverTypes are the types of associated resources. A driver maps the objects of its cloud to them.
var LeftoverTypes = []string{LeftoverPort, LeftoverFloatingIP, LeftoverVolume, LeftoverSnapshot, LeftoverObject, LeftoverHost, LeftoverLaunchTemplate}

// The types of associated resources.
const (
	LeftoverPort           = "port"
	LeftoverFloatingIP     = "floating_ip"
	LeftoverVolume         = "volume"
	LeftoverSnapshot       = "snapshot" // of a volume
	LeftoverObject         = "object"   // in an object store
	LeftoverHost           = "host"     // a dedicated host
	LeftoverLaunchTemplate = "launch_template"
)
