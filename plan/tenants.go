package plan

import (
	"fmt"
	"slices"

	"github.com/npctl/npctl/resources"
)

// tenants counts the resources that each tenant uses.
type tenants struct {
	world    *world
	use      map[string]resources.ResourceAmounts // empty without tenant limits
	reserved map[string]bool                      // tenants with a request that has waited long
}

func newTenants(w *world) *tenants {
	use := map[string]resources.ResourceAmounts{}
	t := &tenants{world: w, use: use, reserved: map[string]bool{}}
	if len(w.want.Settings.TenantLimits) == 0 {
		return t
	}
	for _, n := range t.world.seen.Records.Nodes {
		if n.Tenant != "" {
			use[n.Tenant] = Plus(use[n.Tenant], Amounts(n))
		}
	}
	for _, r := range t.world.seen.Records.Requests {
		if r.Tenant != "" && r.State == resources.StatePending {
			use[r.Tenant] = Plus(use[r.Tenant], t.pendingAmounts(r))
		}
	}
	for i := range t.world.seen.Serving {
		s := &t.world.seen.Serving[i]
		if r := t.world.requests[s.Request]; r != nil && r.Tenant != "" && r.State == resources.StateRequested {
			use[r.Tenant] = Plus(use[r.Tenant], t.serveAmounts(r, s))
		}
	}
	return t
}

// serveAmounts returns the resources of a request that a running step serves.
func (t *tenants) serveAmounts(r *resources.Request, s *Step) (all resources.ResourceAmounts) {
	left := []string{}
	for i, id := range s.Nodes {
		if n := t.world.node[id]; n != nil {
			all = Plus(all, Amounts(n))
		} else {
			left = append(left, r.Labels[i])
		}
	}
	return Plus(all, t.offered(poolKey{s.Provider, s.Pool}, left))
}

// pendingAmounts returns the resources of the nodes of a pending request that have no record yet.
func (t *tenants) pendingAmounts(r *resources.Request) resources.ResourceAmounts {
	left := slices.Clone(r.Labels)
	for _, n := range t.world.requestNodes[r.ID] {
		if i := slices.IndexFunc(left, func(label string) bool { return slices.Contains(n.Labels, label) }); i >= 0 {
			left = slices.Delete(left, i, i+1)
		}
	}
	return t.offered(poolKey{r.Placement.Provider, r.Placement.Pool}, left)
}

// offered returns the resources of new nodes with these labels in a pool.
func (t *tenants) offered(at poolKey, labels []string) (all resources.ResourceAmounts) {
	view, _ := t.world.view(at.provider)
	for _, label := range labels {
		each := view.Offers[OfferKey{at.pool, label}].Resources
		each.Instances = 1
		all = Plus(all, each)
	}
	return all
}

// tenantLimit returns the limits of the request's tenant, or nil if it has none.
func (t *tenants) tenantLimit(r *resources.Request) *resources.Pool {
	i := slices.IndexFunc(t.world.want.Settings.TenantLimits, func(l resources.TenantLimit) bool { return l.Tenant == r.Tenant })
	if i < 0 || r.Tenant == "" {
		return nil
	}
	l := t.world.want.Settings.TenantLimits[i]
	return &resources.Pool{MaxServers: l.MaxServers, MaxCores: l.MaxCores, MaxRAM: l.MaxRAM, MaxVolumes: l.MaxVolumes, MaxVolumeGB: l.MaxVolumeGB}
}

// overTenantLimit returns the limit of its tenant that the request would exceed now, or nil. After one request of the
// tenant has waited for reserveAfter, no other request of the tenant overtakes it.
func (t *tenants) overTenantLimit(r *resources.Request, o *option) *blocker {
	limit := t.tenantLimit(r)
	if limit == nil {
		return nil
	}
	if t.reserved[r.Tenant] {
		return &blocker{text: "the remaining capacity of tenant " + r.Tenant + " is reserved for a request that has waited longer"}
	}
	why := overLimits(limit, t.use[r.Tenant], t.requestAmounts(o))
	if why == nil {
		return nil
	}
	t.reserved[r.Tenant] = t.world.seen.Now.Sub(r.Created) >= reserveAfter
	return &blocker{text: fmt.Sprintf("tenant %s: %s", r.Tenant, why)}
}

// beyondTenant returns the limit of its tenant that the request would exceed even without other use, or nil.
func (t *tenants) beyondTenant(r *resources.Request, o *option) *blocker {
	if limit := t.tenantLimit(r); limit != nil {
		if why := overLimits(limit, resources.ResourceAmounts{}, t.requestAmounts(o)); why != nil {
			return &blocker{text: fmt.Sprintf("the request is too large for tenant %s: %s", r.Tenant, why)}
		}
	}
	return nil
}

// requestAmounts returns the resources of all nodes of the request.
func (t *tenants) requestAmounts(o *option) resources.ResourceAmounts {
	var all resources.ResourceAmounts
	for i, at := range o.offers {
		switch {
		case o.nodes[i] != "" && t.world.node[o.nodes[i]] != nil:
			all = Plus(all, Amounts(t.world.node[o.nodes[i]]))
		case at != nil:
			all = Plus(all, at.each)
		default:
			all.Instances++
		}
	}
	return all
}

// charge counts an accepted request as use of its tenant.
func (t *tenants) charge(r *resources.Request, o *option) {
	if r.Tenant != "" && len(t.world.want.Settings.TenantLimits) > 0 {
		t.use[r.Tenant] = Plus(t.use[r.Tenant], t.requestAmounts(o))
	}
}
