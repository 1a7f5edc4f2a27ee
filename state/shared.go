package state

import (
	"context"

	"github.com/npctl/npctl/resources"
)

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

// BuildRequester is a store that holds build requests: a Shared, or the store of a daemon that has one.
type BuildRequester interface {
	// RequestBuild creates a build request for an image. With wish false it removes the request, which the builder does
	// after a successful build.
	RequestBuild(ctx context.Context, image string, wish bool) error
}
