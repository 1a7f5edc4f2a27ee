package zookeeper

import (
	"maps"
	"slices"

	"github.com/npctl/npctl/resources"
)

// clone returns a record that shares nothing with the one in the cache.
func clone(record resources.Record) resources.Record {
	switch r := record.(type) {
	case *resources.Request:
		c := *r
		c.Labels, c.Data, c.Nodes, c.Declined = slices.Clone(r.Labels), slices.Clone(r.Data), slices.Clone(r.Nodes), slices.Clone(r.Declined)
		return &c
	case *resources.Node:
		c := *r
		c.Labels, c.HostKeys, c.Attributes = slices.Clone(r.Labels), slices.Clone(r.HostKeys), maps.Clone(r.Attributes)
		if r.Lease != nil {
			lease := *r.Lease
			c.Lease = &lease
		}
		return &c
	case *resources.Build:
		c := *r
		c.Files, c.Extra = slices.Clone(r.Files), maps.Clone(r.Extra)
		return &c
	case *resources.Upload:
		c := *r
		return &c
	default:
		return record
	}
}

func shared(kind resources.Kind) bool {
	switch kind {
	case resources.KindRequest, resources.KindNode, resources.KindBuild, resources.KindUpload:
		return true
	default:
		return false
	}
}

func stateOf(record resources.Record) resources.State {
	switch r := record.(type) {
	case *resources.Node:
		return r.State
	case *resources.Build:
		return r.State
	case *resources.Upload:
		return r.State
	case *resources.Request:
		return r.State
	default:
		return ""
	}
}

func setID(record resources.Record, id string) {
	switch r := record.(type) {
	case *resources.Node:
		r.ID = id
	case *resources.Upload:
		r.ID = id
	case *resources.Request:
		r.ID = id
	case *resources.Journal:
		r.ID = id
	}
}

// withID returns a copy of the record that has the id.
func withID(record resources.Record, id string) resources.Record {
	record = clone(record)
	setID(record, id)
	return record
}

// setsID says whether the store gives ids to new records of the kind.
func setsID(kind resources.Kind) bool {
	return kind == resources.KindNode || kind == resources.KindUpload || kind == resources.KindRequest || kind == resources.KindJournal
}

// knownStates are those that resources.LegalMove knows of; others may have written others.
func knownState(kind resources.Kind, s resources.State) bool {
	return resources.LegalMove(kind, s, resources.StateDeleting) || resources.LegalMove(kind, s, resources.StateFailed) ||
		resources.LegalMove(kind, s, resources.StateReady)
}
