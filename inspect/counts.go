package inspect

import (
	"slices"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// ServingPool is a pool that serves requests, of this process or another one.
type ServingPool struct {
	Provider, Name string
	Labels         []string
}

// ServingPools returns the registered pools of all processes, in a local state the configured ones.
func (w *Fleet) ServingPools() (all []ServingPool) {
	if w.Observed.Shared {
		for i := range w.Observed.RegisteredPools {
			r := &w.Observed.RegisteredPools[i]
			all = append(all, ServingPool{r.Provider, r.Pool, r.Labels})
		}
		return all
	}
	for i := range w.Desired.Providers {
		provider := &w.Desired.Providers[i]
		for j := range provider.Pools {
			all = append(all, ServingPool{provider.Name, provider.Pools[j].Name, provider.Pools[j].LabelNames()})
		}
	}
	return all
}

// CountAddressable returns the number of open requests that the pool could serve: it offers all their labels.
func (p ServingPool) CountAddressable(requests []*resources.Request) (n int) {
	for _, r := range requests {
		if r.IsOpen() && !slices.ContainsFunc(r.Labels, func(label string) bool { return !slices.Contains(p.Labels, label) }) {
			n++
		}
	}
	return n
}

// HasBuildRequest reports whether an image has a build request that no running step works on.
func HasBuildRequest(o *plan.Observed, running []plan.Step, image string) bool {
	return slices.Contains(o.RequestedBuilds, image) && !Runs(running, plan.ActionBuild, image, "")
}

// Runs reports whether a build of an image, or its upload to a provider, is among the steps.
func Runs(steps []plan.Step, action plan.Action, image, provider string) bool {
	return slices.ContainsFunc(steps, func(s plan.Step) bool { return s.Action == action && s.Image == image && s.Provider == provider })
}

// RequestorOf returns the requestor of a request, plan.MinReadyRequestor without a request, and "" if the request is gone.
func RequestorOf(o *plan.Observed, request string) string {
	if request == "" {
		return plan.MinReadyRequestor
	}
	i := slices.IndexFunc(o.Records.Requests, func(r *resources.Request) bool { return r.ID == request })
	if i < 0 {
		return ""
	}
	return o.Records.Requests[i].Requestor
}
