package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

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
		if err := errors.Join(x.moveDirectory(s.Record.ID, p.Name), x.moveFreeze(ctx, s.Record.ID, p.Name)); err != nil {
			return err
		}
	}
	if shared := x.cache.claims.store; shared != nil && (s.Record.Kind == resources.KindBuild || s.Record.Kind == resources.KindUpload) {
		return x.moveImage(ctx, shared, before, after, revision)
	}
	ops := []state.Op{{Record: after, Revision: revision}}
	if s.Record != after.Key() {
		ops = append(ops, state.Op{Key: s.Record, Revision: revision})
		other, at := x.cache.record(after.Key())
		ops[0].Revision = at
		switch newer := other.(type) { // written after the rename of the block
		case *resources.ProviderRecord:
			old, merged := after.(*resources.ProviderRecord), *newer
			merged.Frozen, merged.Location = old.Frozen || newer.Frozen, cmp.Or(newer.Location, old.Location)
			ops[0].Record = &merged
		case *resources.ImageRecord: // in a shared store, another process may have moved the pause
			after.(*resources.ImageRecord).Paused = after.(*resources.ImageRecord).Paused || newer.Paused
		}
	}
	if n, ok := after.(*resources.Node); ok {
		for _, template := range x.cache.template(n.Hash, x.staticOf(n), nil) {
			ops = append(ops, state.Op{Record: template, Force: true})
		}
	}
	return x.cache.replace(ctx, ops...)
}

// moveImage moves a build with all its uploads, or one upload, to the path with the present names in one commit. It holds
// the lock of the image under its earlier name too, which a process without the move in its configuration would take.
func (x *execution) moveImage(ctx context.Context, shared state.Shared, before, after resources.Record, revision state.Revision) error {
	ops, renumbered := []state.Op{{Record: after, Revision: revision}}, map[string]int{}
	var from, to string
	switch b := before.(type) {
	case *resources.Build:
		from, to = b.Image, after.(*resources.Build).Image
		for _, u := range all[resources.Upload](x.cache) {
			_, at := x.cache.record(u.Key())
			if moved, is := plan.MovedRecord(x.Desired, u); is && u.Build == b.ID {
				ops = appendUpload(ops, moved.(*resources.Upload), at, renumbered)
			}
		}
	case *resources.Upload:
		from, to = b.Image, after.(*resources.Upload).Image
		ops = appendUpload(nil, after.(*resources.Upload), revision, renumbered)
	}
	if from != to {
		// another build of the image may be moving, or a killed process may have the lock until its session ends
		lock, err := state.LockWithin(ctx, shared, state.ImageLock(from), state.Holder{Operation: "move"}, moveLockWait, func(error) {})
		if err != nil {
			return fmt.Errorf("lock image %s: %w", from, err)
		}
		defer lock.Unlock(context.WithoutCancel(ctx)) //nolint:errcheck // the lock ends with the session at the latest
		if slices.Contains(shared.RequestedBuilds(), from) {
			if err := errors.Join(shared.RequestBuild(ctx, to, true), shared.RequestBuild(ctx, from, false)); err != nil {
				return fmt.Errorf("move the build request of image %s: %w", from, err)
			}
		}
	}
	return x.cache.moveUploads(ctx, ops, renumbered)
}

// moveLockWait limits the time to wait for the lock of an image with its earlier name.
const moveLockWait = 30 * time.Second

// appendUpload adds the operations that move an upload. An upload by Nodepool is identified by its path, so it becomes a
// new record, with an ID of npctl.
func appendUpload(ops []state.Op, u *resources.Upload, at state.Revision, renumbered map[string]int) []state.Op {
	if !strings.Contains(u.ID, "/") {
		return append(ops, state.Op{Record: u, Revision: at})
	}
	key := u.Key()
	u.Former, u.ID = append(slices.Clone(u.Former), u.ID), ""
	renumbered[key.ID] = len(ops)
	return append(ops, state.Op{Record: u}, state.Op{Key: key, Revision: at})
}

// staticOf returns the replacing attributes of the offer or machine of a node.
func (e *Engine) staticOf(n *resources.Node) map[string]string {
	p, _ := e.Desired.Provider(n.Provider)
	offer, machine := p.SourceOf(n)
	switch {
	case machine != nil:
		return machine.Static
	case offer != nil:
		return offer.Static
	default:
		return nil
	}
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
