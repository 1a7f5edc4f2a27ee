// Package resources defines the vocabulary of npctl: providers, pools, labels, images and nodes as the configuration
// describes them, and the records of the objects that npctl created, with their states and legal transitions. It
// depends on no other package of npctl.
package resources

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/zclconf/go-cty/cty"
)

// The tags `config` name the attributes of the blocks; see schema.Decode.

// Desired is the validated configuration with all defaults filled in. All lists are sorted by name.
type Desired struct {
	Settings  Settings
	Labels    []Label
	Images    []Image
	Providers []Provider
	Imports   []Import // sorted by address and ID
	Moves     Moves    // in the order of their blocks
	Removed   Removals // in the order of their blocks
	// Digests are hashes of the whole evaluated configuration, computed from Hashed. A saved plan is bound to the
	// first one.
	Digests Hashes
	Hashed  HashSource
	// Blocks lists the blocks of the configuration, sorted by address, to find out which ones have changed.
	Blocks []Block
}

// Provider returns the configured provider of that name.
func (d Desired) Provider(name string) (*Provider, bool) {
	i := slices.IndexFunc(d.Providers, func(p Provider) bool { return p.Name == name })
	if i < 0 {
		return nil, false
	}
	return &d.Providers[i], true
}

// Image returns the configured image of that name, or nil.
func (d Desired) Image(name string) *Image {
	i := slices.IndexFunc(d.Images, func(img Image) bool { return img.Name == name })
	if i < 0 {
		return nil
	}
	return &d.Images[i]
}

// WithHashKey returns a copy with keyed hashes.
func (d Desired) WithHashKey(key HashKey) Desired {
	d.Digests = d.Hashed.hashesOr(key, d.Digests)
	d.Images = slices.Clone(d.Images)
	for i := range d.Images {
		d.Images[i].Hashes = d.Images[i].Hashed.hashesOr(key, d.Images[i].Hashes)
	}
	d.Providers = slices.Clone(d.Providers)
	for i := range d.Providers {
		pools := slices.Clone(d.Providers[i].Pools)
		for j := range pools {
			pools[j] = pools[j].withHashKey(key)
		}
		d.Providers[i].Pools = pools
		images := slices.Clone(d.Providers[i].Images)
		for j := range images {
			images[j].Hashes = images[j].Hashed.hashesOr(key, images[j].Hashes)
		}
		d.Providers[i].Images = images
	}
	return d
}

func (p Pool) withHashKey(key HashKey) Pool {
	p.Offers, p.Nodes = slices.Clone(p.Offers), slices.Clone(p.Nodes)
	for i := range p.Offers {
		p.Offers[i].Hashes = p.Offers[i].Hashed.hashesOr(key, p.Offers[i].Hashes)
		p.Offers[i].Former = formerHashes(p.Offers[i].FormerHashed, key)
	}
	for i := range p.Nodes {
		p.Nodes[i].Hashes = p.Nodes[i].Hashed.hashesOr(key, p.Nodes[i].Hashes)
		p.Nodes[i].Former = formerHashes(p.Nodes[i].FormerHashed, key)
	}
	return p
}

func formerHashes(sources []HashSource, key HashKey) (hashes Hashes) {
	for _, former := range sources {
		hashes = append(hashes, former.Hashes(key)...)
	}
	return hashes
}

// Block is a block of the configuration, without nested blocks that have an address of their own.
type Block struct {
	Address string `json:"address"`
	Digest  string `json:"digest"` // of its values except the sensitive ones
	Source  Source `json:"source,omitzero"`
}

// Difference is a difference between two configurations: an attribute of a block, or a whole block.
type Difference struct {
	Address   string      `json:"address"`             // of the block, with the names of the later configuration
	Block     BlockChange `json:"block,omitempty"`     // set if only one configuration has the block
	Attribute string      `json:"attribute,omitempty"` // otherwise; of the builder of an image "builder.NAME"
	Before    string      `json:"before,omitempty"`    // as JSON, masked or shortened; empty for a value that is not set
	After     string      `json:"after,omitempty"`
	Class     string      `json:"class,omitempty"` // when the attribute takes effect, see schema.Class
	Source    Source      `json:"source,omitzero"` // in the later configuration; of a removed block in the earlier one
}

