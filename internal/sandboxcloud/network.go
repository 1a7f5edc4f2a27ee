package sandboxcloud

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

func (w *cloudState) indexPort(p *port) {
	if p.Gone {
		return
	}
	w.use(p.Project).ports++
	for _, f := range p.FixedIPs {
		w.addresses[f.Address] = p.ID
	}
	if p.Device != "" {
		if w.portsOf[p.Device] == nil {
			w.portsOf[p.Device] = map[string]*port{}
		}
		w.portsOf[p.Device][p.ID] = p
	}
}

func (w *cloudState) addPort(p *port) {
	w.Ports.add(p)
	w.indexPort(p)
}

// removePort deletes a port; it disassociates a floating IP.
func (w *cloudState) removePort(p *port, now, lingers time.Time) {
	if f := w.floatingOf[p.ID]; f != nil {
		w.disassociate(f, now)
	}
	w.detachPort(p)
	w.use(p.Project).ports--
	for _, f := range p.FixedIPs {
		delete(w.addresses, f.Address)
	}
	retire(w, &w.Ports, p, now, lingers)
}

// detachPort detaches a port from its server.
func (w *cloudState) detachPort(p *port) {
	delete(w.portsOf[p.Device], p.ID)
	if len(w.portsOf[p.Device]) == 0 {
		delete(w.portsOf, p.Device)
	}
}

// attachPort attaches an existing port to a server.
func (w *cloudState) attachPort(p *port, server, owner string, now time.Time) {
	p.Device, p.Owner, p.Updated = server, owner, now
	if w.portsOf[server] == nil {
		w.portsOf[server] = map[string]*port{}
	}
	w.portsOf[server][p.ID] = p
}

func (w *cloudState) indexFloatingIP(f *floatingIP) {
	if f.Gone {
		return
	}
	w.use(f.Project).floatingIPs++
	w.addresses[f.Address] = f.ID
	if f.Port != "" {
		w.floatingOf[f.Port] = f
	}
}

func (w *cloudState) associate(f *floatingIP, p *port, fixed netip.Addr, shown, now time.Time) {
	w.disassociate(f, now)
	f.Port, f.Fixed, f.Shown, f.Updated = p.ID, fixed, shown, now
	w.floatingOf[p.ID] = f
}

func (w *cloudState) disassociate(f *floatingIP, now time.Time) {
	if f.Port == "" {
		return
	}
	delete(w.floatingOf, f.Port)
	f.Port, f.Fixed, f.Updated = "", netip.Addr{}, now
}

func (w *cloudState) removeFloatingIP(f *floatingIP, now, lingers time.Time) {
	w.disassociate(f, now)
	w.use(f.Project).floatingIPs--
	delete(w.addresses, f.Address)
	retire(w, &w.FloatingIPs, f, now, lingers)
}

func (w *cloudState) subnetsOf(network string) []*subnet {
	var list []*subnet
	for _, s := range w.Subnets.rows {
		if s.Network == network {
			list = append(list, s)
		}
	}
	return list
}

// takeAddress allocates a free address for the owner. It cycles through the subnet, so that addresses are not reused
// immediately.
func (w *cloudState) takeAddress(s *subnet, owner string) (netip.Addr, bool) {
	start := s.Next
	if !start.IsValid() || !s.CIDR.Contains(start) {
		start = firstAddress(s.CIDR)
	}
	at := start
	for {
		if w.assignable(s, at) {
			w.addresses[at] = owner
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

func (w *cloudState) assignable(s *subnet, a netip.Addr) bool {
	if a == s.Gateway || (a.Is4() && !s.CIDR.Contains(a.Next())) { // gateway, broadcast
		return false
	}
	_, used := w.addresses[a]
	return !used
}

// firstAddress returns the first address after the network address.
func firstAddress(cidr netip.Prefix) netip.Addr { return cidr.Masked().Addr().Next() }

// takeAddresses allocates the addresses of a new port as neutron does: one of the IPv4 subnets and one of each IPv6
// subnet.
func (w *cloudState) takeAddresses(p *port) bool {
	seen4, any := false, false
	for _, s := range w.subnetsOf(p.Network) {
		if s.CIDR.Addr().Is4() && seen4 {
			continue
		}
		a, found := w.takeAddress(s, p.ID)
		if !found {
			continue
		}
		seen4 = seen4 || a.Is4()
		any = true
		p.FixedIPs = append(p.FixedIPs, fixedIP{s.ID, a})
	}
	return any || len(w.subnetsOf(p.Network)) == 0
}

func macAddress(seq uint64) string {
	return fmt.Sprintf("fa:16:3e:%02x:%02x:%02x", byte(seq>>16), byte(seq>>8), byte(seq))
}

// findGroup finds a security group of the project by ID or name.
func (w *cloudState) findGroup(project, ref string, now time.Time) (*securityGroup, error) {
	if g, found := w.Groups.get(ref, now); found && g.Project == project {
		return g, nil
	}
	var match *securityGroup
	for g := range w.Groups.oldestFirst(now) {
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
