package bolt

import (
	"context"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/npctl/npctl/resources"
)

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
