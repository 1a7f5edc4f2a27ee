package emulator

import (
	"iter"
	"net/http"
	"slices"
	"time"
)

func networkRoutes() []route {
	return []route{
		{neutron, "GET", "/v2.0/networks", "network.list", false, false, listNetworks},
		{neutron, "GET", "/v2.0/networks/{id}", "network.show", false, false, showNetwork},
		{neutron, "GET", "/v2.0/subnets", "subnet.list", false, false, listSubnets},
		{neutron, "GET", "/v2.0/ports", "port.list", false, false, listPorts},
		{neutron, "POST", "/v2.0/ports", "port.create", false, false, createPort},
		{neutron, "GET", "/v2.0/ports/{id}", "port.show", false, false, showPort},
		{neutron, "PUT", "/v2.0/ports/{id}", "port.update", false, false, updatePort},
		{neutron, "DELETE", "/v2.0/ports/{id}", "port.delete", false, false, deletePort},
		{neutron, "GET", "/v2.0/floatingips", "floating_ip.list", false, false, listFloatingIPs},
		{neutron, "POST", "/v2.0/floatingips", "floating_ip.create", false, false, createFloatingIP},
		{neutron, "GET", "/v2.0/floatingips/{id}", "floating_ip.show", false, false, showFloatingIP},
		{neutron, "PUT", "/v2.0/floatingips/{id}", "floating_ip.update", false, false, updateFloatingIP},
		{neutron, "DELETE", "/v2.0/floatingips/{id}", "floating_ip.delete", false, false, deleteFloatingIP},
		{neutron, "GET", "/v2.0/routers", "router.list", false, false, listRouters},
		{neutron, "GET", "/v2.0/security-groups", "security_group.list", false, false, listGroups},
		{neutron, "POST", "/v2.0/security-groups", "security_group.create", false, false, createGroup},
		{neutron, "GET", "/v2.0/security-groups/{id}", "security_group.show", false, false, showGroup},
		{neutron, "DELETE", "/v2.0/security-groups/{id}", "security_group.delete", false, false, deleteGroup},
		{neutron, "GET", "/v2.0/security-group-rules", "security_group_rule.list", false, false, listRules},
		{neutron, "POST", "/v2.0/security-group-rules", "security_group_rule.create", false, false, createRule},
		{neutron, "GET", "/v2.0/quotas/{project}", "network_quota.show", false, false, showNetworkQuota},
		{neutron, "GET", "/v2.0/quotas/{project}/default", "network_quota.show", false, false, showNetworkQuota},
		{neutron, "GET", "/v2.0/quotas/{project}/details.json", "network_quota.details", false, false, showNetworkQuotaUse},
		{neutron, "GET", "/v2.0/quotas/{project}/details", "network_quota.details", false, false, showNetworkQuotaUse},
		{neutron, "GET", "/v2.0/extensions", "extension.list", false, false, listExtensions},
		{neutron, "GET", "/v2.0/extensions/{id}", "extension.show", false, false, showExtension},
	}
}

