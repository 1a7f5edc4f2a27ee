package plan

import (
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

func newCapacity(w *world) *capacity {
	return &capacity{world: w, pools: map[poolKey]*poolUse{}, free: map[string]*resources.ResourceAmounts{}, readyCount: map[string]int{}}
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
	pool.use = Plus(pool.use, Amounts(n))
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
	if why := overLimits(p.pool, minus(pool.use, pool.leaving), p.each); why != nil {
		return why
	}
	if left := c.free[p.at.provider]; left != nil && !p.pool.IgnoreProviderQuota {
		return overQuota(Plus(*left, pool.leaving), p.each)
	}
	return nil
}

// setQuota sets the remaining quota of each provider. Foreign instances count as used, and deletedBy names the records
// that the plan deletes.
func (c *capacity) setQuota(deletedBy map[resources.Key]string) {
	for name := range c.world.seen.Providers {
		view := c.world.seen.Providers[name]
		if view.Err != "" {
			continue
		}
		left := remaining(view.Quota.Limit, view.used())
		c.free[name] = &left
		c.sinceListing(name, &view, deletedBy)
	}
}

// remaining returns the limits minus the used amounts; an unlimited amount counts as 1<<40.
func remaining(limit, used resources.ResourceAmounts) resources.ResourceAmounts {
	left := func(limit, used int64) int64 {
		if limit == resources.Unlimited {
			return 1 << 40
		}
		return limit - used
	}
	return resources.ResourceAmounts{Instances: left(limit.Instances, used.Instances), Cores: left(limit.Cores, used.Cores),
		RAM: left(limit.RAM, used.RAM), Volumes: left(limit.Volumes, used.Volumes),
		VolumeGB: left(limit.VolumeGB, used.VolumeGB), Addresses: left(limit.Addresses, used.Addresses)}
}

// used returns the use of the project. The cloud's figures are read after the listing, and instances may be deleted
// in between: listed instances count, and sinceListing gives back the known deletions.
func (v *ProviderView) used() resources.ResourceAmounts {
	used := v.Quota.Used
	var listed resources.ResourceAmounts
	for i := range v.Instances {
		each := v.Instances[i].Resources
		each.Instances = max(each.Instances, 1)
		listed = Plus(listed, each)
	}
	used.Instances, used.Cores, used.RAM = max(used.Instances, listed.Instances), max(used.Cores, listed.Cores), max(used.RAM, listed.RAM)
	return used
}

// sinceListing accounts for changes that the cloud's figures do not show yet: nodes being launched, and instances
// deleted since the listing.
func (c *capacity) sinceListing(provider string, view *ProviderView, deletedBy map[resources.Key]string) {
	free := c.free[provider]
	for _, n := range c.world.nodes[provider] {
		if !n.Static && deletedBy[n.Key()] == "" {
			*free = minus(*free, c.unseen(n))
		}
	}
	if len(view.DeletedInstances) == 0 {
		return
	}
	for i := range view.Instances {
		if instance := &view.Instances[i]; view.DeletedInstances[instance.ID] {
			each := instance.Resources
			each.Instances = max(each.Instances, 1)
			if view.DeletingInstances[instance.ID] {
				each = computeOnly(each)
			}
			*free = Plus(*free, each)
		}
	}
}

// unseen returns the resources of a node that the cloud's figures do not include yet. Volumes and addresses of an
// instance appear some time after the instance.
func (c *capacity) unseen(n *resources.Node) resources.ResourceAmounts {
	instance, shown := c.world.instances[n.ID]
	rest := Amounts(n)
	switch {
	case !shown:
		return rest
	case instance.Status != resources.StatusPending:
		return resources.ResourceAmounts{}
	}
	return resources.ResourceAmounts{Volumes: rest.Volumes, VolumeGB: rest.VolumeGB, Addresses: max(rest.Addresses-instance.Resources.Addresses, 0)}
}

// computeOnly omits volumes and addresses: a cloud detaches them before the instance is gone, so the figures may
// already be without them.
func computeOnly(a resources.ResourceAmounts) resources.ResourceAmounts {
	return resources.ResourceAmounts{Instances: a.Instances, Cores: a.Cores, RAM: a.RAM}
}

// claim removes a delete step from the list of steps that a launch may wait for.
func (u *poolUse) claim(step string) {
	if i := slices.Index(u.frees, step); i >= 0 {
		u.frees = slices.Delete(u.frees, i, i+1)
		u.leaving = minus(u.leaving, u.freed[step])
	}
}

// release frees the capacity of a node that the step deletes before the launch.
func (u *poolUse) release(step string, free *resources.ResourceAmounts) {
	u.use = minus(u.use, u.freed[step])
	if free != nil {
		*free = Plus(*free, u.freed[step])
	}
}

// needsRelease reports whether one more node fits only after another one is deleted.
func (c *capacity) needsRelease(at *poolOffer, use *poolUse) bool {
	if overLimits(at.pool, use.use, at.each) != nil {
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

// Plus adds amounts.
func Plus(a, b resources.ResourceAmounts) resources.ResourceAmounts {
	return resources.ResourceAmounts{Instances: a.Instances + b.Instances, Cores: a.Cores + b.Cores, RAM: a.RAM + b.RAM,
		Volumes: a.Volumes + b.Volumes, VolumeGB: a.VolumeGB + b.VolumeGB, Addresses: a.Addresses + b.Addresses}
}

func minus(a, b resources.ResourceAmounts) resources.ResourceAmounts {
	return resources.ResourceAmounts{Instances: a.Instances - b.Instances, Cores: a.Cores - b.Cores, RAM: a.RAM - b.RAM,
		Volumes: a.Volumes - b.Volumes, VolumeGB: a.VolumeGB - b.VolumeGB, Addresses: a.Addresses - b.Addresses}
}
