package plan

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/npctl/npctl/resources"
)

// capacity is the use of pools and quotas by the nodes that exist, stay and are planned, and the number of nodes that
// count towards min_ready.
type capacity struct {
	world      *world
	pools      map[poolKey]*poolUse
	free       map[string]*resources.ResourceAmounts // by provider: the remaining quota
	readyCount map[string]int                        // by label
}

// poolUse is the resources that the nodes of a pool use, and the steps that will free some of them.
type poolUse struct {
	use     resources.ResourceAmounts
	frees   []string                             // delete steps that no launch relies on yet
	leaving resources.ResourceAmounts            // the resources that those will free together
	going   resources.ResourceAmounts            // the resources of nodes that are being deleted or returned now
	freed   map[string]resources.ResourceAmounts // by delete step, including claimed ones: the resources that it will free
}

func (c *capacity) pool(provider, pool string) *poolUse {
	key := poolKey{provider, pool}
	if c.pools[key] == nil {
		c.pools[key] = &poolUse{freed: map[string]resources.ResourceAmounts{}}
	}
	return c.pools[key]
}

// count adds a node that stays to the use of its pool.
func (c *capacity) count(n *resources.Node) {
	pool := c.pool(n.Provider, n.Pool)
	pool.use = pool.use.Plus(Amounts(n))
}

// freeShare returns the free part of the pool's servers, from 0 to 1. For a pool without max_servers it uses the
// quota of the provider.
func (c *capacity) freeShare(s *poolState) float64 {
	if s.pool.MaxServers != nil && *s.pool.MaxServers > 0 {
		used := c.pool(s.at.provider, s.at.pool).use.Instances
		return 1 - float64(used)/float64(*s.pool.MaxServers)
	}
	view, _ := c.world.view(s.at.provider)
	if left := c.free[s.at.provider]; left != nil && view.Quota.Limit.Instances > 0 {
		return float64(left.Instances) / float64(view.Quota.Limit.Instances)
	}
	return 1
}

// capacityBlocker returns the limit that leaves no capacity for one more node of the offer, or nil. Nodes that this
// plan deletes release their capacity.
func (c *capacity) capacityBlocker(p *poolOffer) *blocker {
	pool := c.pool(p.at.provider, p.at.pool)
	if why := overLimits(&p.pool.Limits, pool.use.Minus(pool.leaving), p.each); why != nil {
		return why
	}
	if left := c.free[p.at.provider]; left != nil && !p.pool.IgnoreProviderQuota {
		return overQuota(left.Plus(pool.leaving), p.each)
	}
	return nil
}

// setQuota sets the remaining quota of each provider. deletedBy names the records that the plan deletes.
func (c *capacity) setQuota(deletedBy map[resources.Key]string) {
	for name := range c.world.seen.Providers {
		view := c.world.seen.Providers[name]
		if view.Err != "" {
			continue
		}
		staying := func(yield func(*resources.Node) bool) {
			for _, n := range c.world.nodes[name] {
				if deletedBy[n.Key()] == "" && !yield(n) {
					return
				}
			}
		}
		left := remaining(view.Quota.Limit, view.used(staying, c.world.instances))
		for _, offer := range view.Offers { // sums keep a resource without limit unlimited
			for other := range offer.Resources.Other {
				if _, limited := left.Other[other]; !limited {
					left.Other = maps.Clone(left.Other)
					if left.Other == nil {
						left.Other = map[string]int64{}
					}
					left.Other[other] = noLimit
				}
			}
		}
		c.free[name] = &left
	}
}

// Quota returns the quota of a provider and how much of it is in use now, with the nodes that are being launched.
func (o *Observed) Quota(provider string) resources.Quota {
	view, shown, byServer := o.Providers[provider], map[string]*resources.Instance{}, map[string]*resources.Instance{}
	for i := range view.Instances {
		byServer[view.Instances[i].ID] = &view.Instances[i]
		if marks := view.Instances[i].Marks; marks.Installation == o.Installation && marks.Kind == resources.KindNode {
			shown[marks.ID] = &view.Instances[i]
		}
	}
	var nodes []*resources.Node
	for _, n := range o.Records.Nodes {
		if n.Provider != provider {
			continue
		}
		nodes = append(nodes, n)
		if imported := byServer[n.ExternalID]; imported != nil {
			shown[n.ID] = imported
		}
	}
	return resources.Quota{Limit: view.Quota.Limit, Used: view.used(slices.Values(nodes), shown)}
}

