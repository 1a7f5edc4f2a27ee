// Package state defines the contract of the store that keeps npctl's records.
//
// All parts of npctl communicate through the store: the planner reads it, the executor writes intents and results to
// it. Every implementation runs the suite in state/statetest.
package state

import (
	"context"
	"errors"
	"time"

	"github.com/npctl/npctl/resources"
)

// Errors that callers branch on.
var (
	// ErrNotFound: no record has that key.
	ErrNotFound = errors.New("no such record")
	// ErrConflict: a record is not at the revision that the caller expects. Nothing of the commit was written.
	ErrConflict = errors.New("record has changed meanwhile")
	// ErrLocked: another holder has the lock; see LockedError.
	ErrLocked = errors.New("locked")
	// ErrLost: the lock was lost, so nothing may be written under it.
	ErrLost = errors.New("lock lost")
	// ErrReadOnly: the store was opened read-only.
	ErrReadOnly = errors.New("the state is open in read-only mode")
)

// Revision identifies one version of one record. Zero means that there is no record.
type Revision uint64

// Entry is a record with its revision.
type Entry struct {
	Record    resources.Record
	Revision  Revision
	ClaimLock Lock // of an Op with Claim, in a Shared store; otherwise nil
}

// Op is one change of a commit. A Record with Revision zero is created; a Record with a revision replaces exactly that
// version; a nil Record deletes. A new record of a kind that the store numbers, without an ID, gets one.
type Op struct {
	Key      resources.Key    // needed for a delete; otherwise taken from Record
	Record   resources.Record // nil to delete
	Revision Revision         // the expected revision; zero: the record must not exist
	Force    bool             // ignores the revision

	// Claim claims the node or request in the commit that changes it, as Shared.Claim does; the entry has the lock. An
	// existing claim of the handle is kept. It needs a revision. Stores that are not Shared ignore it.
	Claim bool
	// Release ends the handle's claim of the node or request in the commit that changes it, as Unlock does. Without
	// such a claim it does nothing.
	Release bool
}

// Store keeps records. Its methods are safe for concurrent use, and return soon after their ctx is done.
type Store interface {
	// Get returns one record, or ErrNotFound.
	Get(ctx context.Context, key resources.Key) (Entry, error)
	// List returns all records of the given kinds, or of all kinds, as of one moment, sorted by kind (in the order of
	// resources.Kinds) and ID.
	List(ctx context.Context, kinds ...resources.Kind) ([]Entry, error)
	// Commit makes all changes or none and returns the new entries in the order of the ops (zero for deletes). When it
	// returns without error, the changes survive a crash. It rejects a change of state that resources.LegalTransition
	// does not allow. It does not keep or change the records passed in, but sets the ID of a new record without one.
	Commit(ctx context.Context, ops ...Op) ([]Entry, error)
	// Watch returns a channel that receives a hint after records change, by any process. Several changes may produce
	// one hint, so the receiver must read the store. The channel closes after ctx is done.
	Watch(ctx context.Context) (<-chan struct{}, error)
	// Lock takes the named lock for the holder, or returns a *LockedError with the current holder. It does not wait.
	Lock(ctx context.Context, name string, holder Holder) (Lock, error)
	// Close releases the locks and resources of the store. Every later call returns an error.
	Close() error
}

// Lock is an exclusive right that is held until Unlock or until it is lost.
type Lock interface {
	ID() string
	// Lost is closed when the lock ends without Unlock.
	Lost() <-chan struct{}
	// Unlock releases the lock. It does nothing when it was called before or the lock was lost.
	Unlock(ctx context.Context) error
}

// Holder identifies the process that holds a lock.
type Holder struct {
	ID        string    `json:"id"`
	Operation string    `json:"operation"` // such as apply
	UserHost  string    `json:"who"`       // user@host
	Host      string    `json:"host"`
	PID       int       `json:"pid"`
	Started   string    `json:"started,omitempty"` // when the process started, which detects a reused PID
	Since     time.Time `json:"since"`
	Version   string    `json:"version"` // of npctl
}

// LockedError reports that a lock is held, and by which holder. It wraps ErrLocked.
type LockedError struct {
	Name   string
	Holder Holder
}

func (e *LockedError) Error() string {
	return "lock " + e.Name + " is held by " + e.Holder.UserHost + " for " + e.Holder.Operation +
		" since " + e.Holder.Since.UTC().Format(time.RFC3339) + " (lock id " + e.Holder.ID + ")"
}

// Unwrap makes errors.Is(err, ErrLocked) true.
func (e *LockedError) Unwrap() error { return ErrLocked }

// Identity identifies a store and its version. Saved plans and exports contain it.
type Identity struct {
	Lineage string `json:"lineage"` // created with the store; the ID of the installation
	Serial  uint64 `json:"serial"`  // grows with every commit
	Schema  int    `json:"schema"`
	// HashKey is a secret; saved plans and exports do not contain it. It is empty if the state does not exist yet.
	HashKey resources.HashKey `json:"-"`
}

// Identified is a Store with an identity. All stores of npctl have one; the interface is separate because decorators
// need not.
type Identified interface {
	Identity(ctx context.Context) (Identity, error)
}
