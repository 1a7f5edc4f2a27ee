// Package state is the contract of the store that keeps npctl's records.
//
// The store is where everything meets: the planner reads it, the executor writes intents and results to it. Every
// implementation runs the suite in state/statetest.
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
	// ErrConflict: a record is not at the revision the caller has seen. Nothing of the commit was done.
	ErrConflict = errors.New("record has changed meanwhile")
	// ErrLocked: somebody else holds the lock; see LockedError.
	ErrLocked = errors.New("locked")
	// ErrLost: the lock was lost, so nothing may be written under it.
	ErrLost = errors.New("lock lost")
)

// Revision identifies one version of one record. Zero means that there is no record.
type Revision uint64

// Entry is a record with its revision.
type Entry struct {
	Record   resources.Record
	Revision Revision
	Claim    Lock // of an Op with Claim, in a Shared store; otherwise nil
}

// Op is one change of a commit. Put with Revision zero creates; Put with a revision replaces just that version;
// Record nil deletes. A new upload or node without an id is given one.
type Op struct {
	Key      resources.Key    // needed for a delete; otherwise taken from Record
	Record   resources.Record // nil to delete
	Revision Revision         // what the caller has seen; zero: must not exist yet
	Force    bool             // whatever the revision is

	// Claim claims the node or request with this change of it, as Shared.Claim does; the entry has the lock. A claim that
	// the handle has already stays. It needs a revision. Stores that are not Shared ignore it.
	Claim bool
	// Release gives back the claim that the handle has of the node or request with this change, as Unlock does. Without
	// such a claim it does nothing.
	Release bool
}

// Store keeps records. All methods may be called from several goroutines, and end soon after their ctx.
type Store interface {
	// Get returns one record, or ErrNotFound.
	Get(ctx context.Context, key resources.Key) (Entry, error)
	// List returns all records of the kinds named, or of all kinds, as of one moment, sorted by kind (in the order of
	// resources.Kinds) and id.
	List(ctx context.Context, kinds ...resources.Kind) ([]Entry, error)
	// Commit makes all changes or none and returns the new entries in the order of the ops (zero for deletes). When it
	// returns without error the changes survive a crash. A change of state that resources.LegalMove does not allow is
	// refused. The records passed in are not kept or changed, except that
	// a new record without an id is given one.
	Commit(ctx context.Context, ops ...Op) ([]Entry, error)
	// Watch returns a channel that gets a hint after records changed, by whomever. Hints may merge, so the receiver
	// looks again. It closes after ctx ends.
	Watch(ctx context.Context) (<-chan struct{}, error)
	// Lock takes the named lock for the holder, or returns a *LockedError that says who has it. It does not wait.
	Lock(ctx context.Context, name string, holder Holder) (Lock, error)
	// Close frees what the store holds. Locks end with it, and every later call is an error.
	Close() error
}

// Lock is held until Unlock or until it is lost.
type Lock interface {
	ID() string
	// Lost is closed when the lock is held no longer though nobody unlocked it.
	Lost() <-chan struct{}
	// Unlock gives the lock back. A second call does nothing, and neither does the first when the lock was lost.
	Unlock(ctx context.Context) error
}

// Holder says who holds a lock.
type Holder struct {
	ID        string    `json:"id"`
	Operation string    `json:"operation"` // such as apply
	Who       string    `json:"who"`       // user@host
	Host      string    `json:"host"`
	PID       int       `json:"pid"`
	Started   string    `json:"started,omitempty"` // when the process began, so that a reused pid is not mistaken for it
	Since     time.Time `json:"since"`
	Version   string    `json:"version"` // of npctl
}

// LockedError says who holds the lock. It wraps ErrLocked.
type LockedError struct {
	Name   string
	Holder Holder
}

func (e *LockedError) Error() string {
	return "lock " + e.Name + " is held by " + e.Holder.Who + " for " + e.Holder.Operation +
		" since " + e.Holder.Since.UTC().Format(time.RFC3339) + " (lock id " + e.Holder.ID + ")"
}

// Unwrap makes errors.Is(err, ErrLocked) true.
func (e *LockedError) Unwrap() error { return ErrLocked }

// Identity names a store and its version; saved plans and exports carry it.
type Identity struct {
	Lineage string `json:"lineage"` // made once, when the store is; the id of the installation
	Serial  uint64 `json:"serial"`  // grows with every commit
	Schema  int    `json:"schema"`
	// HashKey is a secret: saved plans and exports do not carry it. It is empty in a state of an older npctl that this one
	// has not written to.
	HashKey resources.HashKey `json:"-"`
}

// Identified is a Store that knows its identity. All of npctl's do; it is apart because decorators need not.
type Identified interface {
	Identity(ctx context.Context) (Identity, error)
}