// used returns the amounts of the quota in use: those of the cloud or of the listed instances, whichever is more, because
// instances may be deleted between both; then changes since the listing: nodes that it does not show yet, and deleted
// instances. shown holds the listed instances by node ID.
func (v *ProviderView) used(nodes iter.Seq[*resources.Node], shown map[string]*resources.Instance) resources.ResourceAmounts {
	used := v.Quota.Used
	var listed, deleted resources.ResourceAmounts
	for i := range v.Instances {
		instance := &v.Instances[i]
		each := instance.Resources
		each.Instances = max(each.Instances, 1)
		listed = listed.Plus(each)
		switch {
		case v.DeletingInstances[instance.ID]:
			deleted = deleted.Plus(computeOnly(each))
		case v.DeletedInstances[instance.ID]:
			deleted = deleted.Plus(each)
		}
	}
	used.Instances, used.Cores, used.RAM = max(used.Instances, listed.Instances), max(used.Cores, listed.Cores), max(used.RAM, listed.RAM)
	for n := range nodes {
		instance := shown[n.ID]
		switch {
		case n.Static:
		case instance == nil:
			used = used.Plus(Amounts(n))
		case instance.Status == resources.StatusPending: // its volumes and addresses appear some time after it
			each := Amounts(n)
			used = used.Plus(resources.ResourceAmounts{Volumes: each.Volumes, VolumeGB: each.VolumeGB,
				Addresses: max(each.Addresses-instance.Resources.Addresses, 0)})
		}
	}
	return used.Minus(deleted)
}

const noLimit = 1 << 40

// remaining returns the limits minus the used amounts; an unlimited amount counts as noLimit.
func remaining(limit, used resources.ResourceAmounts) resources.ResourceAmounts {
	left := func(limit, used int64) int64 {
		if limit == resources.Unlimited {
			return noLimit
		}
		return limit - used
	}
	rest := resources.ResourceAmounts{Instances: left(limit.Instances, used.Instances), Cores: left(limit.Cores, used.Cores),
		RAM: left(limit.RAM, used.RAM), Volumes: left(limit.Volumes, used.Volumes),
		VolumeGB: left(limit.VolumeGB, used.VolumeGB), Addresses: left(limit.Addresses, used.Addresses)}
	for name, n := range limit.Other {
		if rest.Other == nil {
			rest.Other = make(map[string]int64, len(limit.Other))
		}
		rest.Other[name] = left(n, used.Other[name])
	}
	return rest
}

// computeOnly omits volumes and addresses: a cloud detaches them before the instance is gone, so the figures may
// already be without them.
func computeOnly(a resources.ResourceAmounts) resources.ResourceAmounts {
	return resources.ResourceAmounts{Instances: a.Instances, Cores: a.Cores, RAM: a.RAM}
}

// willFree adds a step that will free resources in use.
func (u *poolUse) willFree(step string, amounts resources.ResourceAmounts) {
	u.frees, u.leaving, u.freed[step] = append(u.frees, step), u.leaving.Plus(amounts), amounts
}

// claim removes a delete step from the list of steps that a launch may wait for.
func (u *poolUse) claim(step string) {
	if i := slices.Index(u.frees, step); i >= 0 {
		u.frees = slices.Delete(u.frees, i, i+1)
		u.leaving = u.leaving.Minus(u.freed[step])
	}
}

// release frees the capacity of a node that the step deletes before the launch.
func (u *poolUse) release(step string, free *resources.ResourceAmounts) {
	u.use = u.use.Minus(u.freed[step])
	if free != nil {
		*free = free.Plus(u.freed[step])
	}
}

