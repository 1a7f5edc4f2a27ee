package sandboxcloud

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

func createServer(c *call) (*answer, error) {
	in := &serverRequest{}
	if err := c.decode(in); err != nil {
		return nil, err
	}
	if err := c.checkServerRequest(in); err != nil {
		return nil, err
	}
	var o *order
	err := c.update(func(w *cloudState) (err error) {
		if o, err = c.newOrder(w, in); err != nil {
			return err
		}
		if err = c.checkServerQuota(w, o); err != nil {
			return err
		}
		return c.keepServers(w, o)
	})
	if err != nil {
		return nil, err
	}
	return c.answerServer(o)
}

// keepServers creates the servers. The only permitted error is a lack of addresses, which it detects before it stores
// anything.
func (c *call) keepServers(w *cloudState, o *order) error {
	reservation := "r-" + strings.ReplaceAll(uuid.NewString(), "-", "")[:8]
	for n := range o.max {
		name := o.in.Server.Name
		if o.max > 1 {
			name = fmt.Sprintf("%s-%d", name, n+1)
		}
		s := c.newServer(w, o, name)
		s.Reservation = reservation
		ports, err := c.newNics(w, o, s)
		if err != nil && o.first != nil {
			return nil // fewer than requested, since the previous ones exist
		}
		if err != nil {
			return err
		}
		c.keepServer(w, o, s, ports)
		if o.first == nil {
			o.first = s
		}
	}
	return nil
}

func (c *call) newServer(w *cloudState, o *order, name string) *server {
	in := &o.in.Server
	s := &server{
		base: w.newBase(c.who.project, c.now), User: c.who.user, Name: name, Description: in.Description, Hostname: hostname(name, in.Hostname),
		Flavor: o.flavor.ID, VCPUs: o.flavor.VCPUs, RAM: o.flavor.RAM, Metadata: maps.Clone(in.Metadata), Tags: slices.Clone(in.Tags),
		Zone: in.Zone, ConfigDrive: truthy(in.ConfigDrive), AutoDisk: in.DiskConfig == "AUTO", AccessIPv4: in.AccessIPv4,
		AccessIPv6: in.AccessIPv6,
	}
	if s.Metadata == nil {
		s.Metadata = map[string]string{}
	}
	if c.micro < 19 {
		s.Description = &s.Name
	}
	if o.image != nil && o.boot == nil {
		s.Image = o.image.ID
	}
	if in.Key != nil {
		s.Key = *in.Key
	}
	if in.UserData != nil {
		s.UserDataLen = len(*in.UserData)
	}
	for _, g := range o.groups {
		s.Groups = append(s.Groups, g.Name)
	}
	c.applyFault(&s.base)
	return s
}

// keepServer adds the server and its objects and starts its build.
func (c *call) keepServer(w *cloudState, o *order, s *server, ports []*port) {
	for _, p := range ports {
		if _, known := w.Ports.byID[p.ID]; known {
			w.attachPort(p, s.ID, "compute:"+s.Zone, c.now)
			continue
		}
		p.Device, p.Owner = s.ID, "compute:"+s.Zone
		p.ListedFrom, p.Listed = s.ListedFrom, s.Listed
		w.addPort(p)
	}
	w.Servers.add(s)
	w.countServer(s, 1)
	if o.boot != nil {
		c.bootFrom(w, o, s)
	}
	w.startBuild(s, startOf(&s.base, c.now), c.cloud.options.BuildTime, c.buildFault(o, s))
}

// noValidHost is nova's message, including the trailing space.
const noValidHost = "No valid host was found. "

// buildFault returns why the build must fail, or "".
func (c *call) buildFault(o *order, s *server) string {
	f, fails := c.effect(ServerError)
	switch {
	case fails && f.Message != "":
		return f.Message
	case fails || o.flavor.NoHost:
		return noValidHost
	}
	for _, n := range o.networks {
		if n.network.External && !n.network.Shared && n.port == nil {
			return "Build of instance " + s.ID + " aborted: Failed to allocate the network(s), not rescheduling."
		}
	}
	return ""
}

func (c *call) answerServer(o *order) (*answer, error) {
	s := o.first
	if truthy(o.in.Server.Reservation) {
		return accepted(view{"reservation_id": s.Reservation})
	}
	if o.password == "" {
		o.password = strings.ReplaceAll(uuid.NewString(), "-", "")[:12]
	}
	groups := []nameView{}
	for _, g := range o.groups {
		groups = append(groups, nameView{g.Name})
	}
	disk := "MANUAL"
	if s.AutoDisk {
		disk = "AUTO"
	}
	links := c.links("servers", s.ID)
	a, err := accepted(view{"server": view{
		"id": s.ID, "links": links, "OS-DCF:diskConfig": disk, "security_groups": groups, "adminPass": o.password,
	}})
	return a.with("Location", links[0].Href), err
}

// bootFrom creates or attaches the server's root volume.
func (c *call) bootFrom(w *cloudState, o *order, s *server) {
	v := o.boot.volume
	if v == nil {
		v = &volume{base: w.newBase(c.who.project, c.now), SizeGB: o.boot.size, ImageID: o.boot.imageID(), Bootable: true, Zone: "nova"}
		v.ListedFrom, v.Listed = s.ListedFrom, s.Listed
		w.Volumes.add(v)
		w.countVolume(v, 1)
	}
	v.Status, v.Server, v.Device, v.Attached = "in-use", s.ID, "/dev/vda", c.now
	v.AttachmentID = uuid.NewString()
	s.Volumes = []attached{{v.ID, v.Device, o.boot.delete}}
}

// startOf returns the start time of an object, which a fault may delay.
func startOf(b *base, now time.Time) time.Time {
	if b.ListedFrom.After(now) {
		return b.ListedFrom
	}
	return now
}
