package zookeeper

import (
	"maps"
	"slices"

	"github.com/npctl/npctl/resources"
)

// clone returns a copy of a shared record that shares no memory with the cache.
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
		c.Former = slices.Clone(r.Former)
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

// knownState reports whether resources.LegalTransition has rules for a state. Other programs may write further states.
func knownState(kind resources.Kind, s resources.State) bool {
	return resources.LegalTransition(kind, s, resources.StateDeleting) || resources.LegalTransition(kind, s, resources.StateFailed) ||
		resources.LegalTransition(kind, s, resources.StateReady)
}