// BlockChange says that only one of two configurations has a block.
type BlockChange string

// The values of BlockChange.
const (
	BlockAdded   BlockChange = "added"
	BlockRemoved BlockChange = "removed"
)

// Settings is the npctl block.
type Settings struct {
	Dir           string        // absolute directory of the configuration; base of relative paths
	ImagesDir     string        `config:"images_dir,path" default:"images" doc:"Directory of image files. A relative path is relative to the configuration's directory."`
	BuildLogDir   string        `config:"build_log_dir,path" default:"build-logs" doc:"Directory of build logs, with one file for each build."`
	BuildLogKeep  int           `config:"build_log_retention" default:"7" min:"-1" doc:"Number of old logs to keep for each image; '-1' keeps all."`
	State         StateSettings // the store of the records
	MaxHoldAge    time.Duration `config:"max_hold_age" default:"0s" doc:"Maximum age of a hold; '\"0s\"' means no limit. A hold with a shorter time of its own ends earlier."`
	TenantLimits  []TenantLimit `config:"tenant_limit" label:"tenant" doc:"The upper limit of what one tenant uses at a time, over all providers. A request that exceeds the limit alone fails."`
	Gearman       *Gearman      `config:"gearman" doc:"Gearman job servers that connect npctl to its build hosts, which run 'npctl builder' and build the images with 'builder \"gearman\"'."`
	MaxRequests   int           `config:"max_requests" default:"10000" min:"0" doc:"Maximum number of open requests; '0' means no limit. At this number the API of 'npctl watch' rejects new requests. Requests in ZooKeeper count, and npctl does not reject them."`
	LeakLimit     int           `config:"leak_limit" default:"10" min:"0" doc:"Maximum number of leaks (objects with the ownership tags of this npctl and without a record) that npctl deletes within 'leak_age', in all runs together."`
	LeakSightings time.Duration `config:"leak_age" default:"10m" doc:"Minimum time between the two sightings of a leak before npctl deletes it, and the period to which 'leak_limit' applies."`
	ImageWork     ImageWork     `config:",inline"`
	Source        Source
}

// Path returns an absolute path for one of the configuration.
func (s *Settings) Path(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(s.Dir, path)
}

// LogPath returns the absolute directory of the build logs.
func (s *Settings) LogPath() string {
	if s.BuildLogDir == "" {
		return filepath.Join(s.Path(s.ImagesDir), "logs")
	}
	return s.Path(s.BuildLogDir)
}

// ImageWork limits how many steps of each kind of image work run at a time.
type ImageWork struct {
	Builds      int64 `config:"max_builds" default:"1" min:"1" doc:"Maximum number of builds on this machine at a time, by builders such as 'exec' and 'dib'."`
	Fetches     int64 `config:"max_fetches" default:"2" min:"1" doc:"Maximum number of downloads of 'zuul_image' builds at a time."`
	Snapshots   int64 `config:"max_snapshot_builds" default:"2" min:"1" doc:"Maximum number of snapshot builds at a time ('builder \"snapshot\"')."`
	Conversions int64 `config:"max_conversions" default:"1" min:"1" doc:"Maximum number of conversions of builds to another format at a time."`
}

// StateSettings selects the store of the records.
type StateSettings struct {
	Kind   string // "bolt" or "zookeeper"
	Config cty.Value
}

// TenantLimit limits what one tenant uses at a time.
type TenantLimit struct {
	Tenant string `config:",label"`
	Limits `config:",inline"`
}

// Limits limit what a set of nodes uses; nil means no limit.
type Limits struct {
	MaxServers   *int64           `config:"max_servers" min:"0" doc:"Maximum number of nodes; '0' permits none. The default is no limit."`
	MaxCores     *int64           `config:"max_cores" min:"0" doc:"Maximum number of CPU cores. The default is no limit."`
	MaxRAM       *int64           `config:"max_ram" min:"0" doc:"Maximum memory in MiB. The default is no limit."`
	MaxVolumes   *int64           `config:"max_volumes" min:"0" doc:"Maximum number of volumes. The default is no limit."`
	MaxVolumeGB  *int64           `config:"max_volume_gb" min:"0" doc:"Maximum size of all volumes in GiB. The default is no limit."`
	MaxResources map[string]int64 `config:"max_resources" min:"0" doc:"Maximum amounts of other resources, by the names of the cloud: service quota codes of AWS such as 'L-1216C47A', metrics of Google such as 'N2_CPUS', resources of Kubernetes such as 'nvidia.com/gpu'. The default is no limit."`
}

