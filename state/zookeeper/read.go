package zookeeper

import (
	"fmt"
	"slices"
	"strings"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

func (m *mirror) getShared(key resources.Key) (state.Entry, error) {
	m.mu.Lock()
	_, z := m.cache.find(key)
	var entry state.Entry
	if z != nil {
		entry = state.Entry{Record: z.record, Revision: state.Revision(z.mzxid)}
	}
	m.mu.Unlock()
	if entry.Record == nil {
		return entry, fmt.Errorf("%s: %w", key, state.ErrNotFound)
	}
	entry.Record = m.outgoing(entry.Record)
	return entry, nil
}

// listShared copies pointers under s.mu and the records after that.
func (m *mirror) listShared(kinds []resources.Kind) []state.Entry {
	var entries []state.Entry
	m.mu.Lock()
	for _, kind := range resources.Kinds() {
		if !shared(kind) || !slices.Contains(kinds, kind) {
			continue
		}
		for _, id := range m.cache.ids(kind) {
			_, z := m.cache.find(resources.Key{Kind: kind, ID: id})
			entries = append(entries, state.Entry{Record: z.record, Revision: state.Revision(z.mzxid)})
		}
	}
	m.mu.Unlock()
	for i := range entries {
		entries[i].Record = m.outgoing(entries[i].Record)
	}
	return entries
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

// outgoing returns a copy of a record as it leaves the store.
func (m *mirror) outgoing(record resources.Record) resources.Record {
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
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cache.withResolvedIDs(record)
}
