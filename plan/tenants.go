package plan

import (
	"fmt"
	"slices"

	"github.com/npctl/npctl/resources"
)

// tenantUse returns the resources that each tenant uses; empty without tenant limits.
func (c *computation) tenantUse() map[string]resources.ResourceAmounts {
	use := map[string]resources.ResourceAmounts{}
	if len(c.want.Settings.TenantLimits) == 0 {
		return use
	}
	for _, n := range c.seen.Records.Nodes {
		if n.Tenant != "" {
			use[n.Tenant] = plus(use[n.Tenant], amounts(n))
		}
	}
	for _, r := range c.seen.Records.Requests {
		if r.Tenant != "" && r.State == resources.StatePending {
			use[r.Tenant] = plus(use[r.Tenant], c.pendingAmounts(r))
		}
	}
	for i := range c.seen.Serving {
		s := &c.seen.Serving[i]
		if r := c.world.requests[s.Request]; r != nil && r.Tenant != "" && r.State == resources.StateRequested {
			use[r.Tenant] = plus(use[r.Tenant], c.serveAmounts(r, s))
		}
	}
	return use
}

// serveAmounts returns the resources of a request that a running step serves.
func (c *computation) serveAmounts(r *resources.Request, s *Step) (all resources.ResourceAmounts) {
	left := []string{}
	for i, id := range s.Nodes {
		if n := c.world.node[id]; n != nil {
			all = plus(all, amounts(n))
		} else {
			left = append(left, r.Labels[i])
		}
	}
	return plus(all, c.offered(poolKey{s.Provider, s.Pool}, left))
}

// pendingAmounts returns the resources of the nodes of a pending request that have no record yet.
func (c *computation) pendingAmounts(r *resources.Request) resources.ResourceAmounts {
	left := slices.Clone(r.Labels)
	for _, n := range c.world.requestNodes[r.ID] {
		if i := slices.IndexFunc(left, func(label string) bool { return slices.Contains(n.Labels, label) }); i >= 0 {
			left = slices.Delete(left, i, i+1)
		}
	}
	return c.offered(poolKey{r.Placement.Provider, r.Placement.Pool}, left)
}

// offered returns the resources of new nodes with these labels in a pool.
func (c *computation) offered(at poolKey, labels []string) (all resources.ResourceAmounts) {
	view, _ := c.view(at.provider)
	for _, label := range labels {
		each := view.Offers[OfferKey{at.pool, label}].Resources
		each.Instances = 1
		all = plus(all, each)
	}
	return all
}

// tenantLimit returns the limits of the request's tenant, or nil if it has none.
func (d *dispatch) tenantLimit(r *resources.Request) *resources.Pool {
	i := slices.IndexFunc(d.want.Settings.TenantLimits, func(l resources.TenantLimit) bool { return l.Tenant == r.Tenant })
	if i < 0 || r.Tenant == "" {
		return nil
	}
	l := d.want.Settings.TenantLimits[i]
	return &resources.Pool{MaxServers: l.MaxServers, MaxCores: l.MaxCores, MaxRAM: l.MaxRAM, MaxVolumes: l.MaxVolumes, MaxVolumeGB: l.MaxVolumeGB}
}

// overTenantLimit returns the limit of its tenant that the request would exceed now, or "". After one request of the
// tenant has waited for reserveAfter, no other request of the tenant overtakes it.
func (d *dispatch) overTenantLimit(r *resources.Request, o *option) string {
	limit := d.tenantLimit(r)
	if limit == nil {
		return ""
	}
	if d.reservedTenants[r.Tenant] {
		return "the remaining capacity of tenant " + r.Tenant + " is reserved for a request that has waited longer"
	}
	why := overLimits(limit, d.tenants[r.Tenant], d.requestAmounts(o))
	if why == nil {
		return ""
	}
	d.reservedTenants[r.Tenant] = d.seen.Now.Sub(r.Created) >= reserveAfter
	return fmt.Sprintf("tenant %s: %s", r.Tenant, why)
}

// beyondTenant returns the limit of its tenant that the request would exceed even without other use, or "".
func (d *dispatch) beyondTenant(r *resources.Request, o *option) string {
	if limit := d.tenantLimit(r); limit != nil {
		if why := overLimits(limit, resources.ResourceAmounts{}, d.requestAmounts(o)); why != nil {
			return fmt.Sprintf("the request is too large for tenant %s: %s", r.Tenant, why)
		}
	}
	return ""
}

// requestAmounts returns the resources of all nodes of the request.
func (d *dispatch) requestAmounts(o *option) resources.ResourceAmounts {
	var all resources.ResourceAmounts
	for i, at := range o.offers {
		switch {
		case o.nodes[i] != "" && d.world.node[o.nodes[i]] != nil:
			all = plus(all, amounts(d.world.node[o.nodes[i]]))
		case at != nil:
			all = plus(all, at.each)
		default:
			all.Instances++
		}
	}
	return all
}

// charge counts an accepted request as use of its tenant.
func (d *dispatch) charge(r *resources.Request, o *option) {
	if r.Tenant != "" && len(d.want.Settings.TenantLimits) > 0 {
		d.tenants[r.Tenant] = plus(d.tenants[r.Tenant], d.requestAmounts(o))
	}
}
