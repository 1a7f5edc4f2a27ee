package wire

import (
	"encoding/json"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// What follows lets another npctl on the same machine use the daemon's state. It is spoken over the unix socket only,
// and only between programs of the same version, so it is no part of what is promised.

// StoreFormat is the version of this part. A client that knows another one has to keep away.
const StoreFormat = 2

// StoreHead says which state it is.
type StoreHead struct {
	Format int    `json:"format"`
	Path   string `json:"path"`
	PID    int    `json:"pid"`
	Npctl  string `json:"npctl_version"`
	state.Identity
	HashKey []byte `json:"hash_key,omitempty"` // that of the identity
}

// Entry is a record. The last line of a list has End set and nothing else, so that one that was cut short is noticed.
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

// Commit is changes that are all made or none.
type Commit struct {
	Ops   []Op     `json:"ops"`
	Locks []string `json:"locks,omitempty"` // ids of locks that the client has to hold still
}

// Committed has an entry for each op; those of deletes are empty.
type Committed struct {
	Entries []Entry `json:"entries"`
}

// Work is what goes on in the store: whoever plans leaves that alone.
type Work struct {
	Busy    []resources.Key  `json:"busy"`              // records that the daemon's steps work on
	Shared  bool             `json:"shared,omitempty"`  // other processes work in the store of the daemon
	Claimed []resources.Key  `json:"claimed,omitempty"` // records that they work on
	Peers   []resources.Peer `json:"peers,omitempty"`   // pools that are registered, the daemon's too
	Wished  []string         `json:"wished,omitempty"`  // images that somebody has asked to be built
}

// Wish asks for an image to be built, or takes that back.
type Wish struct {
	Image string `json:"image"`
	Wish  bool   `json:"wish"`
}

// Lock is a lock that is held.
type Lock struct {
	Name   string       `json:"name"`
	Holder state.Holder `json:"holder"`
}

// Locks lists the locks that are held.
type Locks struct {
	Locks []Lock `json:"locks"`
}

// Hint is a line of a watch, or of a lock that is held: the connection lives.
type Hint struct {
	Changed bool  `json:"changed,omitempty"`
	Locked  *Lock `json:"locked,omitempty"` // first line of a lock
	Lost    bool  `json:"lost,omitempty"`   // last line of a lock that was taken away
}
