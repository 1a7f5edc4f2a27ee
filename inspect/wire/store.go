package wire

import (
	"encoding/json"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// The types of this file give another npctl on the same machine access to the daemon's state. They are used over the
// unix socket only, and only between programs of the same version, so they are not part of the stable API.

// StoreFormat is the version of these types. A client with another version must not use the store.
const StoreFormat = 3

// StoreHead identifies the state.
type StoreHead struct {
	Format int    `json:"format"`
	Path   string `json:"path"`
	PID    int    `json:"pid"`
	Npctl  string `json:"npctl_version"`
	state.Identity
	HashKey       []byte         `json:"hash_key,omitempty"` // HashKey of the identity
	Configuration resources.Hash `json:"configuration_digest"`
}

// Entry is a record. The last line of a list has only End set, which lets the client detect a truncated list.
type Entry struct {
	Kind     resources.Kind  `json:"kind,omitempty"`
	ID       string          `json:"id,omitempty"`
	Revision uint64          `json:"revision,omitempty"`
	Record   json.RawMessage `json:"record,omitempty"`
	End      bool            `json:"end,omitempty"`
}

// Op is one change of a commit.
type Op struct {
	Kind     resources.Kind  `json:"kind"`
	Key      resources.Key   `json:"key,omitzero"`
	Record   json.RawMessage `json:"record,omitempty"`
	Revision uint64          `json:"revision,omitempty"`
	Force    bool            `json:"force,omitempty"`
}

// Commit is a list of changes, of which the daemon makes all or none.
type Commit struct {
	Ops   []Op     `json:"ops"`
	Locks []string `json:"locks,omitempty"` // IDs of locks that the client must still hold
}

// Committed holds one entry for each op; entries of deletes are empty.
type Committed struct {
	Entries []Entry `json:"entries"`
}

// Activity lists the records and images that processes are working on. A planner skips these records.
type Activity struct {
	Busy            []resources.Key            `json:"busy"`               // records that the daemon's steps are changing
	Shared          bool                       `json:"shared,omitempty"`   // the daemon's store is shared
	Claimed         []resources.Key            `json:"claimed,omitempty"`  // records that other processes have claimed
	RegisteredPools []resources.RegisteredPool `json:"peers,omitempty"`    // registered pools, including the daemon's
	Builders        []string                   `json:"builders,omitempty"` // IDs of registered npctl builders, including the daemon's
	RequestedBuilds []string                   `json:"wished,omitempty"`   // images with a build request

	NodepoolBuilders []string `json:"nodepool_builders,omitempty"` // hosts of registered builders of other programs
}

// BuildRequest creates a build request for an image, or removes it if Wish is false.
type BuildRequest struct {
	Image string `json:"image"`
	Wish  bool   `json:"wish"`
}

// Lock is a lock with its holder.
type Lock struct {
	Name   string       `json:"name"`
	Holder state.Holder `json:"holder"`
}

// Locks is the list of held locks.
type Locks struct {
	Locks []Lock `json:"locks"`
}

// Hint is a line of a watch or of a held lock. An empty hint is a keepalive.
type Hint struct {
	Changed bool  `json:"changed,omitempty"`
	Locked  *Lock `json:"locked,omitempty"` // first line after Lock
	Lost    bool  `json:"lost,omitempty"`   // last line of a lock that was force-released
}
