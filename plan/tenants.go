package plan

import (
	"fmt"
	"slices"

	"github.com/npctl/npctl/resources"
)

// tenantUse is what each tenant has of nodes.
func (c *computation) tenantUse() map[string]resources.Amounts {
	use := map[string]resources.Amounts{}
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
			use[r.Tenant] = plus(use[r.Tenant], c.promised(r))
		}
	}
	for i := range c.seen.Serving {
		s := &c.seen.Serving[i]
		if r := c.world.requests[s.Request]; r != nil && r.Tenant != "" && r.State == resources.StateRequested {
			use[r.Tenant] = plus(use[r.Tenant], c.given(r, s))
		}
	}
	return use
}

// given is what a request takes that a step is about to serve.
func (c *computation) given(r *resources.Request, s *Step) (all resources.Amounts) {
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

// promised is what those nodes of a pending request will take of which there is no record yet.
func (c *computation) promised(r *resources.Request) resources.Amounts {
	left := slices.Clone(r.Labels)
	for _, n := range c.world.owned[r.ID] {
		if i := slices.IndexFunc(left, func(label string) bool { return slices.Contains(n.Labels, label) }); i >= 0 {
			left = slices.Delete(left, i, i+1)
		}
	}
	return c.offered(poolKey{r.Place.Provider, r.Place.Pool}, left)
}

// offered is what new nodes with these labels take in a pool.
func (c *computation) offered(at poolKey, labels []string) (all resources.Amounts) {
	view, _ := c.view(at.provider)
	for _, label := range labels {
		each := view.Offers[OfferKey{at.pool, label}].Resources
		each.Instances = 1
		all = plus(all, each)
	}
	return all
}

// tenantLimit is what the tenant of a request may have; nil when that is not limited.
func (d *dispatch) tenantLimit(r *resources.Request) *resources.Pool {
	i := slices.IndexFunc(d.want.Settings.TenantLimits, func(l resources.TenantLimit) bool { return l.Tenant == r.Tenant })
	if i < 0 || r.Tenant == "" {
		return nil
	}
	l := d.want.Settings.TenantLimits[i]
	return &resources.Pool{MaxServers: l.MaxServers, MaxCores: l.MaxCores, MaxRAM: l.MaxRAM, MaxVolumes: l.MaxVolumes, MaxVolumeGB: l.MaxVolumeGB}
}

// overTenantLimit says which limit of its tenant the request would break now, or nothing. Once a request has waited long, no
// other of the tenant goes first.
func (d *dispatch) overTenantLimit(r *resources.Request, o *option) string {
	limit := d.tenantLimit(r)
	if limit == nil {
		return ""
	}
	if d.kept[r.Tenant] {
		return "what tenant " + r.Tenant + " may still use is kept for a request that has waited longer"
	}
	why := overLimits(limit, d.tenants[r.Tenant], d.whole(o))
	if why == nil {
		return ""
	}
	d.kept[r.Tenant] = d.seen.Now.Sub(r.Created) >= reserveAfter
	return fmt.Sprintf("tenant %s: %s", r.Tenant, why)
}

// beyondTenant says which limit of its tenant the request would break even if the tenant had nothing else, or nothing.
func (d *dispatch) beyondTenant(r *resources.Request, o *option) string {
	if limit := d.tenantLimit(r); limit != nil {
		if why := overLimits(limit, resources.Amounts{}, d.whole(o)); why != nil {
			return fmt.Sprintf("the request is too large for tenant %s: %s", r.Tenant, why)
		}
	}
	return ""
}

// whole is what all nodes of the request take together.
func (d *dispatch) whole(o *option) resources.Amounts {
	var all resources.Amounts
	for i, at := range o.places {
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

// charge counts what an accepted request takes against its tenant.
func (d *dispatch) charge(r *resources.Request, o *option) {
	if r.Tenant != "" && len(d.want.Settings.TenantLimits) > 0 {
		d.tenants[r.Tenant] = plus(d.tenants[r.Tenant], d.whole(o))
	}
}