// Of returns the limit of a dimension, or nil.
func (l *Limits) Of(d Dimension) *int64 {
	return [...]*int64{l.MaxServers, l.MaxCores, l.MaxRAM, l.MaxVolumes, l.MaxVolumeGB, nil}[d]
}

// Gearman lists the job servers to which the build hosts connect.
type Gearman struct {
	Servers []string `config:"servers,required" doc:"Servers in the form 'host' or 'host:port'. The default port is 4730."`
	TLS     *TLS     `config:"tls" doc:"Paths of PEM files for TLS with client certificates."`
}

// TLS holds the paths of PEM files.
type TLS struct {
	CA   string `config:"ca,required,path" doc:"Certificates of the trusted authorities."`
	Cert string `config:"cert,path" doc:"Certificate of this client."`
	Key  string `config:"key,path" doc:"Key of this client."`
}

// Label is the name by which a request asks for a node.
type Label struct {
	Name        string
	MinReady    int64         `config:"min_ready" default:"0" min:"-1" doc:"Number of ready, unassigned nodes that npctl maintains. '-1' means the same as '0', as in Nodepool."`
	IdleTimeout time.Duration `config:"idle_timeout" default:"0s" doc:"Time after which npctl deletes a ready node that is not in use and that 'min_ready' does not need; '\"0s\"' means never."`
	MaxReadyAge time.Duration `config:"max_ready_age" default:"0s" doc:"Age at which npctl replaces a ready node that is not in use; '\"0s\"' means never."`
	Disruptions []Disruption  `config:"disruption" doc:"How many ready nodes of the label npctl replaces at a time, see rollouts.md."`
	Source      Source
}

// ImageKind is the block type that declares an image.
type ImageKind string

// The kinds of images. npctl finds cloud images and does not create or delete them.
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

// IsUploaded reports whether npctl uploads the image: it is neither a cloud image nor the zero value.
func (r ImageRef) IsUploaded() bool { return r.Kind == DiskImage || r.Kind == ZuulImage }

// String returns the address of the block, "" for the zero value.
func (r ImageRef) String() string {
	if r == (ImageRef{}) {
		return ""
	}
	return fmt.Sprintf("%s.%s", r.Kind, r.Name)
}

// Image is an image that npctl builds or fetches, uploads and deletes: a diskimage or zuul_image block.
type Image struct {
	Name              string
	Kind              ImageKind         // DiskImage or ZuulImage
	Builder           string            // builder kind; "zuul" for a ZuulImage
	Config            cty.Value         // the decoded block of the builder
	Formats           []string          `config:"formats" default:"" doc:"Formats to create in addition to the formats of the providers. npctl adds the latter automatically."`
	KeepFormats       []string          `config:"keep_formats" default:"" doc:"Formats of files that npctl keeps despite 'delete_after_upload'."`
	DeleteAfterUpload bool              `config:"delete_after_upload" default:"false" doc:"Whether npctl deletes the file of a format after its upload to all providers that use it."`
	RebuildAge        time.Duration     `config:"rebuild_age" doc:"Age of the newest ready build at which npctl builds the image again; '\"0s\"' means never by age."`
	Keep              int               `config:"keep" default:"2" min:"1" doc:"Number of newest ready builds to keep."`
	AutoRevert        bool              `config:"auto_revert" default:"true" doc:"Whether launches return to the newest build that has launched, after 'launch_attempts' launches in a row from a newer one have failed in a provider and the image may be the cause."`
	Validate          *Validation       `config:"validate" doc:"Nodes that test each new upload before other nodes boot from it."`
	Rollout           *Rollout          `config:"rollout" doc:"Stages in which a new upload replaces the one before it for launches. Without this block, all launches use a new upload at once."`
	BuildTimeout      time.Duration     `config:"build_timeout" default:"8h" doc:"Time limit of a build; '\"0s\"' means no limit."`
	Pause             bool              `config:"pause" default:"false" doc:"Whether builds are paused. Existing builds are kept and uploaded."`
	PreventDestroy    bool              `config:"prevent_destroy" default:"false" doc:"Whether npctl rejects a plan that would delete the image with all its builds. This also applies after the block is removed."`
	Login             Login             `config:",inline"`
	Properties        map[string]string `config:"properties,new" default:"" doc:"Properties of uploads. The provider's own properties override them."`
	Tags              []string          `config:"tags,new" default:"" doc:"Tags of uploads, in addition to the provider's own."`
	Hashes            Hashes            // of the replacing attributes, computed from Hashed
	Hashed            HashSource
	Static            map[string]string // the replacing attributes as text, sensitive ones masked, to show what changed
	Source            Source
}

