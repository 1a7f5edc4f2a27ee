package plan

import (
	"maps"
	"slices"
	"strings"

	"github.com/npctl/npctl/resources"
)

// Put adds a record at a revision, or replaces the record with the same key. The records of a kind are always sorted
// by ID, so that the same records produce the same plan; a store lists them in this order, so each one is appended.
// The planner uses only those of resources.PlannedKinds.
func (r *Records) Put(record resources.Record, revision uint64) {
	if r.Revisions == nil {
		r.Revisions = map[resources.Key]uint64{}
	}
	r.Revisions[record.Key()] = revision
	r.access(record.Key(), putRecord, record)
}

// Drop removes a record, if it exists.
func (r *Records) Drop(key resources.Key) {
	delete(r.Revisions, key)
	r.access(key, dropRecord, nil)
}

// Get returns a record, or nil.
func (r *Records) Get(key resources.Key) resources.Record { return r.access(key, getRecord, nil) }

// Clone returns a copy that Put and Drop do not change. The records themselves are shared.
func (r *Records) Clone() Records {
	return Records{Providers: slices.Clone(r.Providers), Images: slices.Clone(r.Images), Builds: slices.Clone(r.Builds),
		Uploads: slices.Clone(r.Uploads), Nodes: slices.Clone(r.Nodes), Requests: slices.Clone(r.Requests),
		Templates: slices.Clone(r.Templates), Sightings: slices.Clone(r.Sightings), Histories: slices.Clone(r.Histories),
		Trials:    slices.Clone(r.Trials),
		Revisions: maps.Clone(r.Revisions)}
}

// access is what accessByID does with a record.
type access int

const (
	getRecord access = iota
	putRecord
	dropRecord
)

// access gets, puts or drops a record in the list of its kind.
func (r *Records) access(key resources.Key, what access, record resources.Record) resources.Record {
	switch key.Kind {
	case resources.KindProvider:
		return accessByID(&r.Providers, key.ID, what, record)
	case resources.KindImage:
		return accessByID(&r.Images, key.ID, what, record)
	case resources.KindBuild:
		return accessByID(&r.Builds, key.ID, what, record)
	case resources.KindUpload:
		return accessByID(&r.Uploads, key.ID, what, record)
	case resources.KindNode:
		return accessByID(&r.Nodes, key.ID, what, record)
	case resources.KindRequest:
		return accessByID(&r.Requests, key.ID, what, record)
	case resources.KindTemplate:
		return accessByID(&r.Templates, key.ID, what, record)
	case resources.KindSighting:
		return accessByID(&r.Sightings, key.ID, what, record)
	case resources.KindHistory:
		return accessByID(&r.Histories, key.ID, what, record)
	case resources.KindTrial:
		return accessByID(&r.Trials, key.ID, what, record)
	default:
		return nil
	}
}

// accessByID returns the record that the list had, or nil.
func accessByID[R resources.Record](list *[]R, id string, what access, record resources.Record) (had resources.Record) {
	i, found := slices.BinarySearchFunc(*list, id, func(r R, id string) int { return strings.Compare(r.Key().ID, id) })
	if found {
		had = (*list)[i]
	}
	switch {
	case what == putRecord && found:
		(*list)[i] = record.(R)
	case what == putRecord:
		*list = slices.Insert(*list, i, record.(R))
	case what == dropRecord && found:
		*list = slices.Delete(*list, i, i+1)
	}
	return had
}
