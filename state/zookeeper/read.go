package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// Get implements state.Store. It serves shared records from the cache, which trails the commits of other processes by a
// moment.
func (s *Store) Get(ctx context.Context, key resources.Key) (state.Entry, error) {
	if err := s.usable(ctx); err != nil {
		return state.Entry{}, err
	}
	if shared(key.Kind) {
		return s.getShared(key)
	}
	entry, err := s.private.Get(ctx, key)
	if err == nil {
		return s.withFlags(entry), nil
	}
	if errors.Is(err, state.ErrNotFound) && key.Kind == resources.KindImage && checkNames(key.ID) == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.isSet(imageFlag(key.ID, pauseName)) {
			return pausedImage(key.ID), nil
		}
	}
	return state.Entry{}, err
}

func (s *Store) getShared(key resources.Key) (state.Entry, error) {
	s.mu.Lock()
	_, z := s.cache.find(key)
	var entry state.Entry
	if z != nil {
		entry = state.Entry{Record: z.record, Revision: state.Revision(z.mzxid)}
	}
	s.mu.Unlock()
	if entry.Record == nil {
		return entry, fmt.Errorf("%s: %w", key, state.ErrNotFound)
	}
	entry.Record = s.outgoing(entry.Record)
	return entry, nil
}

// List implements state.Store. All changes of one Commit appear together, unless changes arrive faster than the store
// can read them.
func (s *Store) List(ctx context.Context, kinds ...resources.Kind) ([]state.Entry, error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	for _, kind := range kinds {
		if resources.NewRecord(kind) == nil {
			return nil, fmt.Errorf("list records: %w", state.Invalidf("there is no kind of record called %q", kind))
		}
	}
	if len(kinds) == 0 {
		kinds = resources.Kinds()
	}
	entries := s.listShared(kinds)
	private, err := s.listPrivate(ctx, privateKinds(kinds))
	if err != nil {
		return nil, err
	}
	if entries = append(entries, private...); len(private) > 0 {
		slices.SortStableFunc(entries, byKind)
	}
	return entries, nil
}

// listShared copies pointers under s.mu and the records after that.
func (s *Store) listShared(kinds []resources.Kind) []state.Entry {
	var entries []state.Entry
	s.mu.Lock()
	for _, kind := range resources.Kinds() {
		if !shared(kind) || !slices.Contains(kinds, kind) {
			continue
		}
		for _, id := range s.cache.ids(kind) {
			z := s.cache.nodes[s.cache.records[kind][id]]
			entries = append(entries, state.Entry{Record: z.record, Revision: state.Revision(z.mzxid)})
		}
	}
	s.mu.Unlock()
	for i := range entries {
		entries[i].Record = s.outgoing(entries[i].Record)
	}
	return entries
}

func (s *Store) listPrivate(ctx context.Context, kinds []resources.Kind) ([]state.Entry, error) {
	if len(kinds) == 0 {
		return nil, nil
	}
	entries, err := s.private.List(ctx, kinds...)
	if err != nil {
		return nil, err
	}
	for i := range entries {
		entries[i] = s.withFlags(entries[i])
	}
	if slices.Contains(kinds, resources.KindImage) {
		before := len(entries)
		if entries = s.pausedElsewhere(entries); len(entries) > before {
			slices.SortStableFunc(entries, byKindAndID)
		}
	}
	return entries, nil
}

func byKind(a, b state.Entry) int {
	return slices.Index(resources.Kinds(), a.Record.Key().Kind) - slices.Index(resources.Kinds(), b.Record.Key().Kind)
}

func byKindAndID(a, b state.Entry) int {
	if d := byKind(a, b); d != 0 {
		return d
	}
	return strings.Compare(a.Record.Key().ID, b.Record.Key().ID)
}

// entryOf returns a record as it leaves the store. s.mu is held.
func (s *Store) entryOf(z *znode) state.Entry {
	if z.record == nil {
		return state.Entry{}
	}
	return state.Entry{Record: s.withResolvedIDs(clone(z.record)), Revision: state.Revision(z.mzxid)}
}

// withResolvedIDs fills in data of other records: the pools that declined a request, and the ID of a node's upload.
// s.mu is held.
func (s *Store) withResolvedIDs(record resources.Record) resources.Record {
	switch r := record.(type) {
	case *resources.Node:
		if hasPath(r) {
			r.Upload = s.cache.uploadAt(r.Upload)
		}
	case *resources.Request:
		for i, d := range r.Declined {
			if peer := s.cache.peers[d.PoolID]; whole(d) && d.Provider == "" && peer != nil {
				r.Declined[i].Provider, r.Declined[i].Pool = peer.Provider, peer.Pool
			}
		}
	}
	return record
}

func hasPath(n *resources.Node) bool { return strings.Contains(n.Upload, "/") }

// outgoing returns a copy of a record as it leaves the store.
func (s *Store) outgoing(record resources.Record) resources.Record {
	record = clone(record)
	switch r := record.(type) {
	case *resources.Node:
		if !hasPath(r) {
			return r
		}
	case *resources.Request:
		if len(r.Declined) == 0 {
			return r
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.withResolvedIDs(record)
}
