package bolt

import (
	"context"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/npctl/npctl/resources"
)

// Role says what a file is. One that nothing was ever committed to can become anything.
type Role string

// The roles of a file. Each is opened by those who ask for it: a state that lies elsewhere must not be gone on with here.
const (
	// Whole is a state, and nothing else is needed.
	Whole Role = ""
	// Private is what one process keeps for itself beside a state that many share.
	Private Role = "private"
	// Shadow is what a process keeps for itself that only looks on while others work in a state.
	Shadow Role = "shadow"
	// Moving is a whole state on its way to another place. Nobody works with it until it is there, or stays after all.
	Moving Role = "moving"
	// Moved is what is left of a state that lies in another place now.
	Moved Role = "moved"
)

// RoleError says that a file is not what it was opened as.
type RoleError struct {
	Path         string
	Role, Wanted Role
	Elsewhere    string // where the state is, or will be
}

func (e *RoleError) Error() string {
	switch e.Role {
	case Private:
		return fmt.Sprintf("%s is no state by itself: it keeps what one process has beside the state in %s", e.Path, e.Elsewhere)
	case Shadow:
		return fmt.Sprintf("%s is no state by itself: it keeps what npctl watch -shadow has noted", e.Path)
	case Moving:
		return fmt.Sprintf("the state in %s is being moved to %s", e.Path, e.Elsewhere)
	case Moved:
		return fmt.Sprintf("the state that was in %s has been moved to %s", e.Path, e.Elsewhere)
	default:
		return fmt.Sprintf("%s holds a whole state", e.Path)
	}
}

// checkRole refuses a file that is not what it was opened as.
func (s *Store) checkRole(h *head) error {
	if s.opts.AnyRole || h.Serial == 0 || h.Role == s.opts.Role {
		return nil
	}
	return &RoleError{Path: s.opts.Path, Role: h.Role, Wanted: s.opts.Role, Elsewhere: h.Elsewhere}
}

// About is what a file says of itself.
type About struct {
	Role      Role
	Elsewhere string // of a file that is not Whole: where the state is
	Move      string // by which the records came here, see Document
	// Sequences are the last ids that were given.
	Sequences map[resources.Kind]uint64
}

// About tells what the file is.
func (s *Store) About(ctx context.Context) (About, error) {
	var a About
	err := s.view(ctx, func(_ *bbolt.Tx, h *head) error {
		a = About{Role: h.Role, Elsewhere: h.Elsewhere, Move: h.Move, Sequences: h.Sequences}
		return nil
	})
	return a, err
}

// Turn is what a file becomes.
type Turn struct {
	Role      Role
	Elsewhere string // for people
	Lineage   string // of the state that it belongs to; empty to keep its own
	Without   []resources.Kind
}

// Turn gives the file another role, and drops the records of the kinds that are elsewhere now, in one transaction.
func (s *Store) Turn(ctx context.Context, to Turn) error {
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
		h.Role, h.Elsewhere = to.Role, to.Elsewhere
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
