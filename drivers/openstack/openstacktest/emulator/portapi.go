package emulator

import (
	"iter"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"time"
)

func listPorts(c *call) (*answer, error) {
	return listOf(c, "ports", c.candidatePorts,
		func(_ *cloudState, p *port) bool { return c.owns(&p.base) }, (*cloudState).portView)
}

// candidatePorts avoids the iteration over all ports if the filter names their servers.
func (c *call) candidatePorts(w *cloudState) iter.Seq[*port] {
	devices := c.query.Values["device_id"]
	if len(devices) == 0 || slices.Contains(devices, "") {
		return w.Ports.oldestFirst(c.now)
	}
	var found []*port
	for _, device := range devices {
		for p := range maps.Values(w.portsOf[device]) {
			if p.listed(c.now) {
				found = append(found, p)
			}
		}
	}
	slices.SortFunc(found, func(a, b *port) int { return int(a.Seq) - int(b.Seq) })
	return slices.Values(found)
}

func (by scope) findPort(w *cloudState, id string) (*port, error) {
	p, found := w.Ports.get(id, by.now)
	if !found || !by.owns(&p.base) {
		return nil, notFound("PortNotFound", "Port %s could not be found.", id)
	}
	return p, nil
}

func showPort(c *call) (*answer, error) {
	return showOne(c, "port", c.findPort, (*cloudState).portView)
}

// portRequest holds the supported attributes of a port.
type portRequest struct {
	Port struct {
		Network     string    `json:"network_id"`
		Name        *string   `json:"name"`
		Description *string   `json:"description"`
		Device      *string   `json:"device_id"`
		Owner       *string   `json:"device_owner"`
		Groups      *[]string `json:"security_groups"`
		Pairs       *[]any    `json:"allowed_address_pairs"`
		Security    *bool     `json:"port_security_enabled"`
		VNIC        string    `json:"binding:vnic_type"`
		Tags        []string  `json:"tags"`
		FixedIPs    *[]struct {
			Subnet  string `json:"subnet_id"`
			Address string `json:"ip_address"`
		} `json:"fixed_ips"`
	} `json:"port"`
}

// networkChange creates and changes ports and floating IPs within one change of the state.
type networkChange struct {
	scope
	w           *cloudState
	addressTime time.Duration // until compute shows an association
}

func (c *call) networkChange(w *cloudState) networkChange {
	return networkChange{c.scope, w, c.cloud.options.AddressTime}
}

