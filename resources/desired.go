package resources

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/zclconf/go-cty/cty"
)

// Desired is what the configuration asks for, checked and with every default filled in. All lists are sorted by name.
type Desired struct {
	Settings  Settings
	Labels    []Label
	Images    []Image
	Providers []Provider
	// Digests are hashes of the whole evaluated configuration, made of Hashed; a saved plan is bound to the first.
	Digests Hashes
	Hashed  HashSource
	// Blocks lists what the configuration was made of, sorted by address, to find out which of it has changed.
	Blocks []Block
}

// WithHashKey returns the same with hashes that are keyed.
func (d Desired) WithHashKey(key HashKey) Desired {
	d.Digests = d.Hashed.over(key, d.Digests)
	d.Images = slices.Clone(d.Images)
	for i := range d.Images {
		d.Images[i].Hashes = d.Images[i].Hashed.over(key, d.Images[i].Hashes)
	}
	d.Providers = slices.Clone(d.Providers)
	for i := range d.Providers {
		pools := slices.Clone(d.Providers[i].Pools)
		for j := range pools {
			pools[j] = pools[j].withHashKey(key)
		}
		d.Providers[i].Pools = pools
	}
	return d
}

func (p Pool) withHashKey(key HashKey) Pool {
	p.Offers, p.Nodes = slices.Clone(p.Offers), slices.Clone(p.Nodes)
	for i := range p.Offers {
		p.Offers[i].Hashes = p.Offers[i].Hashed.over(key, p.Offers[i].Hashes)
	}
	for i := range p.Nodes {
		p.Nodes[i].Hashes = p.Nodes[i].Hashed.over(key, p.Nodes[i].Hashes)
	}
	return p
}

// Block is a block of the configuration, without those inside it that have an address of their own.
type Block struct {
	Address string `json:"address"`
	Digest  string `json:"digest"` // of its values, but for the sensitive ones
	Source  Source `json:"source,omitzero"`
}

// Settings is the npctl block.
type Settings struct {
	Dir           string        // absolute directory of the configuration; relative paths start here
	ImagesDir     string        // where image files are kept
	BuildLogDir   string        // one log a build
	BuildLogKeep  int           // old logs kept per image
	State         StateSettings // where records are kept
	MaxHoldAge    time.Duration // 0 means for ever
	TenantLimits  []TenantLimit
	Gearman       *Gearman
	MaxRequests   int           // open at a time; 0 means no limit
	LeakLimit     int           // leaked things deleted in one run at the most
	LeakSightings time.Duration // least time between the two sightings of a leak
	ImageWork     ImageWork
	Source        Source
}

// ImageWork is how many steps of each kind of work on images run at a time.
type ImageWork struct {
	Builds      int64 // on this machine
	Fetches     int64 // downloads of what Zuul has built
	Snapshots   int64
	Conversions int64
}

// StateSettings says which store keeps the records.
type StateSettings struct {
	Kind   string // "bolt" or "zookeeper"
	Config cty.Value
}

// TenantLimit caps what one tenant may use at a time; nil means no limit.
type TenantLimit struct {
	Tenant      string
	MaxServers  *int64
	MaxCores    *int64
	MaxRAM      *int64 // MiB
	MaxVolumes  *int64
	MaxVolumeGB *int64 // of all volumes
}

// Gearman names the job servers that builder hosts meet at.
type Gearman struct {
	Servers []string // host:port
	TLS     *TLS
}

// TLS holds the paths of PEM files.
type TLS struct {
	CA, Cert, Key string
}

// Label is what a request asks for by name.
type Label struct {
	Name        string
	MinReady    int64
	MaxReadyAge time.Duration // 0 means for ever
	Source      Source
}

// ImageKind is the block type that declares an image.
type ImageKind string

// The kinds of images. Cloud images are found, not made.
const (
	DiskImage  ImageKind = "diskimage"
	ZuulImage  ImageKind = "zuul_image"
	CloudImage ImageKind = "cloud_image"
)

// ImageRef names an image block.
type ImageRef struct {
	Kind ImageKind `json:"kind"`
	Name string    `json:"name"`
}

func (r ImageRef) String() string { return fmt.Sprintf("%s.%s", r.Kind, r.Name) }

// Image is an image that npctl makes or fetches, uploads and deletes: a diskimage or zuul_image block.
type Image struct {
	Name              string
	Kind              ImageKind // DiskImage or ZuulImage
	Builder           string    // builder kind; "zuul" for a ZuulImage
	Config            cty.Value // the builder's own block, decoded
	Formats           []string  // asked for beyond what providers need
	KeepFormats       []string  // kept on disk though DeleteAfterUpload
	DeleteAfterUpload bool
	RebuildAge        time.Duration // 0 means never by age
	Keep              int           // newest ready builds kept
	BuildTimeout      time.Duration
	Pause             bool
	PreventDestroy    bool
	Login             Login
	Properties        map[string]string
	Tags              []string
	Hashes            Hashes // of the static attributes, made of Hashed
	Hashed            HashSource
	Static            map[string]string // the static attributes as text, sensitive ones masked, for showing what changed
	Source            Source
}