// Validation is the test of each upload of an image before nodes for requests and min_ready boot from it.
type Validation struct {
	Label    string        `config:"label,nonempty" doc:"Label of the test nodes. Without it, and in a provider that does not offer it, they may have any label with the image."`
	Nodes    int           `config:"nodes" default:"1" min:"1" doc:"Number of test nodes that must succeed."`
	Attempts int           `config:"attempts" default:"3" min:"1" doc:"Number of failed test nodes after which npctl rejects the build in the provider. Quotas, missing capacity and outages do not count."`
	Program  []string      `config:"program" doc:"Program with its arguments that tests a node after 'node_launched_hook', with the same input and environment. If its exit status is not 0, the node has failed. A path with a slash is relative to the configuration's directory."`
	Timeout  time.Duration `config:"timeout" default:"30m" doc:"Time limit of the program."`
}

// Rollout limits the launches from a new upload of an image.
type Rollout struct {
	Stages []RolloutStage `config:"stage" doc:"A stage. After the last one, all launches use the upload."`
}

// RolloutStage is a part of a rollout.
type RolloutStage struct {
	Share     int           `config:"share,required" min:"1" doc:"Percentage of the nodes of the image in a provider that may run from the new upload, rounded up."`
	Successes int           `config:"successes" default:"1" min:"1" doc:"Number of successful launches from the new upload that end the stage."`
	Pause     time.Duration `config:"pause" default:"0s" doc:"Minimum duration of the stage, from its first successful launch."`
}

// Ref returns the reference to the image.
func (i Image) Ref() ImageRef { return ImageRef{i.Kind, i.Name} }

// LoginIn returns the login of nodes that the provider boots from the image: the login of the provider's own block,
// with the empty fields filled in from the image.
func (i *Image) LoginIn(p *Provider) Login {
	for k := range p.Images {
		if p.Images[k].Image == i.Ref() {
			return p.Images[k].Login.WithDefaults(i.Login)
		}
	}
	return i.Login
}

// WithDefaults returns the login with its empty fields filled in from below.
func (l Login) WithDefaults(below Login) Login {
	return Login{
		Username:       cmp.Or(l.Username, below.Username),
		PythonPath:     cmp.Or(l.PythonPath, below.PythonPath),
		ShellType:      cmp.Or(l.ShellType, below.ShellType),
		ConnectionType: cmp.Or(l.ConnectionType, below.ConnectionType),
		ConnectionPort: cmp.Or(l.ConnectionPort, below.ConnectionPort),
	}
}

// Login is the user name, connection type and port by which a job connects to nodes of an image.
type Login struct {
	Username       string `json:"username,omitempty" config:"username" doc:"User to log in as."`
	PythonPath     string `json:"python_path,omitempty" config:"python_path" doc:"Python interpreter for Ansible; with 'auto', Ansible searches for it."`
	ShellType      string `json:"shell_type,omitempty" config:"shell_type" doc:"Shell type for Ansible, such as 'sh', 'cmd' or 'powershell'."`
	ConnectionType string `json:"connection_type,omitempty" config:"connection_type" oneof:"ssh winrm network_cli kubectl project namespace local psrp netconf httpapi" doc:"Connection type for Ansible."`
	ConnectionPort int64  `json:"connection_port,omitempty" config:"connection_port,port" doc:"Port to connect to. The default is 5986 for 'winrm' and 'psrp', and 22 for all other types."`
}

