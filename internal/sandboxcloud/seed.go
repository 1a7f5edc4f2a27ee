package sandboxcloud

import (
	"crypto/rand"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/google/uuid"
)

// newWorld returns the initial state of a cloud.
func newWorld(zones []string, addresses int, now time.Time) *cloudState {
	w := &cloudState{Version: worldVersion, Zones: zones, Secret: make([]byte, 32)}
	_, _ = rand.Read(w.Secret) // never fails, as of Go 1.24
	w.reindex()
	for _, name := range []string{User, Other} {
		w.addProject(name, now)
	}
	for _, f := range []Flavor{
		{Name: "small", VCPUs: 1, RAM: 2048, Disk: 20}, {Name: "medium", VCPUs: 2, RAM: 4096, Disk: 40},
		{Name: "large", VCPUs: 8, RAM: 8192, Disk: 80}, {Name: "toobig", VCPUs: 8, RAM: 8192, Disk: 10_000_000, NoHost: true},
	} {
		w.addFlavor(f, now)
	}
	// Server addresses are local (127.0.0.0/8), so that a test can listen on them.
	private, public := ranges(addresses)
	w.addNetwork(Network{Name: "private", CIDRs: []string{private.String()}}, hexID("project/"+User), now)
	w.addNetwork(Network{Name: "public", CIDRs: []string{public.String()}, External: true}, hexID("project/service"), now)
	return w
}

func (w *cloudState) addProject(name string, now time.Time) {
	p := &project{base: w.newBase("", now), Name: name}
	p.ID = hexID("project/" + name)
	w.Projects.add(p)
	u := &user{
		base: w.newBase(p.ID, now), Name: name, Pass: Password,
		Roles: []role{{hexID("role/member"), "member"}, {hexID("role/reader"), "reader"}},
	}
	u.ID = hexID("user/" + name)
	w.Users.add(u)
	g := w.newGroup(p.ID, "default", "Default security group", now)
	for _, version := range []string{"IPv4", "IPv6"} {
		own := g.ID
		g.Rules = append(g.Rules, groupRule{ID: uuid.NewString(), Created: now, Direction: "ingress", EtherType: version, RemoteGroup: &own})
	}
}

func (w *cloudState) addFlavor(f Flavor, now time.Time) {
	row := &flavor{base: w.newBase("", now), Name: f.Name, VCPUs: f.VCPUs, RAM: f.RAM, Disk: f.Disk, NoHost: f.NoHost}
	row.ID = stableID("flavor/" + f.Name)
	w.Flavors.add(row)
}

func (w *cloudState) addNetwork(n Network, project string, now time.Time) {
	row := &network{base: w.newBase(project, now), Name: n.Name, External: n.External, Shared: n.Shared}
	row.ID = stableID("network/" + n.Name)
	w.Networks.add(row)
	for i, text := range n.CIDRs {
		cidr := netip.MustParsePrefix(text).Masked() // validated with the options
		s := &subnet{base: w.newBase(project, now), Name: n.Name, Network: row.ID, CIDR: cidr, Gateway: firstAddress(cidr)}
		if i > 0 {
			s.Name = fmt.Sprintf("%s-%d", n.Name, i+1)
		}
		s.ID = stableID("subnet/" + n.Name + "/" + text)
		w.Subnets.add(s)
	}
}

// seed updates the state to match the options. It writes only changes.
func (s *store) seed(o Options, now time.Time) error {
	var wanting bool
	err := s.view(now, func(w *cloudState) error {
		wanting = w.isMissing(o)
		return nil
	})
	if err != nil || !wanting {
		return err
	}
	return s.update(now, func(w *cloudState) error {
		w.furnish(o, now)
		return nil
	})
}

func (w *cloudState) isMissing(o Options) bool {
	lacks := !slices.Equal(w.Zones, o.Zones)
	for _, p := range w.Projects.rows {
		lacks = lacks || (o.Quota != nil && w.quota(p.ID) != *o.Quota)
	}
	for _, f := range o.Flavors {
		_, found := w.Flavors.byID[stableID("flavor/"+f.Name)]
		lacks = lacks || !found
	}
	for _, n := range o.Networks {
		_, found := w.Networks.byID[stableID("network/"+n.Name)]
		lacks = lacks || !found
	}
	for _, i := range o.Images {
		lacks = lacks || !w.Seeded[i.key()]
	}
	for _, f := range o.Foreign {
		lacks = lacks || !w.Seeded[f.key()]
	}
	return lacks
}

func (f ForeignServer) key() string { return "server/" + f.Project + "/" + f.Name }

func (w *cloudState) furnish(o Options, now time.Time) {
	w.Zones = o.Zones
	for _, p := range w.Projects.rows {
		if o.Quota != nil {
			w.Quotas[p.ID] = *o.Quota
		}
	}
	for _, f := range o.Flavors {
		if _, found := w.Flavors.byID[stableID("flavor/"+f.Name)]; !found {
			w.addFlavor(f, now)
		}
	}
	for _, n := range o.Networks {
		if _, found := w.Networks.byID[stableID("network/"+n.Name)]; !found {
			w.addNetwork(n, w.ownerOf(n), now)
		}
	}
	for _, i := range o.Images {
		if !w.Seeded[i.key()] {
			w.Seeded[i.key()] = true
			w.addPublicImage(i, now)
		}
	}
	for _, f := range o.Foreign {
		if !w.Seeded[f.key()] {
			w.Seeded[f.key()] = true
			w.addForeign(f, now)
		}
	}
}

// ownerOf returns the project that owns a network.
func (w *cloudState) ownerOf(n Network) string {
	if n.Shared || n.External {
		return hexID("project/service")
	}
	return hexID("project/" + User)
}

// addForeign creates an active server without a request.
func (w *cloudState) addForeign(f ForeignServer, now time.Time) {
	owner := f.Project
	if owner == "" {
		owner = User
	}
	name := f.Flavor
	if name == "" {
		name = "small"
	}
	size, found := w.Flavors.byID[stableID("flavor/"+name)]
	if !found {
		size = w.Flavors.rows[0]
	}
	s := &server{
		base: w.newBase(hexID("project/"+owner), now), User: hexID("user/" + owner), Name: f.Name, Hostname: hostname(f.Name, ""),
		Flavor: size.ID, VCPUs: size.VCPUs, RAM: size.RAM, Metadata: maps.Clone(f.Metadata), Groups: []string{"default"},
	}
	if s.Metadata == nil {
		s.Metadata = map[string]string{}
	}
	w.connectForeign(s, now)
	w.Servers.add(s)
	w.countServer(s, 1)
	w.startBuild(s, now, 0, "")
}

func (w *cloudState) connectForeign(s *server, now time.Time) {
	for _, n := range w.Networks.rows {
		if n.Project != s.Project {
			continue
		}
		p := &port{base: w.newBase(s.Project, now), Network: n.ID, OfServer: true, Device: s.ID, Owner: "compute:nova"}
		p.MAC = macAddress(p.Seq)
		w.takeAddresses(p)
		w.addPort(p)
		s.Nics = append(s.Nics, nic{Port: p.ID, Network: n.Name})
		return
	}
}