// take uses the capacity of one node of the offer for the launch in a step. The step waits for as many steps that free capacity as it
// needs.
func (c *capacity) take(s *Step, at *poolOffer) {
	use, free := c.pool(at.at.provider, at.at.pool), c.free[at.at.provider]
	for len(use.frees) > 0 && c.needsRelease(at, use) {
		first := use.frees[0]
		s.Needs = append(s.Needs, first)
		use.claim(first)
		use.release(first, free)
	}
	use.use = use.use.Plus(at.each)
	if free != nil {
		*free = free.Minus(at.each)
	}
}

// needsRelease reports whether one more node fits only after another one is deleted.
func (c *capacity) needsRelease(at *poolOffer, use *poolUse) bool {
	if overLimits(&at.pool.Limits, use.use, at.each) != nil {
		return true
	}
	l := c.free[at.at.provider]
	return l != nil && !at.pool.IgnoreProviderQuota && overQuota(*l, at.each) != nil
}

// Amounts returns the resources that a node uses, at least one instance.
func Amounts(n *resources.Node) resources.ResourceAmounts {
	a := n.Resources
	a.Instances = max(a.Instances, 1)
	return a
}

// tenants counts the resources that each tenant uses.
type tenants struct {
	world    *world
	limits   map[string]*resources.Limits         // by tenant
	use      map[string]resources.ResourceAmounts // by tenant; only with limits
	reserved map[string]bool                      // tenants with a request that has waited long
}

func newTenants(w *world) *tenants {
	use := map[string]resources.ResourceAmounts{}
	t := &tenants{world: w, limits: map[string]*resources.Limits{}, use: use, reserved: map[string]bool{}}
	if len(w.want.Settings.TenantLimits) == 0 {
		return t
	}
	for _, l := range w.want.Settings.TenantLimits {
		if l.Tenant != "" && t.limits[l.Tenant] == nil {
			t.limits[l.Tenant] = &l.Limits
		}
	}
	for _, n := range t.world.seen.Records.Nodes {
		if n.Tenant != "" {
			use[n.Tenant] = use[n.Tenant].Plus(Amounts(n))
		}
	}
	for _, r := range t.world.seen.Records.Requests {
		if r.Tenant != "" && r.State == resources.StatePending {
			use[r.Tenant] = use[r.Tenant].Plus(t.pendingAmounts(r))
		}
	}
	for i := range t.world.seen.Serving {
		s := &t.world.seen.Serving[i]
		if r := t.world.requests[s.Request]; r != nil && r.Tenant != "" && r.State == resources.StateRequested {
			use[r.Tenant] = use[r.Tenant].Plus(t.serveAmounts(r, s))
		}
	}
	return t
}

// TenantUse returns the resources of each tenant that count against its limits. It is empty without limits.
func TenantUse(want resources.Desired, seen Observed) map[string]resources.ResourceAmounts {
	return newTenants(newWorld(want, seen, Options{})).use
}

// serveAmounts returns the resources of a request that a running step serves.
func (t *tenants) serveAmounts(r *resources.Request, s *Step) (all resources.ResourceAmounts) {
	left := []string{}
	for i, id := range s.Nodes {
		if n := t.world.node[id]; n != nil {
			all = all.Plus(Amounts(n))
		} else {
			left = append(left, r.Labels[i])
		}
	}
	return all.Plus(t.offered(poolKey{s.Provider, s.Pool}, left))
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
		all = all.Plus(each)
	}
	return all
}

// overTenantLimit returns the limit of its tenant that the request would exceed now, or nil. After one request of the
// tenant has waited for reserveAfter, no other request of the tenant overtakes it.
func (t *tenants) overTenantLimit(r *resources.Request, o *option) *blocker {
	limit := t.limits[r.Tenant]
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

// requestAmounts returns the resources of all nodes of the request.
func (t *tenants) requestAmounts(o *option) resources.ResourceAmounts {
	var all resources.ResourceAmounts
	for i, at := range o.offers {
		switch {
		case o.nodes[i] != "" && t.world.node[o.nodes[i]] != nil:
			all = all.Plus(Amounts(t.world.node[o.nodes[i]]))
		case at != nil:
			all = all.Plus(at.each)
		default:
			all.Instances++
		}
	}
	return all
}
