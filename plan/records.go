package plan

import (
	"cmp"
	"slices"

	"github.com/npctl/npctl/resources"
)

// Add sorts a record under its kind. Journals are not the planner's business.
func (r *Records) Add(record resources.Record) {
	switch record := record.(type) {
	case *resources.ProviderRecord:
		r.Providers = append(r.Providers, record)
	case *resources.ImageRecord:
		r.Images = append(r.Images, record)
	case *resources.Build:
		r.Builds = append(r.Builds, record)
	case *resources.Upload:
		r.Uploads = append(r.Uploads, record)
	case *resources.Node:
		r.Nodes = append(r.Nodes, record)
	case *resources.Request:
		r.Requests = append(r.Requests, record)
	case *resources.Template:
		r.Templates = append(r.Templates, record)
	case *resources.Sighting:
		r.Sightings = append(r.Sightings, record)
	case *resources.History:
		r.Histories = append(r.Histories, record)
	}
}

// Sort puts the records in the order in which a store lists them, so that the same records make the same plan.
func (r *Records) Sort() {
	sortByID(r.Providers)
	sortByID(r.Images)
	sortByID(r.Builds)
	sortByID(r.Uploads)
	sortByID(r.Nodes)
	sortByID(r.Requests)
	sortByID(r.Templates)
	sortByID(r.Sightings)
	sortByID(r.Histories)
}

func sortByID[R resources.Record](list []R) {
	slices.SortFunc(list, func(a, b R) int { return cmp.Compare(a.Key().ID, b.Key().ID) })
}
