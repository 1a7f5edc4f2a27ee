package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// checkPrivate returns the error that the private store would return, before anything is written to ZooKeeper. No other
// process writes to the private store, so the result remains valid.
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

// commitPrivate writes the records that concern only this process.
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

// withFlags sets the pause of an image and the freeze of a provider from the shared flags.
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

// pausedElsewhere adds images that other processes paused and for which this process has no record.
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
	for image := range dir.children {
		if !known[image] && s.isSet(imageFlag(image, pauseName)) {
			entries = append(entries, pausedImage(image))
		}
	}
	return entries
}

// pausedImage returns the entry of an image for which only the flag exists. Its revision is that of a missing record.
func pausedImage(name string) state.Entry {
	return state.Entry{Record: &resources.ImageRecord{Name: name, Kind: resources.DiskImage, Paused: true}}
}

func privateKinds(kinds []resources.Kind) []resources.Kind {
	return slices.DeleteFunc(slices.Clone(kinds), shared)
}
