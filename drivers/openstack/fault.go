package openstack

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// maxFaultLookups limits the extra calls of one List after a mass failure; the next List continues.
const maxFaultLookups = 50

// addFaults reads the faults that Nova omits from lists: those of servers that never got a host, which are in a
// separate database (cell0). It reads each fault once, and only those of servers with ownership tags.
func (c *Cloud) addFaults(ctx context.Context, servers []server) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(4)
	lookups := 0
	for i := range servers {
		s := &servers[i]
		if s.Status != "ERROR" || s.Fault != nil || ownerOf(s.Metadata).Installation == "" {
			continue
		}
		if s.Fault = c.attached.fault(s.ID); s.Fault != nil || lookups == maxFaultLookups {
			continue
		}
		lookups++
		group.Go(func() error {
			// The server counts as failed even without the reason.
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
