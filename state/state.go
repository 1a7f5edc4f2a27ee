// Package state defines the contract of the store that keeps npctl's records.
//
// All parts of npctl communicate through the store: the planner reads it, the executor writes intents and results to
// it. Every implementation runs the suite in state/statetest.
package state

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/npctl/npctl/internal/waits"
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

	// Claim claims the node or request in the commit that changes it, or the build or upload in the commit that creates it, as
	// Shared.Claim does; the entry has the lock. An existing claim of the handle is kept. Stores that are not Shared ignore it.
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

// HostName returns the name of this host, or localhost.
func HostName() string {
	name, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return name
}

// Self returns the current process as a holder with a new ID. The host is the name of this machine.
func Self(host, version string) Holder {
	name := cmp.Or(os.Getenv("USER"), "unknown")
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	return Holder{ID: uuid.NewString(), UserHost: name + "@" + host, Host: host, PID: os.Getpid(), Since: time.Now().UTC().Truncate(time.Second), Version: version}
}

// WithDefaults returns h with its empty fields, except Operation, taken from other. It takes the PID only from a holder
// on the same host, because a PID is valid only on its host.
func (h Holder) WithDefaults(other Holder) Holder {
	h.ID, h.UserHost, h.Host = cmp.Or(h.ID, other.ID), cmp.Or(h.UserHost, other.UserHost), cmp.Or(h.Host, other.Host)
	h.Since, h.Version = cmp.Or(h.Since, other.Since), cmp.Or(h.Version, other.Version)
	if h.PID == 0 && h.Host == other.Host {
		h.PID, h.Started = other.PID, cmp.Or(h.Started, other.Started)
	}
	return h
}

// LockInterval is the interval between attempts to take a lock that another process holds.
const LockInterval = 250 * time.Millisecond

// LockWithin takes a lock. It waits for another holder for at most wait, and calls waiting with the error before each
// wait.
func LockWithin(ctx context.Context, s Store, name string, holder Holder, wait time.Duration, waiting func(error)) (Lock, error) {
	for deadline := time.Now().Add(wait); ; {
		lock, err := s.Lock(ctx, name, holder)
		if err == nil || !errors.Is(err, ErrLocked) || !time.Now().Before(deadline) {
			return lock, err
		}
		waiting(err)
		if err := waits.Sleep(ctx, min(LockInterval, time.Until(deadline))); err != nil {
			return nil, err
		}
	}
}

const maxID = 1024 // bytes

// InvalidError is a mistake of the caller. The store is intact, and a retry fails the same way.
type InvalidError string

func (r InvalidError) Error() string { return string(r) }

// Invalidf returns an InvalidError.
func Invalidf(format string, args ...any) error { return InvalidError(fmt.Sprintf(format, args...)) }

// CheckedOp is a valid op.
type CheckedOp struct {
	Op
	Subject resources.Key // the key of the record that it changes
	Unnamed bool          // the store assigns the ID
}

// Check rejects ops that are invalid regardless of the contents of the store. Every Commit starts with it.
func Check(ops []Op) ([]CheckedOp, error) {
	seen := make(map[resources.Key]bool, len(ops))
	checked := make([]CheckedOp, len(ops))
	for i, op := range ops {
		c := CheckedOp{Op: op, Subject: op.Key}
		if op.Record != nil {
			if reflect.ValueOf(op.Record).IsNil() {
				return nil, Invalidf("op %d: a nil %T cannot be written", i, op.Record)
			}
			c.Subject = op.Record.Key()
			c.Unnamed = c.Subject.ID == "" && resources.IsStoreNumbered(c.Subject.Kind)
		}
		if err := c.check(); err != nil {
			return nil, fmt.Errorf("op %d: %w", i, err)
		}
		if seen[c.Subject] && !c.Unnamed {
			return nil, Invalidf("op %d: a second change of %s", i, c.Subject)
		}
		seen[c.Subject] = true
		checked[i] = c
	}
	return checked, nil
}

// CheckRevision returns ErrConflict unless the record is at the revision that the op expects. now is the revision of the
// record, zero if there is none.
func (c *CheckedOp) CheckRevision(now Revision) error {
	switch {
	case c.Force || now == c.Revision || c.Unnamed:
		return nil
	case now == 0:
		return fmt.Errorf("%s no longer exists, it was at revision %d: %w", c.Subject, c.Revision, ErrConflict)
	case c.Revision == 0:
		return fmt.Errorf("%s exists, at revision %d: %w", c.Subject, now, ErrConflict)
	default:
		return fmt.Errorf("%s is at revision %d, not %d: %w", c.Subject, now, c.Revision, ErrConflict)
	}
}

// CheckKinds rejects kinds that no record has.
func CheckKinds(kinds []resources.Kind) error {
	for _, kind := range kinds {
		if resources.NewRecord(kind) == nil {
			return Invalidf("list records: there is no kind of record called %q", kind)
		}
	}
	return nil
}

