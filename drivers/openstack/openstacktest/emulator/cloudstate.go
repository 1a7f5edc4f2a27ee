package emulator

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"

	"github.com/google/uuid"
)

// stateVersion is the version of the state file format. Files of a later version are rejected.
const stateVersion = 1

// cloudState is the state of the cloud. Access requires the store's lock.
type cloudState struct {
	timeline
	quotas
	networkState
	volumeState

	Version   int             `json:"version"`
	Serial    uint64          `json:"serial"` // grows with every write
	Secret    []byte          `json:"secret"` // signs tokens
	Zones     []string        `json:"zones"`
	Projects  table[*project] `json:"projects"`
	Users     table[*user]    `json:"users"`
	Flavors   table[*flavor]  `json:"flavors"`
	Keys      table[*keyPair] `json:"key_pairs"`
	Servers   table[*server]  `json:"servers"`
	Images    table[*image]   `json:"images"`
	Seeded    map[string]bool `json:"seeded"` // foreign servers and public images that already exist
	FaultHits map[string]hits `json:"fault_hits"`
}

// quotas are the limits and the use of the projects.
type quotas struct {
	Quotas map[string]Quota  `json:"quotas"` // by project
	used   map[string]*usage // by project
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
	w.networkState.events, w.networkState.quotas = &w.timeline, &w.quotas
	w.volumeState.events, w.volumeState.quotas = &w.timeline, &w.quotas
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

func (q *quotas) use(project string) *usage {
	u, ok := q.used[project]
	if !ok {
		u = &usage{}
		q.used[project] = u
	}
	return u
}

func (q *quotas) quota(project string) Quota {
	if own, ok := q.Quotas[project]; ok {
		return own
	}
	return DefaultQuota()
}

// stableID is the same in every cloud, so that a default object keeps its ID when the state is deleted.
func stableID(what string) string {
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte("https://npctl/emulator/"+what)).String()
}

// hexID is stableID in identity's format.
func hexID(what string) string {
	sum := sha256.Sum256([]byte("https://npctl/emulator/" + what))
	return hex.EncodeToString(sum[:16])
}
