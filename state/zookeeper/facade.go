package zookeeper

import (
	"context"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// onChange implements observer. The locks come first: they compare the event with the cache before the event.
func (s *Store) onChange(kind zk.EventType, at string) {
	s.locks.onChange(kind, at)
	s.mirror.onChange(kind, at)
}

// onConnected implements observer.
func (s *Store) onConnected() { hint(s.mirror.wake) }

// onDisconnected implements observer.
func (s *Store) onDisconnected() { s.mirror.hintAll() }

// onSessionLost implements observer.
func (s *Store) onSessionLost(why string) { s.locks.loseAll(why) }

// onCaughtUp runs when the cache is up to date. mu is held.
func (s *Store) onCaughtUp(becameSynced bool) {
	s.locks.checkOwnContenders()
	if becameSynced {
		hint(s.upkeep.wake)
	}
}

// Connected implements state.Shared. It also returns false if the process was stopped for so long that its session may
// have ended, even before the process has noticed.
func (s *Store) Connected() bool { return s.session.connected() }

// Observe implements state.Remote.
func (s *Store) Observe(o *state.Observer) { s.session.metrics.Store(o) }

// Sync implements state.Shared.
func (s *Store) Sync(ctx context.Context) error { return s.mirror.sync(ctx) }

// Identity implements state.Identified. The serial is the zxid of the newest commit by any npctl process; writes of
// other programs do not count.
func (s *Store) Identity(ctx context.Context) (state.Identity, error) {
	return s.installation.identity(ctx)
}

// Lock implements state.Store. The lock ends with the session: the locks of a killed process remain for the session
// timeout. Empty fields of holder are filled in from this process; see state.Holder.WithDefaults.
func (s *Store) Lock(ctx context.Context, name string, holder state.Holder) (state.Lock, error) {
	return s.locks.lock(ctx, name, holder)
}

// Holder returns the present holder of the named lock, or nil if the lock is free.
func (s *Store) Holder(ctx context.Context, name string) (*state.Holder, error) {
	if err := s.session.usable(ctx); err != nil {
		return nil, err
	}
	_, locked, err := s.locks.first(ctx, name, nil)
	if err != nil || locked == nil {
		return nil, err
	}
	return &locked.Holder, nil
}

// ForceUnlock takes the named lock with that ID from its holder and returns the holder. The holder's Lost channel
// closes at once, and it can write nothing from then on.
func (s *Store) ForceUnlock(ctx context.Context, id string) (state.Holder, error) {
	return s.locks.forceUnlock(ctx, id)
}

// Claim implements state.Shared.
func (s *Store) Claim(ctx context.Context, key resources.Key) (state.Lock, state.Entry, error) {
	c, entry, err := s.locks.claim(ctx, key)
	if err != nil {
		return nil, state.Entry{}, fmt.Errorf("claim %s: %w", key, err)
	}
	return c, entry, nil
}

// Claimed implements state.Shared.
func (s *Store) Claimed() map[resources.Key]bool { return s.locks.claimed() }

// Register implements state.Shared.
func (s *Store) Register(ctx context.Context, presence resources.Presence) error {
	return s.presence.publish(ctx, presence)
}

// RegisteredPools implements state.Shared.
func (s *Store) RegisteredPools() []resources.RegisteredPool { return s.presence.registeredPools() }

// Builders implements state.Shared.
func (s *Store) Builders() []string {
	ids, _ := s.presence.builders()
	return ids
}

// NodepoolBuilders implements state.Shared.
func (s *Store) NodepoolBuilders() []string {
	_, hosts := s.presence.builders()
	return hosts
}

// RequestedBuilds implements state.Shared.
func (s *Store) RequestedBuilds() []string { return s.mirror.requestedBuilds() }

// RequestBuild implements state.Shared.
func (s *Store) RequestBuild(ctx context.Context, image string, wish bool) error {
	return s.transactions.setImageFlag(ctx, image, buildRequestName, wish)
}

// PauseImage pauses or resumes builds of an image, whatever the private store says. A Commit of the image's record
// writes both the record and the flag.
func (s *Store) PauseImage(ctx context.Context, image string, paused bool) error {
	return s.transactions.setImageFlag(ctx, image, pauseName, paused)
}

// FrozenProviders implements state.Shared.
func (s *Store) FrozenProviders() []string { return s.mirror.frozenProviders() }

// FreezeProvider implements state.Shared.
func (s *Store) FreezeProvider(ctx context.Context, provider string, frozen bool) error {
	return s.transactions.freezeProvider(ctx, provider, frozen)
}

// LastID returns the highest number that a node or an upload has, or can have had, in this state.
func (s *Store) LastID(ctx context.Context, kind resources.Kind) (uint64, error) {
	return s.numbers.last(ctx, kind)
}

// Reserve keeps numbers up to upTo from being assigned to nodes or uploads, because imported records or ownership tags
// in clouds use them.
func (s *Store) Reserve(ctx context.Context, kind resources.Kind, upTo uint64) error {
	return s.numbers.reserve(ctx, kind, upTo)
}

// EndImport declares the import complete, which lets other processes open the state.
func (s *Store) EndImport(ctx context.Context) error { return s.installation.endImport(ctx) }

// BeginExport starts an export and returns its ID. The ID stays the same until EndExport, so that a process can
// distinguish an interrupted export from another one.
func (s *Store) BeginExport(ctx context.Context) (id string, err error) {
	return s.installation.beginExport(ctx)
}

// EndExport ends an export that BeginExport started.
func (s *Store) EndExport(ctx context.Context) error { return s.installation.endExport(ctx) }