// OverSSH reports whether jobs connect to nodes with this login by SSH.
func (l Login) OverSSH() bool {
	return slices.Contains([]string{"", "ssh", "network_cli", "paramiko"}, l.ConnectionType)
}

// Provider is a cloud project, or a set of static machines.
type Provider struct {
	Name             string
	Driver           string
	Config           cty.Value          // the decoded attributes of the driver
	LaunchTimeout    time.Duration      `config:"launch_timeout" default:"1h" doc:"Time limit of one attempt to launch a node."`
	BootTimeout      time.Duration      `config:"boot_timeout" default:"5m" doc:"Time in which an active machine must become reachable."`
	MinRetention     time.Duration      `config:"min_retention_time" default:"0s" doc:"Age below which npctl deletes no node because of 'idle_timeout', for clouds that bill by the hour."`
	LaunchAttempts   int64              `config:"launch_attempts" default:"3" min:"1" doc:"Attempts to launch a node, including the first one. An attempt does not count if the cloud does not respond: npctl postpones the launch until it responds."`
	APITimeout       time.Duration      `config:"api_timeout" default:"60s" doc:"Time limit of one API call."`
	Rate             float64            `config:"rate" default:"10" min:"0" doc:"API calls per second; '0' means no limit."`
	MaxConcurrency   int64              `config:"max_concurrency" min:"1" doc:"Steps of a plan in progress at a time, including nodes that boot. By default at most 20 steps send API calls at a time, and the number of steps that wait for the cloud has no limit."`
	Priority         int64              `config:"priority" default:"100" min:"0" doc:"Priority of pools that do not set their own. The lower number goes first."`
	ImageNames       string             `config:"image_name_format" default:"{image_name}-{timestamp}" doc:"Name of uploads, with the placeholders '{image_name}', '{upload_id}' and '{timestamp}' (seconds since 1970)."`
	UploadTimeout    time.Duration      `config:"upload_timeout" default:"1h" doc:"Time limit of one upload."`
	MaxUploads       int64              `config:"max_uploads" default:"2" min:"1" doc:"Maximum number of uploads at a time."`
	PostUploadHook   string             `config:"post_upload_hook,nonempty" doc:"Program that npctl runs after each upload as 'hook provider external-id file'. If its exit status is not 0, the upload has failed. A path with a slash is relative to the configuration's directory. The time limit is 30 minutes. Its environment has 'NPCTL_PROVIDER', 'NPCTL_IMAGE_NAME', 'NPCTL_BUILD_ID', 'NPCTL_EXTERNAL_ID', 'NPCTL_CLOUD_IMAGE_NAME' and 'NPCTL_FORMAT'."`
	NodeLaunchedHook []string           `config:"node_launched_hook" doc:"Program with its arguments that npctl runs for each launched node that is reachable, before the node is ready. If its exit status is not 0, the launch attempt has failed. The time limit is 5 minutes. See operations.md."`
	NodeReadyHook    []string           `config:"node_ready_hook" doc:"Program with its arguments that npctl runs for each launched node that is ready. A failure is logged only. The time limit is 5 minutes. See operations.md."`
	NodeDeletedHook  []string           `config:"node_deleted_hook" doc:"Program with its arguments that npctl runs when the server of a node is deleted. A failure is logged only. The time limit is 5 minutes. See operations.md."`
	Prices           map[string]float64 `config:"prices" min:"0" doc:"Price of one hour by flavor or instance type, such as 'jsondecode(file(\"prices.json\"))'. Plans and 'npctl status' show the cost of the fleet. See reading-plans.md."`
	Currency         string             `config:"currency" doc:"Currency of 'prices', such as 'EUR': at most 8 characters. Amounts in different currencies are not added."`
	PreventDestroy   bool               `config:"prevent_destroy" default:"false" doc:"Whether npctl rejects a plan that would remove the provider with all its objects. This also applies after the block is removed."`
	Disruptions      []Disruption       `config:"disruption" doc:"How many ready nodes of the provider npctl replaces at a time, see rollouts.md."`
	Pools            []Pool
	CloudImages      []CloudImageSpec
	Images           []ProviderImage
	Source           Source
}

