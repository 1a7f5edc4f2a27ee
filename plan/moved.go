package plan

import (
	"fmt"
	"maps"
)

// withoutMoved sets aside what was seen of providers whose block leads to another place than the one in which their
// nodes and images were made, such as another project or region. In the new place all of them would look lost, while
// they go on running in the old one with nobody who knows of them.
func withoutMoved(seen Observed) Observed {
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
		if !looked || view.Err != "" || view.Place == r.Place || view.Place == "" || r.Place == "" || made[r.Name] == 0 {
			continue
		}
		views = maps.Clone(views)
		views[r.Name] = ProviderView{Rejected: true, Place: r.Place, Err: fmt.Sprintf("it leads to %s now, and %s made by it are in %s; "+
			"give the new place a provider block of its own, and remove this one as it was", view.Place, plural(made[r.Name], "thing"), r.Place)}
	}
	seen.Providers = views
	return seen
}
