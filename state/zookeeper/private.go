package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// checkPrivate refuses what the private store would refuse, before anything is written to ZooKeeper. Nobody else writes
// to the private store, so what holds now holds then.
func (s *Store) checkPrivate(ctx context.Context, changes []*change) error {
	for _, c := range changes {
		if c.op.Force || c.unnamed {
			continue
		}
		entry, err := s.private.Get(ctx, c.key)
		if err != nil && !errors.Is(err, state.ErrNotFound) {
			return err
		}
		if entry.Revision != c.op.Revision {
			return fmt.Errorf("%s is at revision %d, not %d: %w", c.key, entry.Revision, c.op.Revision, state.ErrConflict)
		}
	}
	return nil
}

// commitPrivate writes what concerns this process alone.
func (s *Store) commitPrivate(ctx context.Context, changes []*change) error {
	ops := make([]state.Op, len(changes))
	for i, c := range changes {
		ops[i] = c.op
	}
	entries, err := s.private.Commit(ctx, ops...)
	if err != nil {
		return err
	}
	for i, c := range changes {
		c.result = s.withFlags(entries[i])
	}
	return nil
}

// withFlags shows an image as it is paused for all processes, and a provider as it is frozen for them.
func (s *Store) withFlags(entry state.Entry) state.Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r := entry.Record.(type) {
	case *resources.ImageRecord:
		if checkNames(r.Name) != nil {
			break
		}
		if r.Paused = s.isSet(imageFlag(r.Name, pauseName)); !r.Paused {
			r.PauseReason = ""
		}
	case *resources.ProviderRecord:
		r.Frozen = s.isSet(frozenFlag(r.Name))
	}
	return entry
}

// pausedElsewhere adds the images that others have paused and that this process has no record of.
func (s *Store) pausedElsewhere(entries []state.Entry) []state.Entry {
	known := map[string]bool{}
	for _, entry := range entries {
		if r, ok := entry.Record.(*resources.ImageRecord); ok {
			known[r.Name] = true
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	dir := s.cache.nodes[imagesDir]
	if dir == nil {
		return entries
	}
	for image := range dir.kids {
		if !known[image] && s.isSet(imageFlag(image, pauseName)) {
			entries = append(entries, pausedImage(image))
		}
	}
	return entries
}

// pausedImage is an image of which only the flag is known. Its revision is that of a record which is not there.
func pausedImage(name string) state.Entry {
	return state.Entry{Record: &resources.ImageRecord{Name: name, Kind: resources.DiskImage, Paused: true}}
}

func privateKinds(kinds []resources.Kind) []resources.Kind {
	return slices.DeleteFunc(slices.Clone(kinds), shared)
}
