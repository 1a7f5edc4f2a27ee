package openstack

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

// Advance implements drivers.Cloud: it associates a floating IP with an active server that needs one. It reuses a
// floating IP with the node's ownership tags before it creates one, so that a lost response leaks nothing.
func (c *Cloud) Advance(ctx context.Context, spec drivers.Spec, seen resources.Instance) (resources.Instance, error) {
	if seen.Status != resources.StatusPending || !c.attached.isActive(seen.ID) {
		return seen, nil
	}
	address, ok := c.attached.get(seen.ID)
	if !ok {
		var settings labelSettings
		if err := cloudkit.Decode(spec.Config, &settings); err != nil {
			return seen, err
		}
		f, err := c.network.attach(ctx, settings, spec.Marks, seen.ID)
		if err != nil {
			return seen, fmt.Errorf("floating IP of server %s: %w", seen.Name, err)
		}
		if f.Status == "ERROR" {
			seen.Status, seen.Fault = resources.StatusFailed, fmt.Sprintf("floating IP %s is in ERROR", f.Address)
			return seen, nil
		}
		address = f.Address
		c.attached.set(seen.ID, address)
	}
	b, _ := c.attached.belongings(seen.ID)
	setFloating(&seen, address, b.choice)
	return seen, nil
}

// errNoPort fails a launch attempt, not the launch.
var errNoPort = errors.New("it has no port")

// attach finds or creates the floating IP of a server.
func (nw *networking) attach(ctx context.Context, settings labelSettings, m resources.OwnerTags, server string) (floatingIP, error) {
	ports, err := nw.portsOf(ctx, server)
	if err != nil {
		return floatingIP{}, err
	}
	targets := nw.targetsOf(ctx, ports, settings.InterfaceNetwork)
	own, err := nw.listFloatingIPs(ctx, url.Values{"description": {description(m)}})
	if err != nil {
		return floatingIP{}, err
	}
	for _, f := range own {
		if slices.ContainsFunc(ports, func(p port) bool { return p.ID == f.Port }) {
			return f, nil
		}
	}
	switch {
	case len(ports) == 0: // Nova gave its port to another server that was created for the same node; the next attempt gets a new one
		return floatingIP{}, errNoPort
	case len(targets) == 0:
		return floatingIP{}, fmt.Errorf("%w: it has no port with an IPv4 address", drivers.ErrRejected)
	}
	for _, f := range own {
		if f.Port == "" {
			return nw.associate(ctx, f, targets[0])
		}
	}
	return nw.createFloatingIP(ctx, settings.FloatingIPNetwork, m, targets)
}

// target is a port and address to which a floating IP can be associated.
type target struct{ port, address string }

// targetsOf lists the fixed IPv4 addresses of a server, those on the preferred network first.
func (nw *networking) targetsOf(ctx context.Context, ports []port, preferred string) []target {
	var first, rest []target
	id := ""
	if preferred != "" {
		if n, err := nw.names.networkFor(ctx, "interface_network", preferred); err == nil {
			id = n.ID
		}
	}
	for _, p := range ports {
		for _, f := range p.FixedIPs {
			ip, err := netip.ParseAddr(f.Address)
			switch {
			case err != nil || !ip.Is4():
			case p.Network == id:
				first = append(first, target{p.ID, f.Address})
			default:
				rest = append(rest, target{p.ID, f.Address})
			}
		}
	}
	return append(first, rest...)
}

func (nw *networking) associate(ctx context.Context, f floatingIP, t target) (floatingIP, error) {
	client, err := nw.service(serviceNetwork)
	if err != nil {
		return floatingIP{}, err
	}
	body := map[string]any{"floatingip": map[string]any{"port_id": t.port, "fixed_ip_address": t.address}}
	var answer struct {
		FloatingIP floatingIP `json:"floatingip"`
	}
	_, err = client.Put(ctx, client.ServiceURL("floatingips", f.ID), body, &answer, okCodes(200))
	return answer.FloatingIP, wrap("attach floating IP "+f.Address, err)
}

// createFloatingIP creates and associates a floating IP in one call. Only Neutron knows which network has a router to
// the external network, so it tries the addresses one after the other.
func (nw *networking) createFloatingIP(ctx context.Context, network string, m resources.OwnerTags, targets []target) (floatingIP, error) {
	client, err := nw.service(serviceNetwork)
	if err != nil {
		return floatingIP{}, err
	}
	outside, err := nw.names.floatingNetwork(ctx, network)
	if err != nil {
		return floatingIP{}, err
	}
	for _, t := range targets {
		request := map[string]any{
			"floating_network_id": outside.ID, "port_id": t.port, "fixed_ip_address": t.address, "description": description(m),
		}
		var answer struct {
			FloatingIP floatingIP `json:"floatingip"`
		}
		_, err = client.Post(ctx, client.ServiceURL("floatingips"), map[string]any{"floatingip": request}, &answer, nil)
		if err == nil {
			return answer.FloatingIP, nil
		}
		err = wrap("create on network "+outside.Name, err)
		if !isStatus(err, 404) { // 404: that subnet has no route to the external network
			break
		}
	}
	return floatingIP{}, err
}

// ownFloatingIPs lists the floating IPs with the ownership tags that are associated with the server or with none.
func (nw *networking) ownFloatingIPs(ctx context.Context, m resources.OwnerTags, server string) ([]floatingIP, error) {
	ports, err := nw.portsOf(ctx, server)
	if err != nil {
		return nil, err
	}
	found, err := nw.listFloatingIPs(ctx, url.Values{"description": {description(m)}})
	return slices.DeleteFunc(found, func(f floatingIP) bool {
		elsewhere := f.Port != "" && !slices.ContainsFunc(ports, func(p port) bool { return p.ID == f.Port })
		return !marksIn(f.Description).SameRecord(m) || elsewhere
	}), err
}

func (nw *networking) deleteFloatingIPs(ctx context.Context, m resources.OwnerTags, server string) error {
	found, err := nw.ownFloatingIPs(ctx, m, server)
	if err != nil {
		return err
	}
	for _, f := range found {
		if err := nw.deleteIn(ctx, serviceNetwork, "floatingips", f.ID, "delete floating IP"); err != nil {
			return err
		}
	}
	return nil
}