// Ref names the image.
func (i Image) Ref() ImageRef { return ImageRef{i.Kind, i.Name} }

// LoginIn is how a job gets into nodes that a provider boots from the image: the provider's own block wins.
func (i *Image) LoginIn(p *Provider) Login {
	for k := range p.Images {
		if p.Images[k].Image == i.Ref() {
			return p.Images[k].Login.over(i.Login)
		}
	}
	return i.Login
}

// over is a login with what it leaves empty taken from another. A connection type brings its port with it.
func (l Login) over(below Login) Login {
	return Login{
		Username:       cmp.Or(l.Username, below.Username),
		PythonPath:     cmp.Or(l.PythonPath, below.PythonPath),
		ShellType:      cmp.Or(l.ShellType, below.ShellType),
		ConnectionType: cmp.Or(l.ConnectionType, below.ConnectionType),
		ConnectionPort: cmp.Or(l.ConnectionPort, below.ConnectionPort),
	}
}

// Login says how a job gets into nodes of an image.
type Login struct {
	Username       string `json:"username,omitempty"`
	PythonPath     string `json:"python_path,omitempty"`
	ShellType      string `json:"shell_type,omitempty"`
	ConnectionType string `json:"connection_type,omitempty"` // ssh, winrm, network_cli, …
	ConnectionPort int64  `json:"connection_port,omitempty"`
}

// OverSSH reports whether nodes with this login are reached by SSH.
func (l Login) OverSSH() bool {
	return slices.Contains([]string{"", "ssh", "network_cli", "paramiko"}, l.ConnectionType)
}

// Provider is a cloud project, or a set of machines that exist.
type Provider struct {
	Name           string
	Driver         string
	Config         cty.Value // the driver's own attributes, decoded
	LaunchTimeout  time.Duration
	BootTimeout    time.Duration
	LaunchAttempts int64
	APITimeout     time.Duration // of one API call
	Rate           float64       // API calls a second; 0 means no limit
	MaxConcurrency int64         // steps under way at a time; 0: as many as wait for an answer
	Priority       int64         // lower goes first
	ImageNames     string        // template of names of uploads
	UploadTimeout  time.Duration
	MaxUploads     int64 // at a time
	PostUploadHook string
	PreventDestroy bool
	Pools          []Pool
	CloudImages    []CloudImageSpec
	Images         []ProviderImage
	Source         Source
}

// ProviderImage is a provider's own settings for an uploaded image.
type ProviderImage struct {
	Image      ImageRef
	Pause      bool // no uploads here
	Properties map[string]string
	Tags       []string
	Login      Login
	Config     cty.Value
	Values     map[string]string // as in Offer
	Source     Source
}

// CloudImageSpec is an image that is in the cloud already, found by id, by name or by filters (newest match wins).
type CloudImageSpec struct {
	Name    string
	ImageID string
	Image   string // exact name in the cloud
	Filters map[string]string
	Login   Login
	Config  cty.Value
	Source  Source
}

// Pool is a part of a provider with limits of its own. Nil limits mean none.
type Pool struct {
	Name                string
	MaxServers          *int64
	MaxCores            *int64
	MaxRAM              *int64 // MiB
	MaxVolumes          *int64
	MaxVolumeGB         *int64
	IgnoreProviderQuota bool
	Priority            int64
	NodeAttributes      map[string]string
	Config              cty.Value
	Offers              []Offer
	Nodes               []StaticNode
	Source              Source
}

// Offer is a pool's way of making nodes of a label: a `label` block inside a pool.
type Offer struct {
	Label  string
	Image  ImageRef
	Config cty.Value // label attributes, over the pool's where the label does not set them
	Hashes Hashes    // of the static attributes, made of Hashed
	Hashed HashSource
	Static map[string]string // as in Image
	Values map[string]string // what is not at its default, as JSON text; sensitive values are masked, long texts hashed
	Source Source
}

// Offer is the pool's way of making nodes of the label, or nil when it has none.
func (p *Pool) Offer(label string) *Offer {
	for i := range p.Offers {
		if p.Offers[i].Label == label {
			return &p.Offers[i]
		}
	}
	return nil
}

// LabelNames are those of the pool's offers and machines, sorted.
func (p *Pool) LabelNames() []string {
	var names []string
	for i := range p.Offers {
		names = append(names, p.Offers[i].Label)
	}
	for i := range p.Nodes {
		names = append(names, p.Nodes[i].Labels...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// StaticNode is a machine that exists: a `node` block.
type StaticNode struct {
	Name     string
	Address  string // what is dialled; the name when not written
	Labels   []string
	HostKeys []string
	Slots    int64
	Login    Login
	Config   cty.Value
	Hashes   Hashes // made of Hashed
	Hashed   HashSource
	Static   map[string]string
	Source   Source
}

// Source is a place in the configuration.
type Source struct {
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
}

func (s Source) String() string {
	if s.File == "" {
		return ""
	}
	return fmt.Sprintf("%s:%d", s.File, s.Line)
}
