package bolt

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
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
	s.lineage = cmp.Or(s.lineage, h.Lineage)
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
	if raw, err = preserveUnknownFields(h.raw, raw, reflect.TypeFor[head]()); err != nil {
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

// Role is the purpose of a file. A file without any commit can take any role.
type Role string

// The roles of a file. A Store opens only files of its role, so that npctl does not continue to use a state that has
// moved elsewhere.
const (
	// RoleState is a complete state.
	RoleState Role = ""
	// RolePrivate holds the records that one process keeps for itself beside a shared store.
	RolePrivate Role = "private"
	// RoleShadow holds the records of a shadow.
	RoleShadow Role = "shadow"
	// RoleMigrating is a complete state during a migration to another store. No process uses it until the migration
	// ends or is undone.
	RoleMigrating Role = "moving"
	// RoleMigrated is the remainder of a state that was migrated to another store.
	RoleMigrated Role = "moved"
)

// RoleError reports that a file has another role than it was opened with.
type RoleError struct {
	Path         string
	Role, Wanted Role
	Location     string // of the state, now or after the migration
}

func (e *RoleError) Error() string {
	switch e.Role {
	case RolePrivate:
		return fmt.Sprintf("%s is not a state: it is the private file of a process that uses the state in %s", e.Path, e.Location)
	case RoleShadow:
		return fmt.Sprintf("%s is not a state: it keeps the notes of npctl watch -shadow", e.Path)
	case RoleMigrating:
		return fmt.Sprintf("the state in %s is being moved to %s", e.Path, e.Location)
	case RoleMigrated:
		return fmt.Sprintf("the state in %s was moved to %s", e.Path, e.Location)
	default:
		return fmt.Sprintf("%s contains a whole state", e.Path)
	}
}

// FileInfo is the metadata of a file.
type FileInfo struct {
	Role        Role
	Location    string // location of the state, unless Role is RoleState
	MigrationID string // ID of the migration that wrote the records, see Document
	// Sequences holds the last assigned IDs.
	Sequences map[resources.Kind]uint64
}

// FileInfo returns the metadata of the file.
func (s *Store) FileInfo(ctx context.Context) (FileInfo, error) {
	var a FileInfo
	err := s.view(ctx, func(_ *bbolt.Tx, h *head) error {
		a = FileInfo{Role: h.Role, Location: h.Location, MigrationID: h.MigrationID, Sequences: h.Sequences}
		return nil
	})
	return a, err
}

// RoleChange describes a new role of a file.
type RoleChange struct {
	Role     Role
	Location string // of the state, for people
	Lineage  string // of the state to which the file belongs; empty: unchanged
	Without  []resources.Kind
}

// ConvertRole changes the role of the file and deletes the records of the kinds that are stored elsewhere now, in one
// transaction.
func (s *Store) ConvertRole(ctx context.Context, to RoleChange) error {
	at, err := s.update(ctx, func(tx *bbolt.Tx, h *head) error {
		if err := s.checkHeld(tx); err != nil {
			return err
		}
		for _, kind := range to.Without {
			if err := dropKind(tx, h, kind); err != nil {
				return err
			}
		}
		s.nextHead(h)
		h.Role, h.Location = to.Role, to.Location
		if to.Lineage != "" {
			h.Lineage = to.Lineage
		}
		tx.OnCommit(func() { s.lineage = h.Lineage })
		return h.save(tx)
	})
	if err != nil {
		return err
	}
	s.hint(at)
	return nil
}

func dropKind(tx *bbolt.Tx, h *head, kind resources.Kind) error {
	records := tx.Bucket(recordsBucket)
	if records == nil || records.Bucket([]byte(kind)) == nil {
		return nil
	}
	delete(h.Counts, kind)
	return records.DeleteBucket([]byte(kind))
}
