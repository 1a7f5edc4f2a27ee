package emulator

import (
	"encoding/json"
	"net/http"
	"net/netip"
)

// nicOrder is an interface to create.
type nicOrder struct {
	network *network
	port    *port // an existing port, or nil
	fixed   string
	tag     string
}

// newNics creates or attaches the ports of one server. If the addresses run out, it releases the allocated ones.
func (o *order) newNics(s *server) ([]*port, error) {
	var ports []*port
	groupIDs := make([]string, 0, len(o.groups))
	for _, g := range o.groups {
		groupIDs = append(groupIDs, g.ID)
	}
	for _, n := range o.networks {
		p := n.port
		if p == nil {
			p = &port{base: o.w.newBase(o.who.project, o.now), Network: n.network.ID, Groups: groupIDs, OfServer: true}
			p.MAC = macAddress(p.Seq)
			if !o.w.number(p, n.fixed) {
				for _, earlier := range append(ports, p) {
					o.w.releaseOrder(earlier)
				}
				return nil, badRequest("No fixed IP addresses available for network: %s", n.network.ID)
			}
		}
		ports = append(ports, p)
		s.Nics = append(s.Nics, nic{Port: p.ID, Network: n.network.Name, Tag: n.tag})
	}
	return ports, nil
}

// releaseOrder releases the addresses of a port that is not stored.
func (ns *networkState) releaseOrder(p *port) {
	if _, kept := ns.Ports.byID[p.ID]; kept {
		return
	}
	for _, f := range p.FixedIPs {
		delete(ns.addresses, f.Address)
	}
}

// orderNetworks determines the networks of the server.
func (o *order) selectNetworks() error {
	raw := o.in.Server.Networks
	var word string
	if len(raw) > 0 && json.Unmarshal(raw, &word) == nil {
		if word == "none" {
			return nil
		}
		raw = nil // auto
	}
	var wanted []struct {
		UUID    string `json:"uuid"`
		FixedIP string `json:"fixed_ip"`
		Port    string `json:"port"`
		Tag     string `json:"tag"`
	}
	if len(raw) > 0 {
		if err := strictJSON(raw, &wanted); err != nil {
			return badRequest("%s", jsonMistake(err))
		}
	}
	if len(wanted) == 0 {
		return o.selectAnyNetwork()
	}
	for _, one := range wanted {
		n, err := o.selectNic(one.UUID, one.Port, one.FixedIP, o.max)
		if err != nil {
			return err
		}
		n.tag = one.Tag
		o.networks = append(o.networks, n)
	}
	return nil
}

func (o *order) selectNic(networkID, portID, fixed string, count int64) (nicOrder, error) {
	if portID != "" {
		return o.selectPort(portID, count)
	}
	n, found := o.w.Networks.get(networkID, o.now)
	if !found || !n.visible(o.who.project) {
		return nicOrder{}, badRequest("Network %s could not be found.", networkID)
	}
	if fixed != "" {
		if a, err := netip.ParseAddr(fixed); err != nil {
			return nicOrder{}, badRequest("Invalid fixed IP address (%s)", fixed)
		} else if _, used := o.w.addresses[a]; used {
			return nicOrder{}, badRequest("Fixed IP address %s is already in use on instance.", fixed)
		}
	}
	return nicOrder{network: n, fixed: fixed}, nil
}

func (o *order) selectPort(id string, count int64) (nicOrder, error) {
	p, found := o.w.Ports.get(id, o.now)
	switch {
	case !found || !o.owns(&p.base):
		return nicOrder{}, badRequest("Port id %s could not be found.", id)
	case p.Device != "":
		return nicOrder{}, refuse(http.StatusConflict, "Port %s is still in use.", id)
	case count > 1:
		return nicOrder{}, badRequest("Unable to launch multiple instances with a single configured port ID. Please launch your instance one by one with different ports.")
	}
	n, _ := o.w.Networks.get(p.Network, o.now)
	return nicOrder{network: n, port: p}, nil
}

// orderAnyNetwork selects the network if the request names none: the only one of the project.
func (o *order) selectAnyNetwork() error {
	var own, shared []*network
	for n := range o.w.Networks.oldestFirst(o.now) {
		switch {
		case n.Project == o.who.project && !n.External:
			own = append(own, n)
		case n.Shared && !n.External:
			shared = append(shared, n)
		}
	}
	if len(own)+len(shared) > 1 {
		return refuse(http.StatusConflict, "Multiple possible networks found, use a Network ID to be more specific.")
	}
	for _, n := range append(own, shared...) {
		o.networks = append(o.networks, nicOrder{network: n})
	}
	return nil
}

func (ns *networkState) number(p *port, fixed string) bool {
	if fixed == "" {
		return ns.takeAddresses(p)
	}
	s, err := ns.subnetFor(p.Network, "", fixed)
	if err != nil {
		return false
	}
	a, err := ns.claim(s, fixed, p.ID)
	if err != nil {
		return false
	}
	p.FixedIPs = []fixedIP{{s.ID, a}}
	return true
}
