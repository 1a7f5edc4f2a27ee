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
	return use
}

// overTenantLimit says which limit of its tenant the request would break now, or nothing.
func (d *dispatch) overTenantLimit(r *resources.Request, o *option) string {
	i := slices.IndexFunc(d.want.Settings.TenantLimits, func(l resources.TenantLimit) bool { return l.Tenant == r.Tenant })
	if i < 0 || r.Tenant == "" {
		return ""
	}
	l := d.want.Settings.TenantLimits[i]
	as := &resources.Pool{MaxServers: l.MaxServers, MaxCores: l.MaxCores, MaxRAM: l.MaxRAM}
	if why := overLimits(as, d.tenants[r.Tenant], d.whole(o)); why != nil {
		return fmt.Sprintf("tenant %s: %s", r.Tenant, why)
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
