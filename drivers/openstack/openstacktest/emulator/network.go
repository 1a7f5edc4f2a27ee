package emulator

import (
	"fmt"
	"net/netip"
	"time"
)

type network struct {
	base
	Name        string   `json:"name"`
	Description string   `json:"description"`
	External    bool     `json:"external"`
	Shared      bool     `json:"shared"`
	Tags        []string `json:"tags"`
}

type subnet struct {
	base
	Name    string       `json:"name"`
	Network string       `json:"network"`
	CIDR    netip.Prefix `json:"cidr"`
	Gateway netip.Addr   `json:"gateway"`
	Next    netip.Addr   `json:"next"` // start of the search for a free address
	DHCP    bool         `json:"dhcp"`
	Tags    []string     `json:"tags"`
}

// port is a network interface; each interface of a server has one.
type port struct {
	base
	Name        string    `json:"name"`
	Description string    `json:"description"`
	Network     string    `json:"network"`
	MAC         string    `json:"mac"`
	FixedIPs    []fixedIP `json:"fixed_ips"`
	Device      string    `json:"device"` // server or other owner
	Owner       string    `json:"owner"`  // such as compute:az1
	Groups      []string  `json:"groups"` // ids of security groups
	Pairs       []any     `json:"pairs,omitempty"`
	Tags        []string  `json:"tags"`
	OfServer    bool      `json:"of_server"` // created by compute, and deleted with the server
	Security    *bool     `json:"security,omitempty"`
	VNIC        string    `json:"vnic,omitempty"`
}

type fixedIP struct {
	Subnet  string     `json:"subnet_id"`
	Address netip.Addr `json:"ip_address"`
}

type floatingIP struct {
	base
	Description string     `json:"description"`
	Network     string     `json:"network"` // the external one
	Address     netip.Addr `json:"address"`
	Port        string     `json:"port"`
	Fixed       netip.Addr `json:"fixed"`
	Shown       time.Time  `json:"shown"` // time from which its server's addresses include it
	Tags        []string   `json:"tags"`
}

func (f *floatingIP) status() string {
	if f.Port == "" {
		return "DOWN"
	}
	return "ACTIVE"
}

type securityGroup struct {
	base
	Name        string      `json:"name"`
	Description string      `json:"description"`
	Stateful    bool        `json:"stateful"`
	Tags        []string    `json:"tags"`
	Rules       []groupRule `json:"rules"`
}

type groupRule struct {
	ID          string    `json:"id"`
	Created     time.Time `json:"created"`
	Direction   string    `json:"direction"`
	EtherType   string    `json:"ethertype"`
	Protocol    *string   `json:"protocol"`
	PortMin     *int      `json:"port_range_min"`
	PortMax     *int      `json:"port_range_max"`
	RemoteIP    *string   `json:"remote_ip_prefix"`
	RemoteGroup *string   `json:"remote_group_id"`
	Description string    `json:"description"`
}

// visible reports whether a project has access to the network.
func (n *network) visible(project string) bool {
	return n.Project == project || n.Shared || n.External
}

// networkState holds the objects of the network service. events and quotas are those of the cloud.
type networkState struct {
	Networks    table[*network]       `json:"networks"`
	Subnets     table[*subnet]        `json:"subnets"`
	Ports       table[*port]          `json:"ports"`
	Groups      table[*securityGroup] `json:"security_groups"`
	FloatingIPs table[*floatingIP]    `json:"floating_ips"`

	events     *timeline
	quotas     *quotas
	addresses  map[netip.Addr]string       // the owner of each used address
	portsOf    map[string]map[string]*port // by server
	floatingOf map[string]*floatingIP      // by port
}

func (ns *networkState) indexPort(p *port) {
	if p.Gone {
		return
	}
	ns.quotas.use(p.Project).ports++
	for _, f := range p.FixedIPs {
		ns.addresses[f.Address] = p.ID
	}
	if p.Device != "" {
		if ns.portsOf[p.Device] == nil {
			ns.portsOf[p.Device] = map[string]*port{}
		}
		ns.portsOf[p.Device][p.ID] = p
	}
}

func (ns *networkState) addPort(p *port) {
	ns.Ports.add(p)
	ns.indexPort(p)
}

// removePort deletes a port; it disassociates a floating IP.
func (ns *networkState) removePort(p *port, now, lingers time.Time) {
	if f := ns.floatingOf[p.ID]; f != nil {
		ns.disassociate(f, now)
	}
	ns.detachPort(p)
	ns.quotas.use(p.Project).ports--
	for _, f := range p.FixedIPs {
		delete(ns.addresses, f.Address)
	}
	retire(ns.events, &ns.Ports, p, now, lingers)
}

