package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

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

// LockOf returns the name of the lock that a step needs in a shared store, or "" if it needs none.
func LockOf(s *plan.Step) string {
	if lock := kindOf(s).lock; lock != nil {
		return lock(s)
	}
	return providerLock(s)
}

// providerLock returns the lock of a step on objects of a provider.
func providerLock(s *plan.Step) string {
	if s.Provider == "" {
		return ""
	}
	return ProviderLock(s.Provider)
}

// imageLock returns the lock of a step on builds, their files or their uploads.
func imageLock(s *plan.Step) string {
	if s.Image == "" {
		return ImagesLock
	}
	return ImageLock(s.Image)
}

// recordLock returns the lock of a step on the record of an image or provider.
func recordLock(s *plan.Step) string {
	if s.Record.Kind == resources.KindImage {
		return ImageLock(s.Record.ID)
	}
	return providerLock(s)
}

// leftoverLock returns the lock of a step on an object without a record.
func leftoverLock(s *plan.Step) string {
	if s.Type == "image" {
		return ImagesLock
	}
	return providerLock(s)
}

// underLocks acquires the locks of a plan in a shared store until release is called. A daemon through which the store
// is opened lends its own locks. The returned context ends when a lock is lost.
func (e *Engine) underLocks(ctx context.Context, p plan.Plan, shared bool) (under context.Context, release func(), err error) {
	under, cancel := context.WithCancelCause(ctx)
	if _, direct := e.Store.(state.Shared); !direct && !shared {
		return under, func() { cancel(nil) }, nil
	}
	var locks []state.Lock
	release = func() {
		cancel(nil)
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), unclaimTimeout)
		defer stop()
		for _, lock := range locks {
			if err := lock.Unlock(ctx); err != nil {
				e.Log.Warn("a lock ends with the session", "error", err)
			}
		}
	}
	for _, name := range locksOf(p) {
		lock, err := e.Store.Lock(ctx, name, state.Holder{Operation: "apply"})
		if err != nil {
			release()
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		locks = append(locks, lock)
		go func() {
			select {
			case <-lock.Lost():
				cancel(fmt.Errorf("%s: %w", name, state.ErrLost))
			case <-under.Done():
			}
		}()
	}
	return under, release, nil
}

// locksOf returns the names of the locks that the steps of a plan need.
func locksOf(p plan.Plan) (names []string) {
	for i := range p.Steps {
		if name := LockOf(&p.Steps[i]); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