// listOf responds with the rows of a table that are visible to the project.
func listOf[T object](c *call, plural string, rows func(*cloudState) iter.Seq[T], visible func(*cloudState, T) bool, show func(*cloudState, T) view) (*answer, error) {
	var views []view
	enough := c.neutronQuery().enough()
	err := c.view(func(w *cloudState) error {
		started := enough == 0 || !c.query.Has("marker")
		for row := range rows(w) {
			if !visible(w, row) {
				continue
			}
			if started = started || row.meta().ID == c.query.Get("marker"); !started {
				continue
			}
			if views = append(views, show(w, row)); len(views) == enough {
				break
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return c.neutronQuery().answer(plural, views)
}

func notFound(kind, format string, args ...any) error {
	return refuseNeutron(http.StatusNotFound, kind, format, args...)
}

func listNetworks(c *call) (*answer, error) {
	return listOf(c, "networks", func(w *cloudState) iter.Seq[*network] { return w.Networks.oldestFirst(c.now) },
		func(_ *cloudState, n *network) bool { return n.visible(c.who.project) }, (*cloudState).networkView)
}

func (by scope) findNetwork(w *cloudState, id string) (*network, error) {
	n, found := w.Networks.get(id, by.now)
	if !found || !n.visible(by.who.project) {
		return nil, notFound("NetworkNotFound", "Network %s could not be found.", id)
	}
	return n, nil
}

func showNetwork(c *call) (*answer, error) {
	return showOne(c, "network", c.findNetwork, (*cloudState).networkView)
}

// showOne responds with one object.
func showOne[T object](c *call, kind string, find func(*cloudState, string) (T, error), show func(*cloudState, T) view) (*answer, error) {
	var v view
	err := c.view(func(w *cloudState) error {
		row, err := find(w, c.id())
		if err != nil {
			return err
		}
		v = show(w, row)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return ok(view{kind: c.neutronQuery().fields(v)})
}

func listSubnets(c *call) (*answer, error) {
	return listOf(c, "subnets", func(w *cloudState) iter.Seq[*subnet] { return w.Subnets.oldestFirst(c.now) },
		c.seesSubnet, (*cloudState).subnetView)
}

// seesSubnet reports whether a subnet is visible. As in neutron's policy, the subnets of another project's external
// network are not.
func (by scope) seesSubnet(w *cloudState, s *subnet) bool {
	n, found := w.Networks.byID[s.Network]
	return by.owns(&s.base) || (found && n.Shared)
}

// router returns the only router of the project.
func (c *call) router() (view, error) {
	var v view
	err := c.view(func(w *cloudState) error {
		v = w.routerView(c.who.project)
		return nil
	})
	return v, err
}

func listRouters(c *call) (*answer, error) {
	v, err := c.router()
	if err != nil {
		return nil, err
	}
	return c.neutronQuery().answer("routers", []view{v})
}

// networkQuota returns limits and use in neutron's order.
func networkQuota(q Quota, u usage, networks int64) []struct {
	name        string
	limit, used int64
} {
	return []struct {
		name        string
		limit, used int64
	}{
		{"network", q.Networks, networks}, {"subnet", q.Networks, networks}, {"subnetpool", -1, 0},
		{"port", q.Ports, u.ports}, {"router", 10, 1}, {"floatingip", q.FloatingIPs, u.floatingIPs},
		{"rbac_policy", 10, 0}, {"security_group", q.SecurityGroups, u.groups},
		{"security_group_rule", q.SecurityGroupRules, 0},
	}
}

func showNetworkQuota(c *call) (*answer, error) {
	return answerNetworkQuota(c, func(limit, _ int64) any { return limit })
}

func showNetworkQuotaUse(c *call) (*answer, error) {
	return answerNetworkQuota(c, func(limit, used int64) any {
		return view{"limit": limit, "used": used, "reserved": 0}
	})
}

func answerNetworkQuota(c *call, show func(limit, used int64) any) (*answer, error) {
	project := c.request.PathValue("project")
	if project != c.who.project {
		return nil, refuseNeutron(http.StatusForbidden, "AdminRequired", "User does not have admin privileges: Non-admin is not authorized to access quotas for another tenant.")
	}
	v := view{}
	err := c.view(func(w *cloudState) error {
		var networks int64
		for _, n := range w.Networks.rows {
			if n.Project == project {
				networks++
			}
		}
		for _, one := range networkQuota(w.quota(project), *w.use(project), networks) {
			v[one.name] = show(one.limit, one.used)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return ok(view{"quota": v})
}

var extensions = []string{
	"agent", "allowed-address-pairs", "availability_zone", "binding", "default-subnetpools", "dns-integration",
	"external-net", "extra_dhcp_opt", "fip-port-details", "filter-validation", "floating-ip-port-forwarding", "net-mtu",
	"network_availability_zone", "pagination", "port-security", "project-id", "quota_details", "quotas", "router",
	"security-group", "sorting", "standard-attr-description", "standard-attr-revisions", "standard-attr-tag",
	"standard-attr-timestamp", "subnet_allocation",
}

func extensionView(alias string) view {
	return view{"alias": alias, "name": alias, "description": "", "updated": "2016-01-01T00:00:00-00:00", "links": []any{}}
}

func listExtensions(*call) (*answer, error) {
	views := make([]view, 0, len(extensions))
	for _, alias := range extensions {
		views = append(views, extensionView(alias))
	}
	return ok(view{"extensions": views})
}

func showExtension(c *call) (*answer, error) {
	if !slices.Contains(extensions, c.id()) {
		return nil, notFound("HTTPNotFound", "Extension with alias %s does not exist", c.id())
	}
	return ok(view{"extension": extensionView(c.id())})
}

// touch records the time of a change.
func (b *base) touch(now time.Time) { b.Updated = now }