// Price returns the price of one hour of the first of these flavors that has one. A node may get any of them.
func (p *Provider) Price(flavors []string) (price float64, known bool) {
	for _, flavor := range flavors {
		if price, known = p.Prices[flavor]; known {
			return price, true
		}
	}
	return 0, false
}

// Uses reports whether uploads of the image belong in the provider: a label boots from it, or the provider's own block
// of the image says so.
func (p *Provider) Uses(image ImageRef) bool {
	boots := func(o Offer) bool { return o.Image == image }
	return slices.ContainsFunc(p.Images, func(own ProviderImage) bool { return own.Image == image && own.Upload }) ||
		slices.ContainsFunc(p.Pools, func(pool Pool) bool { return slices.ContainsFunc(pool.Offers, boots) })
}

// ProviderImage holds a provider's settings for an uploaded image.
type ProviderImage struct {
	Image      ImageRef
	Upload     bool              `config:"upload" doc:"Whether npctl uploads the image although no label of the provider boots from it. npctl always uploads the images of labels."`
	Pause      bool              `config:"pause" default:"false" doc:"Whether uploads to this provider are paused."`
	Properties map[string]string `config:"properties,new" default:"" doc:"Properties of uploads. They override the properties of the image."`
	Tags       []string          `config:"tags,new" default:"" doc:"Tags of uploads, in addition to the tags of the image."`
	Login      Login             `config:",inline"`
	Config     cty.Value
	Values     map[string]string // as in Offer
	Static     map[string]string // replacing attributes other than defaults, as text
	Hashes     Hashes            // of the replacing attributes, computed from Hashed
	Hashed     HashSource
	Source     Source
}

// ImageSettings returns the hashes and the texts of the replacing attributes with which the provider uploads an image. Without
// a block of the image they are those of an empty block.
func (p *Provider) ImageSettings(image ImageRef) (Hashes, map[string]string) {
	i := slices.IndexFunc(p.Images, func(own ProviderImage) bool { return own.Image == image })
	if i < 0 {
		return HashValue(cty.EmptyObjectVal), nil
	}
	return p.Images[i].Hashes, p.Images[i].Static
}

// AnyOf are patterns, of which at least one matches.
type AnyOf []string

// CloudImageSpec is an image that exists in the cloud, found by ID, by name or by filters (the newest match wins).
type CloudImageSpec struct {
	Name    string
	ImageID string           `config:"image_id,new,nonempty" doc:"ID of the image in the cloud."`
	Image   string           `config:"image_name,new,nonempty" doc:"Exact name of the image in the cloud."`
	Filters map[string]AnyOf `config:"filters,new" doc:"Attributes of the image, such as '{ name = \"ubuntu-noble-*\", tag = [\"lts\", \"current\"] }': a pattern, or a list of patterns of which one has to match. If several images match, npctl uses the newest."`
	Login   Login            `config:",inline"`
	Config  cty.Value
	Source  Source
}

// Pool is a part of a provider with limits of its own. A nil limit means no limit.
type Pool struct {
	Name                string
	Limits              `config:",inline"`
	IgnoreProviderQuota bool              `config:"ignore_provider_quota" default:"false" doc:"Whether npctl ignores the project's quota and uses only the limits of the pool."`
	Priority            int64             `config:"priority" min:"0" doc:"Pools with a lower number go first, for 'min_ready' and for requests. The default is the provider's priority."`
	NodeAttributes      map[string]string `config:"node_attributes" default:"" doc:"Attributes that jobs see on nodes of this pool."`
	Disruptions         []Disruption      `config:"disruption" doc:"How many ready nodes of the pool npctl replaces at a time, see rollouts.md."`
	Config              cty.Value
	Offers              []Offer
	Nodes               []StaticNode
	Source              Source
}

