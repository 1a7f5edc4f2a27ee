package plan

import (
	"fmt"
	"slices"

	"github.com/npctl/npctl/resources"
)

// blocker is the reason why more nodes cannot be launched now, such as a limit. Its text is built on demand: the
// waits of most requests are never explained.
type blocker struct {
	text     string // if it is not a limit
	resource string
	limit    int64 // the limit; of a quota: the amount left
	needed   int64 // the amount in use; of a quota: the amount needed
	quota    bool
}

func (l *blocker) String() string {
	switch {
	case l.text != "":
		return l.text
	case l.quota:
		return fmt.Sprintf("quota: %d %s left and %d needed", max(l.limit, 0), l.resource, l.needed)
	default:
		return fmt.Sprintf("%s is %d and %d are taken", l.resource, l.limit, l.needed)
	}
}

// freeShare returns the free part of the pool's servers, from 0 to 1. For a pool without max_servers it uses the
// quota of the provider.
func (c *computation) freeShare(s *poolState, free map[string]*resources.ResourceAmounts) float64 {
	if s.pool.MaxServers != nil && *s.pool.MaxServers > 0 {
		used := c.pool(s.at.provider, s.at.pool).use.Instances
		return 1 - float64(used)/float64(*s.pool.MaxServers)
	}
	view, _ := c.view(s.at.provider)
	if left := free[s.at.provider]; left != nil && view.Quota.Limit.Instances > 0 {
		return float64(left.Instances) / float64(view.Quota.Limit.Instances)
	}
	return 1
}

// capacityBlocker returns the limit that leaves no capacity for one more node of the offer, or nil. Nodes that this
// plan deletes release their capacity.
func (c *computation) capacityBlocker(p *poolOffer, free map[string]*resources.ResourceAmounts) *blocker {
	pool := c.pool(p.at.provider, p.at.pool)
	if why := overLimits(p.pool, minus(pool.use, pool.leaving), p.each); why != nil {
		return why
	}
	if left := free[p.at.provider]; left != nil && !p.pool.IgnoreProviderQuota {
		return overQuota(plus(*left, pool.leaving), p.each)
	}
	return nil
}

// overLimits returns the limit of the pool that more nodes would exceed, or nil.
func overLimits(p *resources.Pool, use, more resources.ResourceAmounts) *blocker {
	over := func(limit *int64, use, more int64) bool { return limit != nil && more > 0 && use+more > *limit }
	switch {
	case over(p.MaxServers, use.Instances, more.Instances):
		return &blocker{resource: "max_servers", limit: *p.MaxServers, needed: use.Instances}
	case over(p.MaxCores, use.Cores, more.Cores):
		return &blocker{resource: "max_cores", limit: *p.MaxCores, needed: use.Cores}
	case over(p.MaxRAM, use.RAM, more.RAM):
		return &blocker{resource: "max_ram", limit: *p.MaxRAM, needed: use.RAM}
	case over(p.MaxVolumes, use.Volumes, more.Volumes):
		return &blocker{resource: "max_volumes", limit: *p.MaxVolumes, needed: use.Volumes}
	case over(p.MaxVolumeGB, use.VolumeGB, more.VolumeGB):
		return &blocker{resource: "max_volume_gb", limit: *p.MaxVolumeGB, needed: use.VolumeGB}
	default:
		return nil
	}
}

// overQuota returns the quota that has too little left, or nil.
func overQuota(left, more resources.ResourceAmounts) *blocker {
	switch {
	case more.Instances > left.Instances:
		return &blocker{resource: "instances", limit: left.Instances, needed: more.Instances, quota: true}
	case more.Cores > left.Cores:
		return &blocker{resource: "cores", limit: left.Cores, needed: more.Cores, quota: true}
	case more.RAM > left.RAM:
		return &blocker{resource: "ram", limit: left.RAM, needed: more.RAM, quota: true}
	case more.Volumes > left.Volumes:
		return &blocker{resource: "volumes", limit: left.Volumes, needed: more.Volumes, quota: true}
	case more.VolumeGB > left.VolumeGB:
		return &blocker{resource: "volume_gb", limit: left.VolumeGB, needed: more.VolumeGB, quota: true}
	case more.Addresses > left.Addresses:
		return &blocker{resource: "floating IPs", limit: left.Addresses, needed: more.Addresses, quota: true}
	default:
		return nil
	}
}

// freeQuota returns the remaining quota of each provider. Foreign instances count as used.
func (c *computation) freeQuota() map[string]*resources.ResourceAmounts {
	free := map[string]*resources.ResourceAmounts{}
	for name := range c.seen.Providers {
		view := c.seen.Providers[name]
		if view.Err != "" {
			continue
		}
		left := remaining(view.Quota.Limit, view.used())
		free[name] = &left
		c.sinceListing(name, &view, free[name])
	}
	return free
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
		listed = plus(listed, each)
	}
	used.Instances, used.Cores, used.RAM = max(used.Instances, listed.Instances), max(used.Cores, listed.Cores), max(used.RAM, listed.RAM)
	return used
}

// sinceListing accounts for changes that the cloud's figures do not show yet: nodes being launched, and instances
// deleted since the listing.
func (c *computation) sinceListing(provider string, view *ProviderView, free *resources.ResourceAmounts) {
	for _, n := range c.world.nodes[provider] {
		if !n.Static && c.deletedBy[n.Key()] == "" {
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
			*free = plus(*free, each)
		}
	}
}

// unseen returns the resources of a node that the cloud's figures do not include yet. Volumes and addresses of an
// instance appear some time after the instance.
func (c *computation) unseen(n *resources.Node) resources.ResourceAmounts {
	instance, shown := c.world.instances[n.ID]
	rest := amounts(n)
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
		*free = plus(*free, u.freed[step])
	}
}

// needsRelease reports whether one more node fits only after another one is deleted.
func (c *computation) needsRelease(at *poolOffer, use *poolUse, free map[string]*resources.ResourceAmounts) bool {
	if overLimits(at.pool, use.use, at.each) != nil {
		return true
	}
	l := free[at.at.provider]
	return l != nil && !at.pool.IgnoreProviderQuota && overQuota(*l, at.each) != nil
}

// OverLimits returns the limit of the pool that more would exceed in addition to use, or "".
func OverLimits(pool *resources.Pool, use, more resources.ResourceAmounts) string {
	if l := overLimits(pool, use, more); l != nil {
		return l.String()
	}
	return ""
}

// OverQuota returns the quota that has too little left for more, or "".
func OverQuota(q resources.Quota, more resources.ResourceAmounts) string {
	if l := overQuota(remaining(q.Limit, q.Used), more); l != nil {
		return l.String()
	}
	return ""
}

// Amounts returns the resources that a node uses, at least one instance.
func Amounts(n *resources.Node) resources.ResourceAmounts { return amounts(n) }

// Plus adds amounts.
func Plus(a, b resources.ResourceAmounts) resources.ResourceAmounts { return plus(a, b) }