func (c *CheckedOp) check() error {
	empty := resources.NewRecord(c.Subject.Kind)
	switch {
	case empty == nil:
		return Invalidf("there is no kind of record called %q", c.Subject.Kind)
	case c.Record != nil && reflect.TypeOf(empty) != reflect.TypeOf(c.Record):
		return Invalidf("a %T is not a %s", c.Record, c.Subject.Kind)
	case c.Record != nil && c.Key != (resources.Key{}) && c.Key != c.Subject:
		return Invalidf("the key is %s but the record has the key %s", c.Key, c.Subject)
	case c.Release && !c.isPassedOn():
		return Invalidf("a %s is not released by a commit", c.Subject.Kind)
	case c.Claim && (c.Record == nil || c.Release || c.Force || c.isPassedOn() == (c.Revision == 0) || !c.isPassedOn() && !c.isBuilt()):
		return Invalidf("%s: a commit can claim only a node or request that exists, at a known revision, or a new build or upload", c.Subject)
	case c.Unnamed && c.Revision != 0:
		return Invalidf("a %s without an id cannot be at revision %d", c.Subject.Kind, c.Revision)
	case c.Unnamed:
		return nil
	case c.Subject.ID == "":
		return Invalidf("a %s without an id", c.Subject.Kind)
	case len(c.Subject.ID) > maxID || strings.ContainsRune(c.Subject.ID, 0) || !utf8.ValidString(c.Subject.ID):
		return Invalidf("%s has an id of %d bytes, at most %d of UTF-8 without NUL are allowed", c.Subject.Kind, len(c.Subject.ID), maxID)
	}
	return nil
}

// isPassedOn reports whether several processes work on the record one after the other.
func (c *CheckedOp) isPassedOn() bool {
	return c.Subject.Kind == resources.KindNode || c.Subject.Kind == resources.KindRequest
}

// isBuilt reports whether one process makes what the record describes.
func (c *CheckedOp) isBuilt() bool {
	return c.Subject.Kind == resources.KindBuild || c.Subject.Kind == resources.KindUpload
}

// WithID returns a shallow copy of the record with the given ID.
func WithID(record resources.Record, id string) resources.Record {
	copied := reflect.New(reflect.TypeOf(record).Elem())
	copied.Elem().Set(reflect.ValueOf(record).Elem())
	named := copied.Interface().(resources.Record)
	resources.SetID(named, id)
	return named
}

// Shared is a Store that other processes use too: further npctl processes, Zuul, a Nodepool launcher or builder. Each
// process claims the records that it works on, and no other process writes them.
//
// An Op with Claim or Release makes or ends a claim in the commit that changes the record. If the commit fails, even
// with an unknown outcome, it makes no claims.
//
// Commit claims the records that it changes until it returns, unless this handle has claimed them before. For a record
// that another has claimed it returns an error that is both ErrLocked and ErrConflict. Under a lost claim it writes
// nothing and returns ErrLost.
type Shared interface {
	Store
	// Claim claims a node, a request, an upload or a build until Unlock, and returns the record as of then. It returns
	// ErrLocked when another has claimed the record and ErrNotFound when the record is gone. It does not wait.
	Claim(ctx context.Context, key resources.Key) (Lock, Entry, error)
	// Changes returns the changes since its previous call: the records as they are now, and the keys of deleted ones.
	// The first call returns everything. Only one caller may use it, after each hint of Watch.
	Changes() (changed []Entry, gone []resources.Key)
	// Sync waits until this handle knows every change that was made before the call, by any process.
	Sync(ctx context.Context) error
	// Claimed returns the records that others have claimed, as far as this handle knows.
	Claimed() map[resources.Key]bool
	// Register publishes the pools that this process serves and whether it builds images. It replaces the previous
	// registration and returns when every process can read it. The registration survives lost sessions and ends when
	// the store is closed.
	Register(ctx context.Context, presence resources.Presence) error
	// RegisteredPools lists the registered pools of all processes, as far as this handle knows.
	RegisteredPools() []resources.RegisteredPool
	// Builders lists the IDs of the npctl processes that are registered as builders, including this one, as far as this
	// handle knows.
	Builders() []string
	// NodepoolBuilders lists the hosts of the registered builders of other programs, as far as this handle knows.
	NodepoolBuilders() []string
	// RequestedBuilds lists the images that have a build request, from any tool.
	RequestedBuilds() []string
	BuildRequester
	// FrozenProviders lists the providers in which no process may act, as far as this handle knows. This list decides.
	// Frozen of a provider record shows the same when read, and has no effect when written.
	FrozenProviders() []string
	// FreezeProvider stops all processes, including later ones, from acting in a provider until any process thaws it.
	// When it returns, this handle knows the change.
	FreezeProvider(ctx context.Context, provider string, frozen bool) error
	// Connected reports whether the data of this handle is reliable. While it is not, callers must make no decisions.
	Connected() bool
}

// Remote is a store that is reached through a connection.
type Remote interface {
	// Observe reports events of the connection from now on. It replaces the previous observer.
	Observe(o *Observer)
}

// Observer receives events of the connection to a store. Its functions must not block.
type Observer struct {
	Reconnected func()                                  // a connection after the first one exists
	Called      func(took time.Duration, answered bool) // a call to the server has ended
}

// BuildRequester is a store that holds build requests: a Shared, or the store of a daemon that has one.
type BuildRequester interface {
	// RequestBuild creates a build request for an image. With wish false it removes the request, which the builder does
	// after a successful build.
	RequestBuild(ctx context.Context, image string, wish bool) error
}

// ProviderLock returns the name of the lock of the process that manages a provider in a shared store.
func ProviderLock(provider string) string { return "provider " + provider }

// ImagesLock is the name of the lock of the process that deletes leaked images in a shared store.
const ImagesLock = "images"

// ImageLock returns the name of the lock of the process that builds, converts, uploads or deletes builds of an image in
// a shared store.
func ImageLock(image string) string { return "image " + image }

// IsImageLock reports whether a lock is for an image or for leaked images.
func IsImageLock(name string) bool {
	return name == ImagesLock || strings.HasPrefix(name, ImageLock(""))
}
