package plan

import (
	"maps"
	"slices"
	"strings"

	"github.com/npctl/npctl/resources"
)

// Put adds a record at a revision, or replaces the record with the same key. The records of a kind are always sorted
// by ID, so that the same records produce the same plan; a store lists them in this order, so each one is appended.
// The planner does not use journals.
func (r *Records) Put(record resources.Record, revision uint64) {
	if r.Revisions == nil {
		r.Revisions = map[resources.Key]uint64{}
	}
	r.Revisions[record.Key()] = revision
	switch record := record.(type) {
	case *resources.ProviderRecord:
		putByID(&r.Providers, record)
	case *resources.ImageRecord:
		putByID(&r.Images, record)
	case *resources.Build:
		putByID(&r.Builds, record)
	case *resources.Upload:
		putByID(&r.Uploads, record)
	case *resources.Node:
		putByID(&r.Nodes, record)
	case *resources.Request:
		putByID(&r.Requests, record)
	case *resources.Template:
		putByID(&r.Templates, record)
	case *resources.Sighting:
		putByID(&r.Sightings, record)
	case *resources.History:
		putByID(&r.Histories, record)
	}
}

// Drop removes a record, if it exists.
func (r *Records) Drop(key resources.Key) {
	delete(r.Revisions, key)
	switch key.Kind {
	case resources.KindProvider:
		dropByID(&r.Providers, key.ID)
	case resources.KindImage:
		dropByID(&r.Images, key.ID)
	case resources.KindBuild:
		dropByID(&r.Builds, key.ID)
	case resources.KindUpload:
		dropByID(&r.Uploads, key.ID)
	case resources.KindNode:
		dropByID(&r.Nodes, key.ID)
	case resources.KindRequest:
		dropByID(&r.Requests, key.ID)
	case resources.KindTemplate:
		dropByID(&r.Templates, key.ID)
	case resources.KindSighting:
		dropByID(&r.Sightings, key.ID)
	case resources.KindHistory:
		dropByID(&r.Histories, key.ID)
	}
}

// Get returns a record, or nil.
func (r *Records) Get(key resources.Key) resources.Record {
	switch key.Kind {
	case resources.KindProvider:
		return getByID(r.Providers, key.ID)
	case resources.KindImage:
		return getByID(r.Images, key.ID)
	case resources.KindBuild:
		return getByID(r.Builds, key.ID)
	case resources.KindUpload:
		return getByID(r.Uploads, key.ID)
	case resources.KindNode:
		return getByID(r.Nodes, key.ID)
	case resources.KindRequest:
		return getByID(r.Requests, key.ID)
	case resources.KindTemplate:
		return getByID(r.Templates, key.ID)
	case resources.KindSighting:
		return getByID(r.Sightings, key.ID)
	case resources.KindHistory:
		return getByID(r.Histories, key.ID)
	default:
		return nil
	}
}

// Clone returns a copy that Put and Drop do not change. The records themselves are shared.
func (r *Records) Clone() Records {
	return Records{Providers: slices.Clone(r.Providers), Images: slices.Clone(r.Images), Builds: slices.Clone(r.Builds),
		Uploads: slices.Clone(r.Uploads), Nodes: slices.Clone(r.Nodes), Requests: slices.Clone(r.Requests),
		Templates: slices.Clone(r.Templates), Sightings: slices.Clone(r.Sightings), Histories: slices.Clone(r.Histories),
		Revisions: maps.Clone(r.Revisions)}
}

func putByID[R resources.Record](list *[]R, record R) {
	i, found := placeByID(*list, record.Key().ID)
	if found {
		(*list)[i] = record
		return
	}
	*list = slices.Insert(*list, i, record)
}

func getByID[R resources.Record](list []R, id string) resources.Record {
	if i, found := placeByID(list, id); found {
		return list[i]
	}
	return nil
}

func dropByID[R resources.Record](list *[]R, id string) {
	if i, found := placeByID(*list, id); found {
		*list = slices.Delete(*list, i, i+1)
	}
}

func placeByID[R resources.Record](list []R, id string) (int, bool) {
	return slices.BinarySearchFunc(list, id, func(r R, id string) int { return strings.Compare(r.Key().ID, id) })
}
