package metastatic

import (
	"context"
	"fmt"
	"slices"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

// Create implements drivers.Cloud. It reserves a free slot, or requests another backing node. It never waits for that node.
func (c *Cloud) Create(ctx context.Context, spec drivers.Spec) (resources.Instance, error) {
	s, err := settingsOf(spec.Config)
	if err != nil {
		return resources.Instance{}, drivers.Rejectf("%w", err)
	}
	done, err := c.takeTurn(ctx)
	if err != nil {
		return resources.Instance{}, drivers.Unsent(err)
	}
	defer done()
	f, err := c.fleet(ctx)
	if err != nil {
		return resources.Instance{}, drivers.Unsent(err)
	}
	if i := slices.IndexFunc(f.instances, func(i resources.Instance) bool { return i.Marks.SameRecord(spec.Marks) }); i >= 0 {
		return f.instances[i], nil
	}
	free, found := f.choose(s, c.env.Nodes.Serving(), c.now())
	if !found {
		if free, err = c.request(ctx, s); err != nil {
			return resources.Instance{}, err
		}
	}
	made := resources.Instance{ID: free.String(), Name: spec.Hostname, Marks: spec.Marks, Created: c.now()}
	c.reserved.add(made)
	if b := f.backing[free.request]; b != nil {
		return b.describe(made), nil
	}
	return (&backing{state: resources.StateRequested}).describe(made), nil
}

// request requests another backing node and returns its first slot.
func (c *Cloud) request(ctx context.Context, s labelSettings) (slot, error) {
	if problem := c.labelProblem(ctx, s.BackingLabel); problem != nil {
		return slot{}, drivers.Rejectf("%s", problem.Detail)
	}
	if !c.env.Nodes.Serving() {
		return slot{}, drivers.Rejectf("%w", errNotServed)
	}
	id, err := c.env.Nodes.Request(ctx, s.BackingLabel)
	if err != nil {
		return slot{}, fmt.Errorf("request a backing node: %w", err)
	}
	return slot{request: id}, nil
}

// takeTurn excludes other decisions about slots until done is called.
func (c *Cloud) takeTurn(ctx context.Context) (done func(), err error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	select {
	case c.reserved.turn <- struct{}{}:
		return func() { <-c.reserved.turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// fleet reads the backing nodes and their slots.
func (c *Cloud) fleet(ctx context.Context) (*fleet, error) {
	seen, err := c.env.Nodes.List(ctx)
	if err != nil {
		return nil, err
	}
	return fleetOf(c.env, seen, c.reserved.without(seen.Own)), ctx.Err()
}

// Advance implements drivers.Cloud. It takes the backing node of a fulfilled request.
func (c *Cloud) Advance(ctx context.Context, spec drivers.Spec, seen resources.Instance) (resources.Instance, error) {
	seen.Name = spec.Hostname
	s, ok := parseSlot(seen.ID)
	if !ok || seen.Status != resources.StatusPending {
		return seen, ctx.Err()
	}
	f, err := c.fleet(ctx)
	if err != nil {
		return seen, err
	}
	b := f.backing[s.request]
	if b == nil || b.state != resources.StateFulfilled {
		return b.describe(seen), nil
	}
	if err := c.env.Nodes.Take(ctx, s.request); err != nil {
		return seen, fmt.Errorf("take the backing node of request %s: %w", s.request, err)
	}
	if f, err = c.fleet(ctx); err != nil {
		return seen, err
	}
	return f.backing[s.request].describe(seen), nil
}

// Delete implements drivers.Cloud. A slot has no object of its own: it is free once its record is deleting or gone.
func (c *Cloud) Delete(ctx context.Context, id string, expected resources.OwnerTags) error {
	s, ok := parseSlot(id)
	if !ok {
		return ctx.Err()
	}
	f, err := c.fleet(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(f.instances, func(i resources.Instance) bool { return i.ID == id })
	if i >= 0 && !f.instances[i].Marks.SameRecord(expected) {
		return fmt.Errorf("slot %s is of node %s: %w", id, f.instances[i].Marks.ID, drivers.ErrNotOurs)
	}
	c.reserved.drop(id)
	if b := f.backing[s.request]; b != nil && b.node != nil {
		delete(b.slots, s.number)
		if len(b.slots) == 0 && c.env.Nodes.Serving() { // in npctl destroy, another step deletes the backing node
			return c.env.Nodes.MarkIdle(ctx, s.request)
		}
	}
	return nil
}

// List implements drivers.Cloud.
func (c *Cloud) List(ctx context.Context) ([]resources.Instance, error) {
	f, err := c.fleet(ctx)
	if err != nil {
		return nil, err
	}
	return f.instances, nil
}
