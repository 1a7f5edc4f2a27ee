package sandboxcloud

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"time"

	"github.com/google/uuid"
)

// worldVersion is the version of the state file format. Files of a later version are rejected.
const worldVersion = 1

// cloudState is the state of the cloud. Access requires the store's lock.
type cloudState struct {
	Version     int                         `json:"version"`
	Serial      uint64                      `json:"serial"` // grows with every write
	LastSeq     uint64                      `json:"last_seq"`
	Secret      []byte                      `json:"secret"` // signs tokens
	Zones       []string                    `json:"zones"`
	Quotas      map[string]Quota            `json:"quotas"` // by project
	Projects    table[*project]             `json:"projects"`
	Users       table[*user]                `json:"users"`
	Credentials table[*appCredential]       `json:"application_credentials"`
	Flavors     table[*flavor]              `json:"flavors"`
	Keys        table[*keyPair]             `json:"key_pairs"`
	Servers     table[*server]              `json:"servers"`
	Images      table[*image]               `json:"images"`
	Networks    table[*network]             `json:"networks"`
	Subnets     table[*subnet]              `json:"subnets"`
	Ports       table[*port]                `json:"ports"`
	Groups      table[*securityGroup]       `json:"security_groups"`
	FloatingIPs table[*floatingIP]          `json:"floating_ips"`
	Volumes     table[*volume]              `json:"volumes"`
	Events      []event                     `json:"events"`
	Seeded      map[string]bool             `json:"seeded"` // foreign servers and public images that already exist
	FaultHits   map[string]hits             `json:"fault_hits"`
	used        map[string]*usage           // by project
	addresses   map[netip.Addr]string       // the owner of each used address
	portsOf     map[string]map[string]*port // by server
	floatingOf  map[string]*floatingIP      // by port
}

// usage is the use that counts against a project's quota.
type usage struct {
	instances, cores, ram            int64
	ports, floatingIPs, keys, groups int64
	volumes, gigabytes               int64
}

// reindex creates the indexes, which are not stored in the file.
func (w *cloudState) reindex() {
	w.used = map[string]*usage{}
	w.addresses = map[netip.Addr]string{}
	w.portsOf = map[string]map[string]*port{}
	w.floatingOf = map[string]*floatingIP{}
	for _, s := range w.Servers.rows {
		w.countServer(s, 1)
	}
	for _, p := range w.Ports.rows {
		w.indexPort(p)
	}
	for _, f := range w.FloatingIPs.rows {
		w.indexFloatingIP(f)
	}
	for _, k := range w.Keys.rows {
		w.use(k.Project).keys++
	}
	for _, g := range w.Groups.rows {
		w.use(g.Project).groups++
	}
	for _, v := range w.Volumes.rows {
		w.countVolume(v, 1)
	}
	if w.Quotas == nil {
		w.Quotas = map[string]Quota{}
	}
	if w.Seeded == nil {
		w.Seeded = map[string]bool{}
	}
	if w.FaultHits == nil {
		w.FaultHits = map[string]hits{}
	}
}

func (w *cloudState) use(project string) *usage {
	u, ok := w.used[project]
	if !ok {
		u = &usage{}
		w.used[project] = u
	}
	return u
}

func (w *cloudState) quota(project string) Quota {
	if q, ok := w.Quotas[project]; ok {
		return q
	}
	return DefaultQuota()
}

// newBase returns the fields of a new object.
func (w *cloudState) newBase(project string, now time.Time) base {
	w.LastSeq++
	return base{ID: uuid.NewString(), Project: project, Seq: w.LastSeq, Created: now, Updated: now}
}

// stableID is the same in every cloud, so that a default object keeps its ID when the state is deleted.
func stableID(what string) string {
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte("https://npctl/sandbox/"+what)).String()
}

// hexID is stableID in identity's format.
func hexID(what string) string {
	sum := sha256.Sum256([]byte("https://npctl/sandbox/" + what))
	return hex.EncodeToString(sum[:16])
}
