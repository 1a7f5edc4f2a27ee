package bolt

import (
	"encoding/json"
	"fmt"
	"strconv"

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

// head is the metadata of the file. The meaning of its first two fields never changes, so that every npctl can
// determine which version wrote the file and reject an unknown schema.
type head struct {
	Schema      int                       `json:"schema"`
	WrittenBy   string                    `json:"written_by"` // npctl version
	Lineage     string                    `json:"lineage"`
	Serial      uint64                    `json:"serial"`
	Sequences   map[resources.Kind]uint64 `json:"sequences"` // last assigned ID
	Counts      map[resources.Kind]int    `json:"counts"`    // expected number of records: a lost one would look like a leak
	Locks       int                       `json:"locks"`     // expected number of locks
	Role        Role                      `json:"role,omitempty"`
	Location    string                    `json:"elsewhere,omitempty"` // location of the state, if it is elsewhere
	MigrationID string                    `json:"move,omitempty"`      // ID of the migration that wrote the records
	HashKey     []byte                    `json:"hash_key,omitempty"`  // see resources.HashKey

	raw []byte // as read, to preserve unknown fields
}

// schemaVersion is the version of the file's format. It increases when an older npctl would misread the file. A new
// field of a record does not change it, because npctl preserves unknown fields.
const schemaVersion = 1

// checkSchema returns an error for a file or document of another schema.
func checkSchema(schema int, writtenBy string) error {
	switch {
	case schema > schemaVersion:
		return fmt.Errorf("state written by npctl %s, schema %d; this npctl knows up to %d: upgrade npctl: %w",
			writtenBy, schema, schemaVersion, errNewer)
	case schema < schemaVersion:
		return damage("there is no schema %d", schema)
	}
	return nil
}

// readHead reads the head. It rejects a file with a newer schema, another role, or another lineage than the store
// opened.
func (s *Store) readHead(tx *bbolt.Tx) (*head, error) {
	h, err := loadHead(tx)
	if err != nil {
		return nil, err
	}
	if err := checkSchema(h.Schema, h.WrittenBy); err != nil {
		return nil, err
	}
	if !s.opts.AnyRole && h.Serial != 0 && h.Role != s.opts.Role {
		return nil, &RoleError{Path: s.opts.Path, Role: h.Role, Wanted: s.opts.Role, Location: h.Location}
	}
	if s.lineage == "" {
		s.lineage = h.Lineage
	}
	if s.lineage != h.Lineage {
		return nil, fmt.Errorf("the file was replaced by the state of another installation while npctl ran (lineage %s, was %s): restart npctl: %w",
			h.Lineage, s.lineage, errReplaced)
	}
	return h, nil
}

func loadHead(tx *bbolt.Tx) (*head, error) {
	bucket := tx.Bucket(headBucket)
	if bucket == nil {
		return nil, fmt.Errorf("a bbolt file of another program: %w", errNotState)
	}
	_, raw, err := verifyChecksum(headBucket, headKey, bucket.Get(headKey))
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

// save writes the head, as the last write of a transaction.
func (h *head) save(tx *bbolt.Tx) error {
	raw, err := json.Marshal(h)
	if err != nil {
		return err
	}
	if raw, err = preserveUnknownFields(h.raw, raw, h); err != nil {
		return err
	}
	bucket, err := tx.CreateBucketIfNotExists(headBucket)
	if err != nil {
		return err
	}
	return bucket.Put(headKey, addChecksum(headBucket, headKey, state.Revision(h.Serial), raw))
}

// nextHead updates h for a new commit by this npctl.
func (s *Store) nextHead(h *head) {
	h.Serial++
	h.WrittenBy = s.opts.Version
	if !s.opts.AnyRole {
		h.Role = s.opts.Role
	}
	if h.Role == RoleState {
		h.Location = ""
	}
}

// idDigits is the number of digits of an assigned ID, as in Nodepool.
const idDigits = 10

// nextID returns an ID that no record of the kind has ever had.
func (h *head) nextID(kind resources.Kind, bucket *bbolt.Bucket) string {
	for {
		h.Sequences[kind]++
		id := fmt.Sprintf("%0*d", idDigits, h.Sequences[kind])
		if bucket.Get([]byte(id)) == nil {
			return id
		}
	}
}

// noteID raises the sequence to an ID that another store or program assigned.
func (h *head) noteID(key resources.Key) {
	if !resources.IsStoreNumbered(key.Kind) || len(key.ID) != idDigits {
		return
	}
	if n, err := strconv.ParseUint(key.ID, 10, 64); err == nil {
		h.Sequences[key.Kind] = max(h.Sequences[key.Kind], n)
	}
}

// noteSighting raises the sequence to an ID found in a cloud, and returns the sighting. If the ID is greater than all
// IDs assigned by this file, the file is older than the cloud: it was restored from a backup. The returned copy then
// has NewerThanState set.
func (h *head) noteSighting(s *resources.Sighting) *resources.Sighting {
	given := h.Sequences[s.Record.Kind]
	h.noteID(s.Record)
	if h.Sequences[s.Record.Kind] == given {
		return s
	}
	c := *s
	c.NewerThanState = true
	return &c
}
