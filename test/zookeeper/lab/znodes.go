package lab

import (
	"context"
	"time"
)

// These methods read and write znodes by path, without Zuul's classes.

// Read returns a znode.
func (p *Peer) Read(ctx context.Context, path string) (Record, error) {
	return ask[Record](ctx, p, "read", members{"path": path})
}

// Children returns the names of a znode's children, sorted.
func (p *Peer) Children(ctx context.Context, path string) ([]string, error) {
	return ask[[]string](ctx, p, "children", members{"path": path})
}

// Create creates a znode and its parents.
func (p *Peer) Create(ctx context.Context, path, data string) error {
	return p.Do(ctx, "create", members{"path": path, "data": data}, nil)
}

// CreateEphemeral creates a znode that ends with the session.
func (p *Peer) CreateEphemeral(ctx context.Context, path, data string) error {
	return p.Do(ctx, "create", members{"path": path, "data": data, "ephemeral": true}, nil)
}

// Write replaces the data of a znode of any version.
func (p *Peer) Write(ctx context.Context, path, data string) error {
	return p.Do(ctx, "write", members{"path": path, "data": data}, nil)
}

// Await waits until the JSON of a znode has these members, and returns it.
func (p *Peer) Await(ctx context.Context, path string, match map[string]any, timeout time.Duration) (string, error) {
	a, err := ask[struct{ Data string }](ctx, p, "await", members{"path": path, "match": match, "timeout": timeout.Seconds()})
	return a.Data, err
}

// AwaitGone waits until a znode does not exist.
func (p *Peer) AwaitGone(ctx context.Context, path string, timeout time.Duration) error {
	return p.Do(ctx, "await", members{"path": path, "timeout": timeout.Seconds()}, nil)
}

// TryLock acquires kazoo's lock of a directory if it is free, and reports whether it did.
func (p *Peer) TryLock(ctx context.Context, path string) (bool, error) {
	a, err := ask[struct{ Locked bool }](ctx, p, "lock", members{"path": path})
	return a.Locked, err
}

// Lock acquires kazoo's lock of a directory and waits for it; it returns a LockTimeout if it could not.
func (p *Peer) Lock(ctx context.Context, path string, timeout time.Duration) error {
	return p.Do(ctx, "lock", members{"path": path, "timeout": timeout.Seconds()}, nil)
}

// Unlock releases a lock from TryLock or Lock.
func (p *Peer) Unlock(ctx context.Context, path string) error {
	return p.Do(ctx, "unlock", members{"path": path}, nil)
}

// Contenders returns the identifiers of the holder and the waiters of a lock, in the order of kazoo.
func (p *Peer) Contenders(ctx context.Context, path string) ([]string, error) {
	return ask[[]string](ctx, p, "contenders", members{"path": path})
}
