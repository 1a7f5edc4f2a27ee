package resources

import "time"

// Marks say what something in a cloud is for. What does not carry our Installation is not ours and is never touched.
type Marks struct {
	Installation string
	Kind         Kind   // KindNode or KindUpload
	ID           string // of the record
	Provider     string
	Pool         string
	Label        string
	Image        string
	Build        string
	Hash         Hash
}

// OfSameRecord reports whether both marks name the same record of the same installation. Marks of things that npctl did
// not make are empty, and equal to each other.
func (m Marks) OfSameRecord(other Marks) bool {
	return m.Installation == other.Installation && m.Kind == other.Kind && m.ID == other.ID
}

// Status is how far an instance or image is.
type Status string

// The statuses, whatever a cloud calls them.
const (
	StatusPending  Status = "pending"  // on its way, or in need of Advance
	StatusReady    Status = "ready"    // active and reachable as far as the cloud knows
	StatusFailed   Status = "failed"   // will not get better; Fault says why
	StatusDeleting Status = "deleting" // on its way out
)

// FaultKind says what a failed instance lacked, where the cloud tells.
type FaultKind string

// The kinds of faults that change what happens next.
const (
	FaultQuota    FaultKind = "quota"
	FaultCapacity FaultKind = "capacity"
	FaultRejected FaultKind = "rejected"
	// FaultUnavailable is of what was never made, since the cloud did not answer.
	FaultUnavailable FaultKind = "unavailable"
)

// Instance is a machine in a cloud.
type Instance struct {
	ID        string
	Name      string
	Marks     Marks // zero when it carries none
	Status    Status
	Fault     string // why it failed, in the cloud's words
	FaultKind FaultKind
	Addresses Addresses
	Zone      string
	Region    string
	Cloud     string
	HostID    string
	Flavor    string
	Resources Amounts
	Created   time.Time
	HostKeys  []string // where the driver knows them
}

// Unlimited is a quota without limit.
const Unlimited = -1

// Quota is what a project may use and uses. A limit of Unlimited means none.
type Quota struct {
	Limit Amounts
	Used  Amounts
}

// RemoteImage is an image in a cloud.
type RemoteImage struct {
	ID         string
	Name       string
	Marks      Marks
	Status     Status
	Format     string
	Size       int64
	SHA256     string
	Properties map[string]string
	Created    time.Time
}

// ResolvedOffer is what an offer means in the cloud today.
type ResolvedOffer struct {
	Flavor    string   // name and id, for people
	Resources Amounts  // what one node takes of the quota
	Zones     []string // zones to choose from; empty: the cloud chooses
	// Values are what names in the configuration mean, as in Offer.Values, whose entries they replace.
	Values map[string]string
}

// Problem is a mistake in configuration that only the cloud could find.
type Problem struct {
	Attribute string // such as flavor
	Value     string
	Detail    string // what is wrong
	Near      []string
}

// Leftover is a thing other than an instance or image.
type Leftover struct {
	Type  string // port, floating_ip, volume
	ID    string
	Name  string
	Marks Marks
	InUse bool // attached to something
	// Server is the id of the server that uses it; empty when nothing does, or something other than a server.
	Server string
}
