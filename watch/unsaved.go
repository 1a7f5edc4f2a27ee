package watch

import (
	"fmt"
	"sync"

	"github.com/npctl/npctl/resources"
)

// unsavedEvents are events that no journal record contains yet.
type unsavedEvents struct {
	mu     sync.Mutex // guards events
	events []resources.Event
}

func (u *unsavedEvents) add(e resources.Event) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.events = newest(append(u.events, e))
}

// flush passes the events to write until it has written all of them. After an error the rest stays unsaved. Only one
// call may run at a time.
func (u *unsavedEvents) flush(write func([]resources.Event) (written int, err error)) error {
	u.mu.Lock()
	events := u.events
	u.events = nil
	u.mu.Unlock()
	for len(events) > 0 {
		written, err := write(events)
		if err != nil {
			u.mu.Lock()
			u.events = newest(append(events, u.events...))
			u.mu.Unlock()
			return fmt.Errorf("write journal: %w", err)
		}
		events = events[written:]
	}
	return nil
}
