package openstack

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// maxFaultLookups bounds the extra calls of one List after a mass failure; the next one goes on.
const maxFaultLookups = 50

// addFaults asks for the faults that Nova leaves out of lists: those of servers that never got a host, which live in
// a database of their own (cell0). Each is asked for once, and only of servers that carry marks.
func (c *Cloud) addFaults(ctx context.Context, servers []server) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(4)
	lookups := 0
	for i := range servers {
		s := &servers[i]
		if s.Status != "ERROR" || s.Fault != nil || marksOf(s.Metadata).Installation == "" {
			continue
		}
		if s.Fault = c.attached.fault(s.ID); s.Fault != nil || lookups == maxFaultLookups {
			continue
		}
		lookups++
		group.Go(func() error {
			// Without the reason the server has failed all the same.
			if alone, found, err := c.server(ctx, s.ID); err == nil && found && alone.Fault != nil {
				s.Fault = alone.Fault
				c.attached.setFault(s.ID, alone.Fault)
			}
			return nil
		})
	}
	_ = group.Wait()
}

func (a *attached) fault(id string) *fault {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.faults[id]
}

func (a *attached) setFault(id string, f *fault) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.faults == nil {
		a.faults = map[string]*fault{}
	}
	a.faults[id] = f
}
