package plan

import (
	"fmt"
	"slices"

	"github.com/npctl/npctl/resources"
)

// freeShare is the part of the pool's servers that is free, from 0 to 1. A pool without limit counts by its provider's
// quota.
func (c *computation) freeShare(p *place, free map[string]*resources.Amounts) float64 {
	if p.pool.MaxServers != nil && *p.pool.MaxServers > 0 {
		used := c.pool(p.provider.Name, p.pool.Name).use.Instances
		return 1 - float64(used)/float64(*p.pool.MaxServers)
	}
	view, _ := c.view(p.provider.Name)
	if left := free[p.provider.Name]; left != nil && view.Quota.Limit.Instances > 0 {
		return float64(left.Instances) / float64(view.Quota.Limit.Instances)
	}
	return 1
}

// refusal says which limit leaves no room for one more node there, or nothing. Nodes that this plan deletes make room.
func (c *computation) refusal(p *place, free map[string]*resources.Amounts) string {
	pool := c.pool(p.provider.Name, p.pool.Name)
	if why := overLimits(p.pool, minus(pool.use, pool.leaving), p.each); why != "" {
		return why
	}
	if left := free[p.provider.Name]; left != nil && !p.pool.IgnoreProviderQuota {
		return overQuota(plus(*left, pool.leaving), p.each)
	}
	return ""
}

// overLimits says which limit of the pool one more node would break, or nothing.
func overLimits(p *resources.Pool, use, each resources.Amounts) string {
	for _, l := range []struct {
		name      string
		limit     *int64
		use, each int64
	}{
		{"max_servers", p.MaxServers, use.Instances, each.Instances},
		{"max_cores", p.MaxCores, use.Cores, each.Cores},
		{"max_ram", p.MaxRAM, use.RAM, each.RAM},
		{"max_volumes", p.MaxVolumes, use.Volumes, each.Volumes},
		{"max_volume_gb", p.MaxVolumeGB, use.VolumeGB, each.VolumeGB},
	} {
		if l.limit != nil && l.each > 0 && l.use+l.each > *l.limit {
			return fmt.Sprintf("%s is %d and %d are taken", l.name, *l.limit, l.use)
		}
	}
	return ""
}

func overQuota(left, each resources.Amounts) string {
	for _, q := range []struct {
		name       string
		left, each int64
	}{
		{"instances", left.Instances, each.Instances}, {"cores", left.Cores, each.Cores}, {"ram", left.RAM, each.RAM},
		{"volumes", left.Volumes, each.Volumes}, {"volume_gb", left.VolumeGB, each.VolumeGB},
		{"floating IPs", left.Addresses, each.Addresses},
	} {
		if q.each > q.left {
			return fmt.Sprintf("quota: %d %s left and %d needed", max(q.left, 0), q.name, q.each)
		}
	}
	return ""
}

// freeQuota is what each provider's quota leaves, whoever uses the rest; what has no limit counts as plenty.
func (c *computation) freeQuota() map[string]*resources.Amounts {
	free := map[string]*resources.Amounts{}
	for name, view := range c.seen.Providers {
		if view.Err != "" {
			continue
		}
		limit, used := view.Quota.Limit, view.Quota.Used
		free[name] = &resources.Amounts{
			Instances: left(limit.Instances, used.Instances), Cores: left(limit.Cores, used.Cores),
			RAM: left(limit.RAM, used.RAM), Volumes: left(limit.Volumes, used.Volumes),
			VolumeGB: left(limit.VolumeGB, used.VolumeGB), Addresses: left(limit.Addresses, used.Addresses),
		}
		c.sinceListing(name, view, free[name])
	}
	return free
}

// sinceListing takes into account what the cloud's figures do not show yet: nodes on their way, and instances that have
// gone meanwhile.
func (c *computation) sinceListing(provider string, view ProviderView, free *resources.Amounts) {
	for _, n := range c.world.nodes[provider] {
		if _, shown := c.world.instances[n.ID]; !shown && !n.Static && c.doomed[n.Key()] == "" {
			*free = minus(*free, amounts(n))
		}
	}
	for i := range view.Instances {
		if instance := &view.Instances[i]; view.Gone[instance.ID] {
			each := instance.Resources
			each.Instances = max(each.Instances, 1)
			*free = plus(*free, each)
		}
	}
}

func left(limit, used int64) int64 {
	if limit == resources.Unlimited {
		return 1 << 40
	}
	return limit - used
}

// claim takes a delete step off the list of those that a launch may wait for.
func (u *poolUse) claim(step string) {
	if i := slices.Index(u.frees, step); i >= 0 {
		u.frees = slices.Delete(u.frees, i, i+1)
		u.leaving = minus(u.leaving, u.freed[step])
	}
}

// release gives back what a node took that is sure to be gone by then.
func (u *poolUse) release(step string, free *resources.Amounts) {
	u.use = minus(u.use, u.freed[step])
	if free != nil {
		*free = plus(*free, u.freed[step])
	}
}

// full reports whether one more node fits only after another is gone.
func (c *computation) full(at *place, use *poolUse, free map[string]*resources.Amounts) bool {
	if overLimits(at.pool, use.use, at.each) != "" {
		return true
	}
	l := free[at.provider.Name]
	return l != nil && !at.pool.IgnoreProviderQuota && overQuota(*l, at.each) != ""
}
