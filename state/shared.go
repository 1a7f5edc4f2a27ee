package state

import (
	"context"

	"github.com/npctl/npctl/resources"
)

// Shared is a Store that others work in too: further npctl processes, Zuul, a Nodepool launcher or builder. What one of
// them works on it has claimed, and nobody else writes to it.
//
// An Op with Claim or Release makes or ends a claim in the commit that changes the record. When a commit fails, also when
// it is unknown whether it was made, its claims are not made.
//
// Commit itself claims what it changes for as long as it takes, unless this handle has claimed it before; of what another
// has claimed it returns an error that is both ErrLocked and ErrConflict. What is written under a claim that was lost
// meanwhile is not written at all, and the error is ErrLost.
type Shared interface {
	Store
	// Claim takes a node, a request, an upload, or a build for as long as somebody works on it, and returns it as it is
	// then: ErrLocked when another has it, ErrNotFound when it is gone. It does not wait.
	Claim(ctx context.Context, key resources.Key) (Lock, Entry, error)
	// Changes returns what has changed since it was called last, everything at first: the records as they are now, and the
	// keys of what is gone. One caller follows a store in this way, whenever Watch hints.
	Changes() (changed []Entry, gone []resources.Key)
	// Sync waits until everything that anybody had changed before is known here.
	Sync(ctx context.Context) error
	// Claimed lists what others have claimed, as far as is known here.
	Claimed() map[resources.Key]bool
	// Register publishes which pools this process serves and whether it makes images, in place of what it published before.
	// It returns when every process can see that. The registration lasts until the store is closed, also over lost sessions.
	Register(ctx context.Context, presence resources.Presence) error
	// Peers lists the pools that are registered, by whomever, as far as is known here.
	Peers() []resources.Peer
	// BuildsWished lists the images that somebody has asked to be built, by whatever tool.
	BuildsWished() []string
	// WishBuild asks for an image to be built, by whoever builds it, or takes that back: after a build has succeeded.
	WishBuild(ctx context.Context, image string, wish bool) error
	// ProvidersFrozen lists the providers that are to be left alone by every process, as far as is known here. It is they that
	// count, and not Frozen of the records of providers, which shows the same in what is read and changes nothing when written.
	ProvidersFrozen() []string
	// FreezeProvider has every process leave a provider alone, also those that come later, until that is taken back by
	// whomever. This handle knows it when FreezeProvider has returned.
	FreezeProvider(ctx context.Context, provider string, frozen bool) error
	// Connected reports whether what is known here can be relied upon. Nothing is to be decided while it cannot.
	Connected() bool
}
