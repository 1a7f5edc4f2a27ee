package emulator

import (
	"net/netip"
	"time"
)

// view is the API representation of an object.
type view = map[string]any

// shortTime is the time format of most services.
func shortTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// common adds the fields of all neutron objects.
func (b *base) common(v view, description string, tags []string) view {
	v["id"], v["tenant_id"], v["project_id"] = b.ID, b.Project, b.Project
	v["created_at"], v["updated_at"] = shortTime(b.Created), shortTime(b.Updated)
	v["revision_number"] = 1 + int(b.Updated.Sub(b.Created)/time.Second)
	v["description"] = description
	v["tags"] = list(tags)
	return v
}

// list returns an empty slice for a nil slice, so that JSON has [] and not null.
func list[T any](items []T) []T {
	if items == nil {
		return []T{}
	}
	return items
}

// orNil returns nil for an empty text, so that JSON has null.
func orNil(text string) any {
	if text == "" {
		return nil
	}
	return text
}

func addressOrNil(a netip.Addr) any {
	if !a.IsValid() {
		return nil
	}
	return a.String()
}

func (ns *networkState) networkView(n *network) view {
	found := ns.subnetsOf(n.ID)
	subnets := make([]string, 0, len(found))
	for _, s := range found {
		subnets = append(subnets, s.ID)
	}
	v := n.common(view{
		"name": n.Name, "admin_state_up": true, "mtu": 1450, "status": "ACTIVE", "subnets": subnets, "shared": n.Shared,
		"availability_zone_hints": []string{}, "availability_zones": []string{"nova"}, "ipv4_address_scope": nil,
		"ipv6_address_scope": nil, "router:external": n.External, "port_security_enabled": true,
	}, n.Description, n.Tags)
	if n.External {
		v["is_default"] = false
	}
	return v
}

func (ns *networkState) subnetView(s *subnet) view {
	pool := view{"start": firstAddress(s.CIDR).String(), "end": lastAddress(s.CIDR).String()}
	if s.Gateway == firstAddress(s.CIDR) {
		pool["start"] = s.Gateway.Next().String()
	}
	v := s.common(view{
		"name": s.Name, "network_id": s.Network, "ip_version": 4, "subnetpool_id": nil, "enable_dhcp": s.DHCP,
		"ipv6_ra_mode": nil, "ipv6_address_mode": nil, "gateway_ip": addressOrNil(s.Gateway), "cidr": s.CIDR.String(),
		"allocation_pools": []view{pool}, "host_routes": []any{}, "dns_nameservers": []string{}, "service_types": []string{},
	}, "", s.Tags)
	if !s.CIDR.Addr().Is4() {
		v["ip_version"], v["ipv6_ra_mode"], v["ipv6_address_mode"] = 6, "slaac", "slaac"
	}
	return v
}

// lastAddress returns the last usable address: for IPv4 the one before the broadcast address.
func lastAddress(cidr netip.Prefix) netip.Addr {
	raw := cidr.Masked().Addr().AsSlice()
	for bit := cidr.Bits(); bit < len(raw)*8; bit++ {
		raw[bit/8] |= 1 << (7 - bit%8)
	}
	last, _ := netip.AddrFromSlice(raw)
	if last.Is4() {
		last = last.Prev()
	}
	return last
}

func (ns *networkState) portView(p *port) view {
	status := "DOWN"
	if p.Device != "" {
		status = "ACTIVE"
	}
	vnic, secure := p.VNIC, true
	if vnic == "" {
		vnic = "normal"
	}
	if p.Security != nil {
		secure = *p.Security
	}
	return p.common(view{
		"name": p.Name, "network_id": p.Network, "mac_address": p.MAC, "admin_state_up": true, "status": status,
		"device_id": p.Device, "device_owner": p.Owner, "fixed_ips": list(p.FixedIPs), "security_groups": list(p.Groups),
		"allowed_address_pairs": list(p.Pairs), "extra_dhcp_opts": []any{}, "binding:vnic_type": vnic,
		"port_security_enabled": secure,
	}, p.Description, p.Tags)
}

func (ns *networkState) floatingIPView(f *floatingIP) view {
	v := f.common(view{
		"floating_ip_address": f.Address.String(), "floating_network_id": f.Network, "fixed_ip_address": addressOrNil(f.Fixed),
		"port_id": orNil(f.Port), "router_id": nil, "status": f.status(), "port_details": nil,
	}, f.Description, f.Tags)
	if p, found := ns.Ports.byID[f.Port]; found {
		v["router_id"] = routerID(f.Project)
		v["port_details"] = view{
			"name": p.Name, "network_id": p.Network, "mac_address": p.MAC, "admin_state_up": true, "status": "ACTIVE",
			"device_id": p.Device, "device_owner": p.Owner,
		}
	}
	return v
}

func (ns *networkState) groupView(g *securityGroup) view {
	rules := make([]view, 0, len(g.Rules))
	for _, r := range g.Rules {
		rules = append(rules, g.ruleView(r))
	}
	return g.common(view{"name": g.Name, "security_group_rules": rules, "stateful": g.Stateful, "shared": false}, g.Description, g.Tags)
}

func (g *securityGroup) ruleView(r groupRule) view {
	return view{
		"id": r.ID, "tenant_id": g.Project, "project_id": g.Project, "security_group_id": g.ID, "direction": r.Direction,
		"ethertype": r.EtherType, "protocol": r.Protocol, "port_range_min": r.PortMin, "port_range_max": r.PortMax,
		"remote_ip_prefix": r.RemoteIP, "remote_group_id": r.RemoteGroup, "remote_address_group_id": nil,
		"normalized_cidr": r.RemoteIP, "description": r.Description, "tags": []string{},
		"created_at": shortTime(r.Created), "updated_at": shortTime(r.Created), "revision_number": 0,
	}
}

func routerID(project string) string { return stableID("router/" + project) }

// routerView returns the only router of a project. It is not stored: it connects all networks of the project to the
// external ones, which floating IPs require.
func (ns *networkState) routerView(project string) view {
	v := view{
		"id": routerID(project), "tenant_id": project, "project_id": project, "name": "router", "description": "",
		"admin_state_up": true, "status": "ACTIVE", "tags": []string{}, "routes": []any{}, "flavor_id": nil, "revision_number": 1,
		"availability_zone_hints": []string{}, "availability_zones": []string{"nova"}, "external_gateway_info": nil,
	}
	for _, n := range ns.Networks.rows {
		if n.External {
			v["created_at"], v["updated_at"] = shortTime(n.Created), shortTime(n.Created)
			v["external_gateway_info"] = view{"network_id": n.ID, "enable_snat": true, "external_fixed_ips": []any{}}
			break
		}
	}
	return v
}
