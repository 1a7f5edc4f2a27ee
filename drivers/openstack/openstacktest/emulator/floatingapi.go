package emulator

import (
	"iter"
	"net/http"
	"net/netip"
	"time"
)

func listFloatingIPs(c *call) (*answer, error) {
	return listOf(c, "floatingips", func(w *cloudState) iter.Seq[*floatingIP] { return w.FloatingIPs.oldestFirst(c.now) },
		func(_ *cloudState, f *floatingIP) bool { return c.owns(&f.base) }, (*cloudState).floatingIPView)
}

func (by scope) findFloatingIP(w *cloudState, id string) (*floatingIP, error) {
	f, found := w.FloatingIPs.get(id, by.now)
	if !found || !by.owns(&f.base) {
		return nil, notFound("FloatingIPNotFound", "Floating IP %s could not be found", id)
	}
	return f, nil
}

func showFloatingIP(c *call) (*answer, error) {
	return showOne(c, "floatingip", c.findFloatingIP, (*cloudState).floatingIPView)
}

type floatingIPRequest struct {
	FloatingIP struct {
		Network     string   `json:"floating_network_id"`
		Subnet      string   `json:"subnet_id"`
		Address     string   `json:"floating_ip_address"`
		Port        *string  `json:"port_id"`
		Fixed       string   `json:"fixed_ip_address"`
		Description *string  `json:"description"`
		Tags        []string `json:"tags"`
	} `json:"floatingip"`
}

func createFloatingIP(c *call) (*answer, error) {
	var in floatingIPRequest
	if err := c.decodeLoosely(&in); err != nil {
		return nil, err
	}
	var v view
	err := c.update(func(w *cloudState) error {
		f, err := c.networkChange(w).newFloatingIP(&in)
		if err != nil {
			return err
		}
		v = w.floatingIPView(f)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return created(view{"floatingip": v})
}

func (nc networkChange) newFloatingIP(in *floatingIPRequest) (*floatingIP, error) {
	n, err := nc.findNetwork(nc.w, in.FloatingIP.Network)
	if err != nil {
		return nil, err
	}
	if !n.External {
		return nil, refuseNeutron(http.StatusBadRequest, "BadRequest", "Bad floatingip request: Network %s is not a valid external network.", n.ID)
	}
	if err := checkNetworkQuota(nc.w, nc.who.project, "floatingip", 1); err != nil {
		return nil, err
	}
	p, fixed, err := nc.target(in)
	if err != nil {
		return nil, err
	}
	if err := nc.w.freeForFloatingIP(p, fixed, nil, n.ID); err != nil {
		return nil, err
	}
	f := &floatingIP{base: nc.w.newBase(nc.who.project, nc.now), Network: n.ID, Tags: in.FloatingIP.Tags}
	set(&f.Description, in.FloatingIP.Description)
	if f.Address, err = nc.w.floatingAddress(n, in.FloatingIP.Address, f.ID); err != nil {
		return nil, err
	}
	nc.applyFault(&f.base)
	nc.w.FloatingIPs.add(f)
	nc.w.indexFloatingIP(f)
	if p != nil {
		nc.w.associate(f, p, fixed, nc.shownAt(), nc.now)
	}
	return f, nil
}

func (ns *networkState) floatingAddress(n *network, wanted, owner string) (netip.Addr, error) {
	for _, s := range ns.subnetsOf(n.ID) {
		if !s.CIDR.Addr().Is4() {
			continue
		}
		if wanted != "" {
			return ns.claim(s, wanted, owner)
		}
		if a, found := ns.takeAddress(s, owner); found {
			return a, nil
		}
	}
	return netip.Addr{}, refuseNeutron(http.StatusBadRequest, "ExternalIpAddressExhausted",
		"Unable to find any IP address on external network %s.", n.ID)
}

// target returns the port and address to which the request associates the floating IP; nil for none.
func (nc networkChange) target(in *floatingIPRequest) (*port, netip.Addr, error) {
	if in.FloatingIP.Port == nil || *in.FloatingIP.Port == "" {
		return nil, netip.Addr{}, nil
	}
	p, err := nc.findPort(nc.w, *in.FloatingIP.Port)
	if err != nil {
		return nil, netip.Addr{}, err
	}
	for _, f := range p.FixedIPs {
		if f.Address.Is4() && (in.FloatingIP.Fixed == "" || in.FloatingIP.Fixed == f.Address.String()) {
			return p, f.Address, nil
		}
	}
	return nil, netip.Addr{}, refuseNeutron(http.StatusBadRequest, "BadRequest",
		"Bad floatingip request: Cannot add floating IP to port %s that has no fixed IPv4 addresses.", p.ID)
}

// shownAt returns the time at which compute shows an association.
func (nc networkChange) shownAt() time.Time {
	if f, late := nc.effect(LateAddress); late {
		return nc.now.Add(f.Delay)
	}
	return nc.now.Add(nc.addressTime)
}

func updateFloatingIP(c *call) (*answer, error) {
	var in floatingIPRequest
	if err := c.decodeLoosely(&in); err != nil {
		return nil, err
	}
	var v view
	err := c.update(func(w *cloudState) error {
		f, err := c.findFloatingIP(w, c.id())
		if err != nil {
			return err
		}
		if err := c.networkChange(w).moveFloatingIP(f, &in); err != nil {
			return err
		}
		set(&f.Description, in.FloatingIP.Description)
		f.touch(c.now)
		v = w.floatingIPView(f)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return ok(view{"floatingip": v})
}

// moveFloatingIP changes the association as requested. A request with a null port_id, or without port_id,
// disassociates the floating IP, unless it only changes the description.
func (nc networkChange) moveFloatingIP(f *floatingIP, in *floatingIPRequest) error {
	p, fixed, err := nc.target(in)
	if err != nil {
		return err
	}
	if p == nil {
		if in.FloatingIP.Description == nil {
			nc.w.disassociate(f, nc.now)
		}
		return nil
	}
	if err := nc.w.freeForFloatingIP(p, fixed, f, f.Network); err != nil {
		return err
	}
	nc.w.associate(f, p, fixed, nc.shownAt(), nc.now)
	return nil
}

// freeForFloatingIP rejects a port that has another floating IP.
func (ns *networkState) freeForFloatingIP(p *port, fixed netip.Addr, f *floatingIP, network string) error {
	if p == nil || ns.floatingOf[p.ID] == nil || ns.floatingOf[p.ID] == f {
		return nil
	}
	address, id := "None", "None"
	if f != nil {
		address, id = f.Address.String(), f.ID
	}
	return refuseNeutron(http.StatusConflict, "FloatingIPPortAlreadyAssociated",
		"Cannot associate floating IP %s (%s) with port %s using fixed IP %s, as that fixed IP already has a floating IP on external network %s.",
		address, id, p.ID, fixed, network)
}

func deleteFloatingIP(c *call) (*answer, error) {
	err := c.update(func(w *cloudState) error {
		f, err := c.findFloatingIP(w, c.id())
		if err != nil {
			return err
		}
		w.removeFloatingIP(f, c.now, c.lingers())
		return nil
	})
	if err != nil {
		return nil, err
	}
	return noContent()
}
