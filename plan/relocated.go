package plan

import (
	"fmt"
	"maps"

	"github.com/npctl/npctl/internal/text"
)

// withoutRelocated replaces the view of a provider by an error if its block leads to another location than that of
// its nodes and images, such as another project or region. In the new location all of them would look lost, while
// they continue to run unmanaged in the old one.
func withoutRelocated(seen Observed) Observed {
	made := map[string]int{}
	for _, n := range seen.Records.Nodes {
		made[n.Provider]++
	}
	for _, u := range seen.Records.Uploads {
		made[u.Provider]++
	}
	views := seen.Providers
	for _, r := range seen.Records.Providers {
		view, looked := views[r.Name]
		if !looked || view.Err != "" || view.Location == r.Location || view.Location == "" || r.Location == "" || made[r.Name] == 0 {
			continue
		}
		views = maps.Clone(views)
		views[r.Name] = ProviderView{Rejected: true, Location: r.Location, Err: fmt.Sprintf("it now connects to %s, and its %s are in %s; "+
			"add another provider block for the new location, and remove this block only with its earlier settings", view.Location, text.Count(made[r.Name], "object", "objects"), r.Location)}
	}
	seen.Providers = views
	return seen
}
