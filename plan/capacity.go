package plan

import (
	"fmt"
	"slices"

	"github.com/npctl/npctl/resources"
)

// lack is what stands in the way of more nodes now, such as a limit. It is put into words only when somebody asks: most
// requests that wait are never asked about.
type lack struct {
	text  string // when it is no limit
	what  string
	limit int64 // how many there may be; of a quota: how many are left
	taken int64 // of a quota: how many are needed
	quota bool
}

func (l *lack) String() string {
	switch {
	case l.text != "":
		return l.text
	case l.quota:
		return fmt.Sprintf("quota: %d %s left and %d needed", max(l.limit, 0), l.what, l.taken)
	default:
		return fmt.Sprintf("%s is %d and %d are taken", l.what, l.limit, l.taken)
	}
}

// freeShare is the part of the pool's servers that is free, from 0 to 1. A pool without limit counts by its provider's
// quota.
func (c *computation) freeShare(s *site, free map[string]*resources.Amounts) float64 {
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

// refusal says which limit leaves no room for one more node there, or nothing. Nodes that this plan deletes make room.
func (c *computation) refusal(p *place, free map[string]*resources.Amounts) *lack {
	pool := c.pool(p.at.provider, p.at.pool)
	if why := overLimits(p.pool, minus(pool.use, pool.leaving), p.each); why != nil {
		return why
	}
	if left := free[p.at.provider]; left != nil && !p.pool.IgnoreProviderQuota {
		return overQuota(plus(*left, pool.leaving), p.each)
	}
	return nil
}

// overLimits says which limit of the pool more nodes would break, or nothing.
func overLimits(p *resources.Pool, use, more resources.Amounts) *lack {
	over := func(limit *int64, use, more int64) bool { return limit != nil && more > 0 && use+more > *limit }
	switch {
	case over(p.MaxServers, use.Instances, more.Instances):
		return &lack{what: "max_servers", limit: *p.MaxServers, taken: use.Instances}
	case over(p.MaxCores, use.Cores, more.Cores):
		return &lack{what: "max_cores", limit: *p.MaxCores, taken: use.Cores}
	case over(p.MaxRAM, use.RAM, more.RAM):
		return &lack{what: "max_ram", limit: *p.MaxRAM, taken: use.RAM}
	case over(p.MaxVolumes, use.Volumes, more.Volumes):
		return &lack{what: "max_volumes", limit: *p.MaxVolumes, taken: use.Volumes}
	case over(p.MaxVolumeGB, use.VolumeGB, more.VolumeGB):
		return &lack{what: "max_volume_gb", limit: *p.MaxVolumeGB, taken: use.VolumeGB}
	default:
		return nil
	}
}

// overQuota says of what too little is left, or nothing.
func overQuota(left, more resources.Amounts) *lack {
	switch {
	case more.Instances > left.Instances:
		return &lack{what: "instances", limit: left.Instances, taken: more.Instances, quota: true}
	case more.Cores > left.Cores:
		return &lack{what: "cores", limit: left.Cores, taken: more.Cores, quota: true}
	case more.RAM > left.RAM:
		return &lack{what: "ram", limit: left.RAM, taken: more.RAM, quota: true}
	case more.Volumes > left.Volumes:
		return &lack{what: "volumes", limit: left.Volumes, taken: more.Volumes, quota: true}
	case more.VolumeGB > left.VolumeGB:
		return &lack{what: "volume_gb", limit: left.VolumeGB, taken: more.VolumeGB, quota: true}
	case more.Addresses > left.Addresses:
		return &lack{what: "floating IPs", limit: left.Addresses, taken: more.Addresses, quota: true}
	default:
		return nil
	}
}

// freeQuota is what each provider's quota leaves, whoever uses the rest.
func (c *computation) freeQuota() map[string]*resources.Amounts {
	free := map[string]*resources.Amounts{}
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

// remaining is what limits leave; what has no limit counts as plenty.
func remaining(limit, used resources.Amounts) resources.Amounts {
	left := func(limit, used int64) int64 {
		if limit == resources.Unlimited {
			return 1 << 40
		}
		return limit - used
	}
	return resources.Amounts{Instances: left(limit.Instances, used.Instances), Cores: left(limit.Cores, used.Cores),
		RAM: left(limit.RAM, used.RAM), Volumes: left(limit.Volumes, used.Volumes),
		VolumeGB: left(limit.VolumeGB, used.VolumeGB), Addresses: left(limit.Addresses, used.Addresses)}
}

// used is what the project takes. Its figures were read after its instances were listed, and some may have gone in between:
// what is listed counts, since what goes is given back when it is known to have gone.
func (v *ProviderView) used() resources.Amounts {
	used := v.Quota.Used
	var listed resources.Amounts
	for i := range v.Instances {
		each := v.Instances[i].Resources
		each.Instances = max(each.Instances, 1)
		listed = plus(listed, each)
	}
	used.Instances, used.Cores, used.RAM = max(used.Instances, listed.Instances), max(used.Cores, listed.Cores), max(used.RAM, listed.RAM)
	return used
}

// sinceListing takes into account what the cloud's figures do not show yet: nodes on their way, and instances that have
// gone meanwhile.
func (c *computation) sinceListing(provider string, view *ProviderView, free *resources.Amounts) {
	for _, n := range c.world.nodes[provider] {
		if !n.Static && c.doomed[n.Key()] == "" {
			*free = minus(*free, c.unseen(n))
		}
	}
	if len(view.Gone) == 0 {
		return
	}
	for i := range view.Instances {
		if instance := &view.Instances[i]; view.Gone[instance.ID] {
			each := instance.Resources
			each.Instances = max(each.Instances, 1)
			if view.Going[instance.ID] {
				each = computeOnly(each)
			}
			*free = plus(*free, each)
		}
	}
}

// unseen is what a node takes or will take and the cloud's figures do not have. Instances get their volumes and addresses
// some time after they are shown.
func (c *computation) unseen(n *resources.Node) resources.Amounts {
	instance, shown := c.world.instances[n.ID]
	rest := amounts(n)
	switch {
	case !shown:
		return rest
	case instance.Status != resources.StatusPending:
		return resources.Amounts{}
	}
	return resources.Amounts{Volumes: rest.Volumes, VolumeGB: rest.VolumeGB, Addresses: max(rest.Addresses-instance.Resources.Addresses, 0)}
}

// computeOnly leaves out what is taken from an instance before it is gone, so that the figures may be without it already.
func computeOnly(a resources.Amounts) resources.Amounts {
	return resources.Amounts{Instances: a.Instances, Cores: a.Cores, RAM: a.RAM}
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
	if overLimits(at.pool, use.use, at.each) != nil {
		return true
	}
	l := free[at.at.provider]
	return l != nil && !at.pool.IgnoreProviderQuota && overQuota(*l, at.each) != nil
}

// OverLimits returns the limit of the pool that more would break beside what is in use, or "".
func OverLimits(pool *resources.Pool, use, more resources.Amounts) string {
	if l := overLimits(pool, use, more); l != nil {
		return l.String()
	}
	return ""
}

// OverQuota returns what the quota has too little of for more, or "".
func OverQuota(q resources.Quota, more resources.Amounts) string {
	if l := overQuota(remaining(q.Limit, q.Used), more); l != nil {
		return l.String()
	}
	return ""
}

// Amounts is what a node takes.
func Amounts(n *resources.Node) resources.Amounts { return amounts(n) }

// Plus adds amounts.
func Plus(a, b resources.Amounts) resources.Amounts { return plus(a, b) }
