package reconcile

import (
	"cmp"
	"context"
	"fmt"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// moveRecord writes the present names of moved blocks into a record, in one commit. It may run twice.
func (x *execution) moveRecord(ctx context.Context, s plan.Step) error {
	before, revision := x.cache.record(s.Record)
	if before == nil {
		return nil
	}
	after, moved := plan.MovedRecord(x.Desired, before)
	if !moved {
		return nil
	}
	if p, ok := after.(*resources.ProviderRecord); ok {
		if err := x.moveFreeze(ctx, s.Record.ID, p.Name); err != nil {
			return err
		}
	}
	ops := []state.Op{{Record: after, Revision: revision}}
	if s.Record != after.Key() {
		ops = append(ops, state.Op{Key: s.Record, Revision: revision})
		other, at := x.cache.record(after.Key())
		ops[0].Revision = at
		if newer, ok := other.(*resources.ProviderRecord); ok { // written after the rename of the block
			old, merged := after.(*resources.ProviderRecord), *newer
			merged.Frozen, merged.Location = old.Frozen || newer.Frozen, cmp.Or(newer.Location, old.Location)
			ops[0].Record = &merged
		}
	}
	if n, ok := after.(*resources.Node); ok {
		for _, template := range x.cache.template(n.Hash, x.staticOf(n), nil) {
			ops = append(ops, state.Op{Record: template, Force: true})
		}
	}
	return x.cache.replace(ctx, ops...)
}

// staticOf returns the replacing attributes of the offer or machine of a node.
func (e *Engine) staticOf(n *resources.Node) map[string]string {
	p, _ := e.Desired.Provider(n.Provider)
	for i := range p.Pools {
		pool := &p.Pools[i]
		if pool.Name != n.Pool {
			continue
		}
		for j := range pool.Nodes {
			if n.Static && pool.Nodes[j].Name == n.Hostname {
				return pool.Nodes[j].Static
			}
		}
		for _, label := range n.Labels {
			if offer := pool.Offer(label); offer != nil {
				return offer.Static
			}
		}
	}
	return nil
}

// moveFreeze freezes a provider under its present name, in a shared store, where the record does not decide.
func (x *execution) moveFreeze(ctx context.Context, from, to string) error {
	shared := x.cache.claims.store
	if shared == nil {
		return nil
	}
	for _, name := range shared.FrozenProviders() {
		if name != from {
			continue
		}
		if err := shared.FreezeProvider(ctx, to, true); err != nil {
			return fmt.Errorf("freeze provider %s: %w", to, err)
		}
		if err := shared.FreezeProvider(ctx, from, false); err != nil {
			return fmt.Errorf("thaw provider %s: %w", from, err)
		}
	}
	return nil
}