// Offer is a `label` block inside a pool: how the pool creates nodes of the label.
type Offer struct {
	Label  string
	Image  ImageRef  // zero in a provider whose driver has no images
	Config cty.Value // attributes of the label, and those of the pool for attributes that the label does not set
	Hashes Hashes    // of the replacing attributes, computed from Hashed
	Hashed HashSource
	// Former are the hashes of the same attributes with the earlier names of a moved image, computed from FormerHashed.
	Former       Hashes
	FormerHashed []HashSource
	Static       map[string]string // as in Image
	Values       map[string]string // non-default attributes as JSON; sensitive values masked, long texts hashed
	Source       Source
}

// Offer returns the pool's offer of the label, or nil if the pool has none.
func (p *Pool) Offer(label string) *Offer {
	for i := range p.Offers {
		if p.Offers[i].Label == label {
			return &p.Offers[i]
		}
	}
	return nil
}

// Pool returns the pool of that name, or nil.
func (p *Provider) Pool(name string) *Pool {
	i := slices.IndexFunc(p.Pools, func(pool Pool) bool { return pool.Name == name })
	if i < 0 {
		return nil
	}
	return &p.Pools[i]
}

// SourceOf returns the offer or the static node from which a node was made, each nil if it is not configured. p may be nil.
func (p *Provider) SourceOf(n *Node) (*Offer, *StaticNode) {
	if p == nil {
		return nil, nil
	}
	pool := p.Pool(n.Pool)
	switch {
	case pool == nil:
		return nil, nil
	case n.Static:
		return nil, pool.Node(n.Hostname)
	}
	for _, label := range n.Labels {
		if offer := pool.Offer(label); offer != nil {
			return offer, nil
		}
	}
	return nil, nil
}

// Node returns the static node of that name, or nil.
func (p *Pool) Node(name string) *StaticNode {
	i := slices.IndexFunc(p.Nodes, func(n StaticNode) bool { return n.Name == name })
	if i < 0 {
		return nil
	}
	return &p.Nodes[i]
}

// LabelNames returns the labels of the pool's offers and static nodes, sorted.
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

// StaticNode is a machine that exists without npctl: a `node` block.
type StaticNode struct {
	Name     string
	Address  string   `config:"address,replacing,nonempty" doc:"Host name or address to connect to. The default is the block's label."`
	Labels   []string `config:"labels,required,replacing,nonempty" doc:"Labels that the machine serves."`
	HostKeys []string `config:"host_keys,replacing" default:"" doc:"SSH host keys of the machine, each in the form 'type base64'. npctl rejects a machine with other keys. By default, npctl accepts the keys that the machine presents."`
	Slots    int64    `config:"slots" default:"1" min:"1" doc:"Maximum number of jobs on the machine at a time."`
	Login    Login    `config:",inline"`
	Config   cty.Value
	Hashes   Hashes // computed from Hashed
	Hashed   HashSource
	// Former are the hashes of the same attributes before a move, when the name was the address.
	Former       Hashes
	FormerHashed []HashSource
	Static       map[string]string
	Source       Source
}

// Source is a position in the configuration.
type Source struct {
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	// Module is the address of the module instance, such as module.cloud["a"]; empty outside of modules.
	Module string `json:"module,omitempty"`
}

func (s Source) String() string {
	if s.File == "" {
		return ""
	}
	at := fmt.Sprintf("%s:%d", s.File, s.Line)
	if s.Module != "" {
		at += " in " + s.Module
	}
	return at
}

// formatAliases maps names that Zuul and other tools use to npctl's names.
var formatAliases = map[string]string{"qcow": "qcow2", "vpc": "vhd", "tar.gz": "tgz"}

// ImageFormat returns npctl's name of an image format: qcow2 for qcow, vhd for vpc, tgz for tar.gz. All other names
// are returned unchanged.
func ImageFormat(name string) string {
	if alias, ok := formatAliases[name]; ok {
		return alias
	}
	return name
}

// ImageFormats returns npctl's names of image formats, see ImageFormat.
func ImageFormats(names []string) []string {
	var formats []string
	for _, name := range names {
		formats = append(formats, ImageFormat(name))
	}
	return formats
}
