package reconcile

import (
	"context"
	"fmt"
	"slices"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/state"
)

// ProviderLock is the name of the lock that the process has which works in a provider, where others work in the same store.
func ProviderLock(provider string) string { return "provider " + provider }

// ImagesLock is the name of the lock of the process that looks after images there.
const ImagesLock = "images"

// tenure takes the providers of a plan for as long as it is being done. What is lost of them ends the returned context.
func (e *Engine) tenure(ctx context.Context, p plan.Plan) (under context.Context, release func(), err error) {
	store, shared := e.Store.(state.Shared)
	under, cancel := context.WithCancelCause(ctx)
	if !shared {
		return under, func() { cancel(nil) }, nil
	}
	var locks []state.Lock
	release = func() {
		cancel(nil)
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), unclaimTimeout)
		defer stop()
		for _, lock := range locks {
			if err := lock.Unlock(ctx); err != nil {
				e.Log.Warn("the lock of a provider ends with the session", "error", err)
			}
		}
	}
	for _, name := range providersOf(p) {
		lock, err := store.Lock(ctx, ProviderLock(name), state.Holder{Operation: "apply"})
		if err != nil {
			release()
			return nil, nil, fmt.Errorf("provider %s: %w", name, err)
		}
		locks = append(locks, lock)
		go func() {
			select {
			case <-lock.Lost():
				cancel(fmt.Errorf("provider %s: %w", name, state.ErrLost))
			case <-under.Done():
			}
		}()
	}
	return under, release, nil
}

func providersOf(p plan.Plan) (names []string) {
	for i := range p.Steps {
		if name := p.Steps[i].Provider; name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
