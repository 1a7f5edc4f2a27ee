package bolt

import (
	"encoding/json"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

var (
	headBucket    = []byte("npctl")
	headKey       = []byte("head")
	recordsBucket = []byte("records")
	locksBucket   = []byte("locks")
)

// head is what the file says about itself. Its first two fields never change their meaning, so that every npctl can
// tell who wrote the file and refuse what it does not know.
type head struct {
	Schema    int                       `json:"schema"`
	WrittenBy string                    `json:"written_by"` // npctl version
	Lineage   string                    `json:"lineage"`
	Serial    uint64                    `json:"serial"`
	Sequences map[resources.Kind]uint64 `json:"sequences"` // the last id given
	Counts    map[resources.Kind]int    `json:"counts"`    // records there must be: a lost one would look like a leak
	Locks     int                       `json:"locks"`     // likewise
	Role      Role                      `json:"role,omitempty"`
	Elsewhere string                    `json:"elsewhere,omitempty"` // where the state is whose part this is
	Move      string                    `json:"move,omitempty"`      // by which the records came here
	HashKey   []byte                    `json:"hash_key,omitempty"`  // see resources.HashKey

	raw []byte // as it was read
}

func (h *head) identity() state.Identity {
	return state.Identity{Lineage: h.Lineage, Serial: h.Serial, Schema: h.Schema, HashKey: resources.HashKey(h.HashKey)}
}

// readHead reads the head, and refuses a file that this npctl cannot use or that is not the one it began with.
func (s *Store) readHead(tx *bbolt.Tx) (*head, error) {
	h, err := loadHead(tx)
	if err != nil {
		return nil, err
	}
	if err := refuseNewer(h.Schema, s.schema(), h.WrittenBy); err != nil {
		return nil, err
	}
	if err := s.checkRole(h); err != nil {
		return nil, err
	}
	if s.lineage == "" {
		s.lineage = h.Lineage
	}
	if s.lineage != h.Lineage {
		return nil, fmt.Errorf("the file was replaced by another installation's while npctl ran (lineage %s, was %s): restart npctl: %w",
			h.Lineage, s.lineage, errReplaced)
	}
	return h, nil
}

func loadHead(tx *bbolt.Tx) (*head, error) {
	bucket := tx.Bucket(headBucket)
	if bucket == nil {
		return nil, fmt.Errorf("a bbolt file of another program: %w", errNotState)
	}
	_, raw, err := unseal(headBucket, headKey, bucket.Get(headKey))
	if err != nil {
		return nil, err
	}
	h := &head{raw: append([]byte(nil), raw...)}
	if err := json.Unmarshal(raw, h); err != nil {
		return nil, damage("its head: %v", err)
	}
	if h.Sequences == nil {
		h.Sequences = map[resources.Kind]uint64{}
	}
	if h.Counts == nil {
		h.Counts = map[resources.Kind]int{}
	}
	return h, nil
}

// save writes the head as the last thing of a transaction.
func (h *head) save(tx *bbolt.Tx) error {
	raw, err := json.Marshal(h)
	if err != nil {
		return err
	}
	if raw, err = carry(h.raw, raw, h); err != nil {
		return err
	}
	bucket, err := tx.CreateBucketIfNotExists(headBucket)
	if err != nil {
		return err
	}
	return bucket.Put(headKey, seal(headBucket, headKey, state.Revision(h.Serial), raw))
}

// nextHead makes h the head of a new commit by this npctl.
func (s *Store) nextHead(h *head) {
	h.Serial++
	h.WrittenBy = s.opts.Version
	if !s.opts.AnyRole {
		h.Role = s.opts.Role
	}
	if h.Role == Whole {
		h.Elsewhere = ""
	}
}
