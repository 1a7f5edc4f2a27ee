package zookeeper

import "context"

// Watch implements state.Store. A hint also comes when a claim, a registration or the connection has changed.
func (s *Store) Watch(ctx context.Context) (<-chan struct{}, error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	own, cancel := context.WithCancel(ctx)
	private, err := s.private.Watch(own)
	if err != nil {
		cancel()
		return nil, err
	}
	hints := make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		cancel()
		return nil, err
	}
	s.watchers[hints] = struct{}{}
	s.workers.Go(func() {
		defer cancel()
		s.watch(own, hints, private)
	})
	return hints, nil
}

// watch forwards the hints of the private store and closes the channel when it returns.
func (s *Store) watch(ctx context.Context, hints chan struct{}, private <-chan struct{}) {
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers, hints)
		close(hints)
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.ctx.Done():
			return
		case _, open := <-private:
			if !open {
				private = nil
				continue
			}
			hint(hints)
		}
	}
}

// hintAll sends a hint to all watchers. s.mu is held.
func (s *Store) hintAll() {
	for w := range s.watchers {
		hint(w)
	}
}

// hint never blocks: one pending hint stands for all later ones.
func hint(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
