package emulator

import (
	"crypto/rand"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/google/uuid"
)

// newCloudState returns the initial state of a cloud.
func newCloudState(zones []string, addresses int, now time.Time) *cloudState {
	w := &cloudState{Version: stateVersion, Zones: zones, Secret: make([]byte, 32)}
	_, _ = rand.Read(w.Secret) // never fails, as of Go 1.24
	w.reindex()
	sd := seeder{w, now}
	for _, name := range []string{User, Other} {
		sd.addProject(name)
	}
	for _, f := range []Flavor{
		{Name: "small", VCPUs: 1, RAM: 2048, Disk: 20}, {Name: "medium", VCPUs: 2, RAM: 4096, Disk: 40},
		{Name: "large", VCPUs: 8, RAM: 8192, Disk: 80}, {Name: "toobig", VCPUs: 8, RAM: 8192, Disk: 10_000_000, NoHost: true},
	} {
		sd.addFlavor(f)
	}
	// Server addresses are local (127.0.0.0/8), so that a test can listen on them.
	private, public := ranges(addresses)
	sd.addNetwork(Network{Name: "private", CIDRs: []string{private.String()}}, hexID("project/"+User))
	sd.addNetwork(Network{Name: "public", CIDRs: []string{public.String()}, External: true}, hexID("project/service"))
	return w
}

// seeder creates the objects of the options.
type seeder struct {
	w   *cloudState
	now time.Time
}

func (sd seeder) addProject(name string) {
	p := &project{base: sd.w.newBase("", sd.now), Name: name}
	p.ID = hexID("project/" + name)
	sd.w.Projects.add(p)
	u := &user{
		base: sd.w.newBase(p.ID, sd.now), Name: name, Pass: Password,
		Roles: []role{{hexID("role/member"), "member"}, {hexID("role/reader"), "reader"}},
	}
	u.ID = hexID("user/" + name)
	sd.w.Users.add(u)
	g := sd.w.newGroup(p.ID, "default", "Default security group", sd.now)
	for _, version := range []string{"IPv4", "IPv6"} {
		own := g.ID
		g.Rules = append(g.Rules, groupRule{ID: uuid.NewString(), Created: sd.now, Direction: "ingress", EtherType: version, RemoteGroup: &own})
	}
}

func (sd seeder) addFlavor(f Flavor) {
	row := &flavor{base: sd.w.newBase("", sd.now), Name: f.Name, VCPUs: f.VCPUs, RAM: f.RAM, Disk: f.Disk, NoHost: f.NoHost}
	row.ID = stableID("flavor/" + f.Name)
	sd.w.Flavors.add(row)
}

func (sd seeder) addNetwork(n Network, project string) {
	row := &network{base: sd.w.newBase(project, sd.now), Name: n.Name, External: n.External, Shared: n.Shared}
	row.ID = stableID("network/" + n.Name)
	sd.w.Networks.add(row)
	for i, text := range n.CIDRs {
		cidr := netip.MustParsePrefix(text).Masked() // validated with the options
		s := &subnet{base: sd.w.newBase(project, sd.now), Name: n.Name, Network: row.ID, CIDR: cidr, Gateway: firstAddress(cidr)}
		if i > 0 {
			s.Name = fmt.Sprintf("%s-%d", n.Name, i+1)
		}
		s.ID = stableID("subnet/" + n.Name + "/" + text)
		sd.w.Subnets.add(s)
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
		seeder{w, now}.furnish(o)
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

func (sd seeder) furnish(o Options) {
	sd.w.Zones = o.Zones
	for _, p := range sd.w.Projects.rows {
		if o.Quota != nil {
			sd.w.Quotas[p.ID] = *o.Quota
		}
	}
	for _, f := range o.Flavors {
		if _, found := sd.w.Flavors.byID[stableID("flavor/"+f.Name)]; !found {
			sd.addFlavor(f)
		}
	}
	for _, n := range o.Networks {
		if _, found := sd.w.Networks.byID[stableID("network/"+n.Name)]; !found {
			sd.addNetwork(n, ownerOf(n))
		}
	}
	for _, i := range o.Images {
		if !sd.w.Seeded[i.key()] {
			sd.w.Seeded[i.key()] = true
			sd.addPublicImage(i)
		}
	}
	for _, f := range o.Foreign {
		if !sd.w.Seeded[f.key()] {
			sd.w.Seeded[f.key()] = true
			sd.addForeign(f)
		}
	}
}

// ownerOf returns the project that owns a network.
func ownerOf(n Network) string {
	if n.Shared || n.External {
		return hexID("project/service")
	}
	return hexID("project/" + User)
}

// addForeign creates an active server without a request.
func (sd seeder) addForeign(f ForeignServer) {
	owner := f.Project
	if owner == "" {
		owner = User
	}
	name := f.Flavor
	if name == "" {
		name = "small"
	}
	size, found := sd.w.Flavors.byID[stableID("flavor/"+name)]
	if !found {
		size = sd.w.Flavors.rows[0]
	}
	s := &server{
		base: sd.w.newBase(hexID("project/"+owner), sd.now), User: hexID("user/" + owner), Name: f.Name, Hostname: hostname(f.Name, ""),
		Flavor: size.ID, VCPUs: size.VCPUs, RAM: size.RAM, Metadata: maps.Clone(f.Metadata), Groups: []string{"default"},
	}
	if s.Metadata == nil {
		s.Metadata = map[string]string{}
	}
	sd.connectForeign(s)
	sd.w.Servers.add(s)
	sd.w.countServer(s, 1)
	sd.w.startBuild(s, sd.now, 0, "")
}

func (sd seeder) connectForeign(s *server) {
	for _, n := range sd.w.Networks.rows {
		if n.Project != s.Project {
			continue
		}
		p := &port{base: sd.w.newBase(s.Project, sd.now), Network: n.ID, OfServer: true, Device: s.ID, Owner: "compute:nova"}
		p.MAC = macAddress(p.Seq)
		sd.w.takeAddresses(p)
		sd.w.addPort(p)
		s.Nics = append(s.Nics, nic{Port: p.ID, Network: n.Name})
		return
	}
}
