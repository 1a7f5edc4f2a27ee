package emulator

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/resources/schema"
)

// Options define the content and behaviour of a cloud. The zero value is a cloud in memory without delays. The tags are
// the attributes of a provider block.
type Options struct {
	// File keeps the state; it is created if it does not exist. Empty means memory only.
	File string       `config:"file" doc:"File of the cloud, relative to npctl's data directory; providers with the same absolute path share a cloud. The default is 'emulator.json', one for each provider."`
	Log  *slog.Logger // nil: no log

	BuildTime   time.Duration `config:"build_time" default:"2s" doc:"Time from the creation of a server to ACTIVE."`
	DeleteTime  time.Duration `config:"delete_time" default:"1s" doc:"Time from the deletion of a server to its disappearance."`
	ImageTime   time.Duration `config:"image_time" default:"0s" doc:"Time during which an uploaded image is in state saving."`
	AddressTime time.Duration `config:"address_time" default:"0s" doc:"Time until a floating IP appears in the addresses of its server."`
	TokenTTL    time.Duration // 0 means one hour

	// Quota is the quota of each project. Nil means the stored one; a new cloud has DefaultQuota.
	Quota    *Quota    `config:"quota" doc:"Quota of the project."`
	Flavors  []Flavor  `config:"flavor" label:"name" doc:"An additional flavor. Later changes of the block do not change it."`
	Networks []Network `config:"network" label:"name" doc:"An additional network. Later changes of the block do not change it."`
	Zones    []string  `config:"zones" doc:"Availability zones; the default is 'az1' and 'az2'."`
	// Images are public. Each is created once, when the state is first opened with it.
	Images []PublicImage `config:"public_image" label:"name" doc:"A public image, for 'cloud_image'. It is a small raw image without content. Later changes of the block do not change it."`
	// Range is the address range of the networks private and public in a new cloud, from 0 to MaxRange. Clouds with
	// different ranges share no addresses.
	Range int
	// Foreign servers are created once, when the state is first opened with them. They belong to Project if it is
	// set, else to npctl's own project, and have no ownership tags.
	Foreign []ForeignServer `config:"foreign_server" label:"name" doc:"A server of another program, to show that npctl does not change it. The emulator creates it once."`

	Faults    []Fault `config:"fault" doc:"A fault of the cloud: of the calls that match all patterns, the first 'after' succeed; of the rest every 'every'-th fails, at most 'times'. In patterns '*' stands for any text and '?' for one character."`
	FaultFile string  `config:"fault_file" doc:"JSON file with a list of faults, as in 'fault' blocks; npctl reads it again when it changes."`
	// SSHPort is for the caller of ServeSSH.
	SSHPort int    `config:"ssh_port,port" min:"1" doc:"TCP port on which servers respond to SSH while npctl runs, at their addresses, which are local to this machine; the default is none. Each server presents a host key and accepts every client; it does not execute commands, but prints them to its console. Linux only."`
	Seed    uint64 `config:"seed" default:"0" min:"0" doc:"Seed of faults with a probability: the same seed and calls cause the same faults."`

	PageLimit int   // maximum page length of all lists; 0 means 1000 as in the real services
	KeepBytes int64 // maximum size of downloadable images; 0 means 1 MiB
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Quota holds the limits of a project; -1 means no limit. The defaults are those of a new cloud.
type Quota struct {
	Instances          int64 `json:"instances" config:"instances" default:"100" min:"-1" doc:"Servers; -1 means no limit."`
	Cores              int64 `json:"cores" config:"cores" default:"200" min:"-1" doc:"Cores of all servers; -1 means no limit."`
	RAM                int64 `json:"ram" config:"ram" default:"512000" min:"-1" doc:"MiB of RAM of all servers; -1 means no limit."`
	KeyPairs           int64 `json:"key_pairs" config:"key_pairs" default:"100" min:"-1" doc:"Key pairs of a user; -1 means no limit."`
	FloatingIPs        int64 `json:"floating_ips" config:"floating_ips" default:"50" min:"-1" doc:"Floating IPs; -1 means no limit."`
	Ports              int64 `json:"ports" config:"ports" default:"500" min:"-1" doc:"Ports; -1 means no limit."`
	Networks           int64 `json:"networks" config:"networks" default:"100" min:"-1" doc:"Networks; -1 means no limit."`
	SecurityGroups     int64 `json:"security_groups" config:"security_groups" default:"10" min:"-1" doc:"Security groups; -1 means no limit."`
	SecurityGroupRules int64 `json:"security_group_rules" config:"security_group_rules" default:"100" min:"-1" doc:"Security group rules; -1 means no limit."`
	Volumes            int64 `json:"volumes" config:"volumes" default:"50" min:"-1" doc:"Volumes; -1 means no limit."`
	Gigabytes          int64 `json:"gigabytes" config:"gigabytes" default:"5000" min:"-1" doc:"GB of all volumes; -1 means no limit."`
}

// DefaultQuota returns the quota of a project in a new cloud.
func DefaultQuota() (q Quota) {
	_ = schema.Decode(cty.NilVal, &q)
	return q
}

// Unlimited returns a quota without limits.
func Unlimited() Quota {
	return Quota{-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}
}

// Flavor is a server size.
type Flavor struct {
	Name  string `config:",label"`
	VCPUs int64  `config:"vcpus,required" min:"1" doc:"Cores."`
	RAM   int64  `config:"ram,required" min:"1" doc:"MiB of RAM."`
	Disk  int64  `config:"disk" default:"20" min:"0" doc:"GB of disk."`
	// NoHost makes every server of the flavor end as ERROR with "No valid host was found."
	NoHost bool `config:"no_host" default:"false" doc:"Servers of this flavor end as ERROR because no host has capacity."`
}

// Network is a network with one subnet for each CIDR.
type Network struct {
	Name     string   `config:",label"`
	CIDRs    []string `config:"cidrs,required" doc:"Address ranges, one subnet for each, of IP version 4 or 6."`
	External bool     `config:"external" default:"false" doc:"It provides floating IPs."`
	Shared   bool     `config:"shared" default:"false" doc:"It belongs to another project and is shared with all projects."`
}

// ForeignServer is a server that npctl did not create.
type ForeignServer struct {
	Name     string            `config:",label"`
	Flavor   string            `config:"flavor" doc:"Its flavor; the default is 'small'."`
	Project  string            `config:"project" default:"npctl" oneof:"npctl other" doc:"Its project: that of npctl or another one."`
	Metadata map[string]string `config:"metadata" doc:"Its metadata."`
}

// check returns an error for invalid options.
func (o Options) Check() error {
	var errs []error
	for _, n := range o.Networks {
		for _, cidr := range n.CIDRs {
			if _, err := netip.ParsePrefix(cidr); err != nil {
				errs = append(errs, fmt.Errorf("network %s: %w", n.Name, err))
			}
		}
	}
	for i, f := range o.Faults {
		if err := f.check(); err != nil {
			errs = append(errs, fmt.Errorf("fault %d: %w", i+1, err))
		}
	}
	if o.Range < 0 || o.Range > MaxRange {
		errs = append(errs, fmt.Errorf("address range %d: it goes from 0 to %d", o.Range, MaxRange))
	}
	return errors.Join(errs...)
}

func (o *Options) fill() {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.TokenTTL == 0 {
		o.TokenTTL = time.Hour
	}
	if o.PageLimit <= 0 {
		o.PageLimit = 1000
	}
	if o.KeepBytes == 0 {
		o.KeepBytes = 1 << 20
	}
	if len(o.Zones) == 0 {
		o.Zones = []string{"az1", "az2"}
	}
}
