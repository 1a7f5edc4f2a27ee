package reconcile

import (
	"context"
	"fmt"
	"slices"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// ProviderLock is the name of the lock that the process has which works in a provider, where others work in the same store.
func ProviderLock(provider string) string { return "provider " + provider }

// ImagesLock is the name of the lock of the process that looks after images there.
const ImagesLock = "images"

// LockOf is the name of the lock under which a step is done, where others work in the same store; empty when it needs none.
func LockOf(s *plan.Step) string {
	switch {
	case ofImages(s):
		return ImagesLock
	case s.Provider != "":
		return ProviderLock(s.Provider)
	default:
		return ""
	}
}

func ofImages(s *plan.Step) bool {
	switch s.Thing {
	case plan.ThingBuild, plan.ThingUpload, plan.ThingFile:
		return true
	case plan.ThingLeftover:
		return s.Type == "image"
	default:
		return s.Record.Kind == resources.KindImage
	}
}

// underLocks takes the locks of a plan for as long as it is being done. When one of them is lost, the returned context ends.
func (e *Engine) underLocks(ctx context.Context, p plan.Plan) (under context.Context, release func(), err error) {
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
				e.Log.Warn("a lock ends with the session", "error", err)
			}
		}
	}
	for _, name := range locksOf(p) {
		lock, err := store.Lock(ctx, name, state.Holder{Operation: "apply"})
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

// locksOf names the locks under which the steps of a plan are done.
func locksOf(p plan.Plan) (names []string) {
	for i := range p.Steps {
		if name := LockOf(&p.Steps[i]); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
