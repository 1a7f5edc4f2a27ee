package bolt

import (
	"context"
	"time"
)

// watcher is a channel that Watch returned, with capacity for one hint, so that hints merge. Only its goroutine closes
// it. hint sends under Store.mu while the watcher is registered, and the goroutine unregisters it before it closes it.
type watcher chan struct{}

// Watch implements state.Store. Commits through this Store send a hint at once. To notice commits of other processes,
// Watch reads the version of the file every second, without a lock. Each such timer wakes an idle daemon.
func (s *Store) Watch(ctx context.Context) (<-chan struct{}, error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	seen, err := s.file.peek()
	if err != nil {
		return nil, s.wrap("watch", err)
	}
	w := make(watcher, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	s.watchers[w] = struct{}{}
	s.workers.Go(func() { s.watch(ctx, w, seen) })
	return w, nil
}

func (s *Store) watch(ctx context.Context, w watcher, seen version) {
	defer func() {
		s.mu.Lock()
		delete(s.watchers, w)
		s.mu.Unlock()
		close(w)
	}()
	tick := time.NewTicker(s.hintEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.closing.Done():
			return
		case <-tick.C:
		}
		// After an error the next tick tries again.
		now, err := s.file.peek()
		if err != nil || now == seen {
			continue
		}
		seen = now
		s.mu.Lock()
		if now != s.hinted {
			w.hint()
		}
		s.mu.Unlock()
	}
}

// hint sends a hint to all watchers of this Store: records changed up to the version.
func (s *Store) hint(at version) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hinted = at
	for w := range s.watchers {
		w.hint()
	}
}

func (w watcher) hint() {
	select {
	case w <- struct{}{}:
	default:
	}
}