func createPort(c *call) (*answer, error) {
	var in portRequest
	if err := c.decodeLoosely(&in); err != nil {
		return nil, err
	}
	var v view
	err := c.update(func(w *cloudState) error {
		p, err := c.networkChange(w).newPort(&in)
		if err != nil {
			return err
		}
		w.addPort(p)
		v = w.portView(p)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return created(view{"port": v})
}

func (nc networkChange) newPort(in *portRequest) (*port, error) {
	n, err := nc.findNetwork(nc.w, in.Port.Network)
	if err != nil {
		return nil, err
	}
	if err := checkNetworkQuota(nc.w, nc.who.project, "port", 1); err != nil {
		return nil, err
	}
	p := &port{base: nc.w.newBase(nc.who.project, nc.now), Network: n.ID, VNIC: in.Port.VNIC, Tags: in.Port.Tags}
	p.MAC = macAddress(nc.w.LastSeq)
	nc.applyFault(&p.base)
	if in.Port.Groups == nil {
		if g, err := nc.w.findGroup(nc.who.project, "default", nc.now); err == nil {
			p.Groups = []string{g.ID}
		}
	}
	if err := nc.describePort(p, in); err != nil {
		return nil, err
	}
	return p, nc.numberPort(p, in)
}

// describePort sets the attributes of a port from the request.
func (nc networkChange) describePort(p *port, in *portRequest) error {
	if in.Port.Groups != nil {
		for _, id := range *in.Port.Groups {
			if g, found := nc.w.Groups.get(id, nc.now); !found || !nc.owns(&g.base) {
				return notFound("SecurityGroupNotFound", "Security group %s does not exist", id)
			}
		}
		p.Groups = *in.Port.Groups
	}
	set(&p.Name, in.Port.Name)
	set(&p.Description, in.Port.Description)
	set(&p.Device, in.Port.Device)
	set(&p.Owner, in.Port.Owner)
	set(&p.Pairs, in.Port.Pairs)
	if in.Port.Security != nil {
		p.Security = in.Port.Security
	}
	return nil
}

// set changes a value if the request contains it.
func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

// numberPort allocates the requested addresses of a new port, or any.
func (nc networkChange) numberPort(p *port, in *portRequest) error {
	if in.Port.FixedIPs == nil {
		if !nc.w.takeAddresses(p) {
			return refuseNeutron(http.StatusConflict, "IpAddressGenerationFailure", "No more IP addresses available on network %s.", p.Network)
		}
		return nil
	}
	for _, f := range *in.Port.FixedIPs {
		s, err := nc.w.subnetFor(p.Network, f.Subnet, f.Address)
		if err != nil {
			return err
		}
		a, err := nc.w.claim(s, f.Address, p.ID)
		if err != nil {
			return err
		}
		p.FixedIPs = append(p.FixedIPs, fixedIP{s.ID, a})
	}
	return nil
}

// subnetFor returns the subnet of a fixed address.
func (ns *networkState) subnetFor(network, subnetID, address string) (*subnet, error) {
	a, _ := netip.ParseAddr(address)
	for _, s := range ns.subnetsOf(network) {
		if s.ID == subnetID || (subnetID == "" && s.CIDR.Contains(a)) {
			return s, nil
		}
	}
	return nil, refuseNeutron(http.StatusBadRequest, "InvalidIpForNetwork", "IP address %s is not a valid IP for any of the subnets on the specified network.", address)
}

// claim allocates the given address, or any of the subnet if none is given.
func (ns *networkState) claim(s *subnet, address, owner string) (netip.Addr, error) {
	if address == "" {
		a, found := ns.takeAddress(s, owner)
		if !found {
			return a, refuseNeutron(http.StatusConflict, "IpAddressGenerationFailure", "No more IP addresses available on network %s.", s.Network)
		}
		return a, nil
	}
	a, err := netip.ParseAddr(address)
	if err != nil || !s.CIDR.Contains(a) {
		return a, refuseNeutron(http.StatusBadRequest, "InvalidIpForSubnet", "IP address %s is not a valid IP for the specified subnet.", address)
	}
	if _, used := ns.addresses[a]; used {
		return a, refuseNeutron(http.StatusConflict, "IpAddressAlreadyAllocated", "IP address %s already allocated in subnet %s", a, s.ID)
	}
	ns.addresses[a] = owner
	return a, nil
}

func updatePort(c *call) (*answer, error) {
	var in portRequest
	if err := c.decodeLoosely(&in); err != nil {
		return nil, err
	}
	var v view
	err := c.update(func(w *cloudState) error {
		p, err := c.findPort(w, c.id())
		if err != nil {
			return err
		}
		old := p.Device
		if err := c.networkChange(w).describePort(p, &in); err != nil {
			return err
		}
		if p.Device != old {
			device := p.Device
			p.Device = old
			w.detachPort(p)
			w.attachPort(p, device, p.Owner, c.now)
		}
		p.touch(c.now)
		v = w.portView(p)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return ok(view{"port": v})
}

func deletePort(c *call) (*answer, error) {
	err := c.update(func(w *cloudState) error {
		p, err := c.findPort(w, c.id())
		if err != nil {
			return err
		}
		w.removePort(p, c.now, c.lingers())
		return nil
	})
	if err != nil {
		return nil, err
	}
	return noContent()
}

// checkNetworkQuota checks one of the network quotas.
func checkNetworkQuota(w *cloudState, project, what string, more int64) error {
	q, u := w.quota(project), w.use(project)
	var limit, used int64
	switch what {
	case "port":
		limit, used = q.Ports, u.ports
	case "floatingip":
		limit, used = q.FloatingIPs, u.floatingIPs
	case "security_group":
		limit, used = q.SecurityGroups, u.groups
	}
	if limit >= 0 && used+more > limit {
		return refuseNeutron(http.StatusConflict, "OverQuota", "Quota exceeded for resources: ['%s'].", what)
	}
	return nil
}