// detachPort detaches a port from its server.
func (ns *networkState) detachPort(p *port) {
	delete(ns.portsOf[p.Device], p.ID)
	if len(ns.portsOf[p.Device]) == 0 {
		delete(ns.portsOf, p.Device)
	}
}

// attachPort attaches an existing port to a server.
func (ns *networkState) attachPort(p *port, server, owner string, now time.Time) {
	p.Device, p.Owner, p.Updated = server, owner, now
	if ns.portsOf[server] == nil {
		ns.portsOf[server] = map[string]*port{}
	}
	ns.portsOf[server][p.ID] = p
}

func (ns *networkState) indexFloatingIP(f *floatingIP) {
	if f.Gone {
		return
	}
	ns.quotas.use(f.Project).floatingIPs++
	ns.addresses[f.Address] = f.ID
	if f.Port != "" {
		ns.floatingOf[f.Port] = f
	}
}

func (ns *networkState) associate(f *floatingIP, p *port, fixed netip.Addr, shown, now time.Time) {
	ns.disassociate(f, now)
	f.Port, f.Fixed, f.Shown, f.Updated = p.ID, fixed, shown, now
	ns.floatingOf[p.ID] = f
}

func (ns *networkState) disassociate(f *floatingIP, now time.Time) {
	if f.Port == "" {
		return
	}
	delete(ns.floatingOf, f.Port)
	f.Port, f.Fixed, f.Updated = "", netip.Addr{}, now
}

func (ns *networkState) removeFloatingIP(f *floatingIP, now, lingers time.Time) {
	ns.disassociate(f, now)
	ns.quotas.use(f.Project).floatingIPs--
	delete(ns.addresses, f.Address)
	retire(ns.events, &ns.FloatingIPs, f, now, lingers)
}

func (ns *networkState) subnetsOf(network string) []*subnet {
	var list []*subnet
	for _, s := range ns.Subnets.rows {
		if s.Network == network {
			list = append(list, s)
		}
	}
	return list
}

// takeAddress allocates a free address for the owner. It cycles through the subnet, so that addresses are not reused
// immediately.
func (ns *networkState) takeAddress(s *subnet, owner string) (netip.Addr, bool) {
	start := s.Next
	if !start.IsValid() || !s.CIDR.Contains(start) {
		start = firstAddress(s.CIDR)
	}
	at := start
	for {
		if ns.assignable(s, at) {
			ns.addresses[at] = owner
			s.Next = at.Next()
			return at, true
		}
		if at = at.Next(); !at.IsValid() || !s.CIDR.Contains(at) {
			at = firstAddress(s.CIDR)
		}
		if at == start {
			return netip.Addr{}, false
		}
	}
}

func (ns *networkState) assignable(s *subnet, a netip.Addr) bool {
	if a == s.Gateway || (a.Is4() && !s.CIDR.Contains(a.Next())) { // gateway, broadcast
		return false
	}
	_, used := ns.addresses[a]
	return !used
}

// firstAddress returns the first address after the network address.
func firstAddress(cidr netip.Prefix) netip.Addr { return cidr.Masked().Addr().Next() }

// takeAddresses allocates the addresses of a new port as neutron does: one of the IPv4 subnets and one of each IPv6
// subnet.
func (ns *networkState) takeAddresses(p *port) bool {
	seen4, any := false, false
	for _, s := range ns.subnetsOf(p.Network) {
		if s.CIDR.Addr().Is4() && seen4 {
			continue
		}
		a, found := ns.takeAddress(s, p.ID)
		if !found {
			continue
		}
		seen4 = seen4 || a.Is4()
		any = true
		p.FixedIPs = append(p.FixedIPs, fixedIP{s.ID, a})
	}
	return any || len(ns.subnetsOf(p.Network)) == 0
}

func macAddress(seq uint64) string {
	return fmt.Sprintf("fa:16:3e:%02x:%02x:%02x", byte(seq>>16), byte(seq>>8), byte(seq))
}

// findGroup finds a security group of the project by ID or name.
func (ns *networkState) findGroup(project, ref string, now time.Time) (*securityGroup, error) {
	if g, found := ns.Groups.get(ref, now); found && g.Project == project {
		return g, nil
	}
	var match *securityGroup
	for g := range ns.Groups.oldestFirst(now) {
		if g.Project != project || g.Name != ref {
			continue
		}
		if match != nil {
			return nil, refuse(409, "Multiple security_group matches found for name '%s', use an ID to be more specific.", ref)
		}
		match = g
	}
	if match == nil {
		return nil, badRequest("Security group %s not found.", ref)
	}
	return match, nil
}
