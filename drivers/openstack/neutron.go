package openstack

import (
	"context"
	"errors"
	"net/url"
	"slices"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

type port struct {
	ID          string    `json:"id"`
	Name        string    `json:"name"`
	Network     string    `json:"network_id"`
	Device      string    `json:"device_id"`
	Owner       string    `json:"device_owner"`
	Description string    `json:"description"`
	FixedIPs    []fixedIP `json:"fixed_ips"`
}

type fixedIP struct {
	Address string `json:"ip_address"`
}

type floatingIP struct {
	ID          string `json:"id"`
	Address     string `json:"floating_ip_address"`
	Port        string `json:"port_id"`
	Description string `json:"description"`
	Status      string `json:"status"`
}

func okCodes(codes ...int) *gophercloud.RequestOpts { return &gophercloud.RequestOpts{OkCodes: codes} }

// networking manages the ports and floating IPs of servers.
type networking struct {
	*session
	names *names
}

// listPorts lists ports of the project; without the filter administrators would see all projects.
func (nw *networking) listPorts(ctx context.Context, filter url.Values) ([]port, error) {
	filter.Set("project_id", nw.project)
	filter["fields"] = []string{"id", "name", "network_id", "device_id", "device_owner", "description", "fixed_ips"}
	return allIn(ctx, nw.session, serviceNetwork, listing{path: "ports", query: filter, key: "ports", doing: "list ports"},
		func(p port) string { return p.ID })
}

// portsOf lists the ports of a server.
func (nw *networking) portsOf(ctx context.Context, server string) ([]port, error) {
	ports, err := nw.listPorts(ctx, url.Values{"device_id": {server}})
	return slices.DeleteFunc(ports, func(p port) bool { return p.Device != server }), err
}

func (nw *networking) listFloatingIPs(ctx context.Context, filter url.Values) ([]floatingIP, error) {
	filter.Set("project_id", nw.project)
	return allIn(ctx, nw.session, serviceNetwork, listing{path: "floatingips", query: filter, key: "floatingips", doing: "list floating IPs"},
		func(f floatingIP) string { return f.ID })
}

// ports creates a server's ports if the offer requests it. After a Create with a lost response it reuses the existing
// ports.
func (nw *networking) ports(ctx context.Context, spec drivers.Spec, o offer) ([]port, error) {
	if !o.settings.CreatePorts || len(o.networks) == 0 {
		return nil, nil
	}
	var old, made []port
	if spec.MaybeCreated {
		var err error
		if old, err = nw.listPorts(ctx, url.Values{"description": {description(spec.Marks)}}); err != nil {
			return nil, err
		}
	}
	for _, n := range o.networks {
		i := slices.IndexFunc(old, func(p port) bool { return p.Network == n.ID && p.Device == "" })
		if i >= 0 {
			made = append(made, old[i])
			old = slices.Delete(old, i, i+1)
			continue
		}
		p, err := nw.createPort(ctx, spec, n, o.groups)
		if err != nil {
			return nil, errors.Join(err, nw.deletePorts(context.WithoutCancel(ctx), made))
		}
		made = append(made, p)
	}
	return made, nil
}

func (nw *networking) createPort(ctx context.Context, spec drivers.Spec, n network, groups []string) (port, error) {
	client, err := nw.service(serviceNetwork)
	if err != nil {
		return port{}, err
	}
	request := map[string]any{"network_id": n.ID, "name": spec.Hostname, "description": description(spec.Marks)}
	if len(groups) > 0 {
		request["security_groups"] = groups
	}
	var answer struct {
		Port port `json:"port"`
	}
	_, err = client.Post(ctx, client.ServiceURL("ports"), map[string]any{"port": request}, &answer, nil)
	return answer.Port, wrap("create port for "+spec.Hostname, err)
}

func (nw *networking) deletePorts(ctx context.Context, ports []port) error {
	var failed []error
	for _, p := range ports {
		failed = append(failed, nw.deleteIn(ctx, serviceNetwork, "ports", p.ID, "delete port"))
	}
	return errors.Join(failed...)
}

// ownPorts lists the ports with the ownership tags that are attached to the server or to none.
func (nw *networking) ownPorts(ctx context.Context, m resources.OwnerTags, server string) ([]port, error) {
	ports, err := nw.listPorts(ctx, url.Values{"description": {description(m)}})
	return slices.DeleteFunc(ports, func(p port) bool {
		return !marksIn(p.Description).SameRecord(m) || p.Device != "" && p.Device != server
	}), err
}

func (nw *networking) deleteOwnPorts(ctx context.Context, m resources.OwnerTags, server string) error {
	ports, err := nw.ownPorts(ctx, m, server)
	if err != nil {
		return err
	}
	return nw.deletePorts(ctx, ports)
}
