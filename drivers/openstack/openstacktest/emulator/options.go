package emulator

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"
)

// Options define the content and behaviour of a cloud. The zero value is a cloud in memory without delays.
type Options struct {
	// File keeps the state; it is created if it does not exist. Empty means memory only.
	File string
	Log  *slog.Logger // nil: no log

	BuildTime   time.Duration // from the creation of a server to ACTIVE
	DeleteTime  time.Duration // from the deletion of a server to its disappearance
	ImageTime   time.Duration // of an uploaded image in state saving
	AddressTime time.Duration // until a floating IP appears in the addresses of its server
	TokenTTL    time.Duration // 0 means one hour

	// Quota is the quota of each project. Nil means the stored one; a new cloud has DefaultQuota.
	Quota    *Quota
	Flavors  []Flavor  // additional ones; each is created once
	Networks []Network // additional ones; each is created once
	Zones    []string  // availability zones; the default is az1 and az2
	// Images are public. Each is created once, when the state is first opened with it.
	Images []PublicImage
	// Range is the address range of the networks private and public in a new cloud, from 0 to MaxRange. Clouds with
	// different ranges share no addresses.
	Range int
	// Foreign servers are created once, when the state is first opened with them. They belong to Project if it is
	// set, else to npctl's own project, and have no ownership tags.
	Foreign []ForeignServer

	Faults    []Fault
	FaultFile string // JSON file with a list of faults; it is read again when it changes
	Seed      uint64 // of faults with a probability: the same seed and calls cause the same faults

	PageLimit int   // maximum page length of all lists; 0 means 1000 as in the real services
	KeepBytes int64 // maximum size of downloadable images; 0 means 1 MiB
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Quota holds the limits of a project; -1 means no limit.
type Quota struct {
	Instances          int64 `json:"instances"`
	Cores              int64 `json:"cores"`
	RAM                int64 `json:"ram"` // MiB
	KeyPairs           int64 `json:"key_pairs"`
	FloatingIPs        int64 `json:"floating_ips"`
	Ports              int64 `json:"ports"`
	Networks           int64 `json:"networks"`
	SecurityGroups     int64 `json:"security_groups"`
	SecurityGroupRules int64 `json:"security_group_rules"`
	Volumes            int64 `json:"volumes"`
	Gigabytes          int64 `json:"gigabytes"` // of all volumes
}

// DefaultQuota returns the quota of a project in a new cloud.
func DefaultQuota() Quota {
	return Quota{
		Instances: 100, Cores: 200, RAM: 512000, KeyPairs: 100, FloatingIPs: 50, Ports: 500, Networks: 100,
		SecurityGroups: 10, SecurityGroupRules: 100, Volumes: 50, Gigabytes: 5000,
	}
}

// Unlimited returns a quota without limits.
func Unlimited() Quota {
	return Quota{-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}
}

// Flavor is a server size.
type Flavor struct {
	Name  string
	VCPUs int64
	RAM   int64 // MiB
	Disk  int64 // GB
	// NoHost makes every server of the flavor end as ERROR with "No valid host was found."
	NoHost bool
}

// Network is a network with one subnet for each CIDR.
type Network struct {
	Name     string
	CIDRs    []string
	External bool // it provides floating IPs
	Shared   bool // it belongs to another project and is shared with all projects
}

// ForeignServer is a server that npctl did not create.
type ForeignServer struct {
	Name     string
	Flavor   string // the default is small
	Project  string // User or Other; the default is User
	Metadata map[string]string
}

// check returns an error for invalid options.
func (o Options) check() error {
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
