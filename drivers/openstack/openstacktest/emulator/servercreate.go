package emulator

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
	if err := in.check(c.micro); err != nil {
		return nil, err
	}
	o := &order{scope: c.scope, micro: c.micro, buildTime: c.cloud.options.BuildTime, in: in, password: in.Server.AdminPass}
	err := c.update(func(w *cloudState) error {
		o.w = w
		if err := o.find(); err != nil {
			return err
		}
		if err := o.checkQuota(); err != nil {
			return err
		}
		return o.createServers()
	})
	if err != nil {
		return nil, err
	}
	return answerServer(c, o)
}

// createServers creates the servers. The only permitted error is a lack of addresses, which it detects before it stores
// anything.
func (o *order) createServers() error {
	reservation := "r-" + strings.ReplaceAll(uuid.NewString(), "-", "")[:8]
	for n := range o.max {
		name := o.in.Server.Name
		if o.max > 1 {
			name = fmt.Sprintf("%s-%d", name, n+1)
		}
		s := o.newServer(name)
		s.Reservation = reservation
		ports, err := o.newNics(s)
		if err != nil && o.first != nil {
			return nil // fewer than requested, since the previous ones exist
		}
		if err != nil {
			return err
		}
		o.addServer(s, ports)
		if o.first == nil {
			o.first = s
		}
	}
	return nil
}

func (o *order) newServer(name string) *server {
	in := &o.in.Server
	s := &server{
		base: o.w.newBase(o.who.project, o.now), User: o.who.user, Name: name, Description: in.Description, Hostname: hostname(name, in.Hostname),
		Flavor: o.flavor.ID, VCPUs: o.flavor.VCPUs, RAM: o.flavor.RAM, Metadata: maps.Clone(in.Metadata), Tags: slices.Clone(in.Tags),
		Zone: in.Zone, ConfigDrive: truthy(in.ConfigDrive), AutoDisk: in.DiskConfig == "AUTO", AccessIPv4: in.AccessIPv4,
		AccessIPv6: in.AccessIPv6,
	}
	if s.Metadata == nil {
		s.Metadata = map[string]string{}
	}
	if o.micro < 19 {
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
	o.applyFault(&s.base)
	return s
}

// addServer adds the server and its objects and starts its build.
func (o *order) addServer(s *server, ports []*port) {
	for _, p := range ports {
		if _, known := o.w.Ports.byID[p.ID]; known {
			o.w.attachPort(p, s.ID, "compute:"+s.Zone, o.now)
			continue
		}
		p.Device, p.Owner = s.ID, "compute:"+s.Zone
		p.ListedFrom, p.Listed = s.ListedFrom, s.Listed
		o.w.addPort(p)
	}
	o.w.Servers.add(s)
	o.w.countServer(s, 1)
	if o.boot != nil {
		o.bootFrom(s)
	}
	o.w.startBuild(s, startOf(&s.base, o.now), o.buildTime, o.buildFault(s))
}

// noValidHost is nova's message, including the trailing space.
const noValidHost = "No valid host was found. "

// buildFault returns why the build must fail, or "".
func (o *order) buildFault(s *server) string {
	f, fails := o.effect(ServerError)
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

func answerServer(c *call, o *order) (*answer, error) {
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
	links := c.views().links("servers", s.ID)
	a, err := accepted(view{"server": view{
		"id": s.ID, "links": links, "OS-DCF:diskConfig": disk, "security_groups": groups, "adminPass": o.password,
	}})
	return a.with("Location", links[0].Href), err
}

// bootFrom creates or attaches the server's root volume.
func (o *order) bootFrom(s *server) {
	v := o.boot.volume
	if v == nil {
		v = &volume{base: o.w.newBase(o.who.project, o.now), SizeGB: o.boot.size, ImageID: o.boot.imageID(), Bootable: true, Zone: "nova"}
		v.ListedFrom, v.Listed = s.ListedFrom, s.Listed
		o.w.Volumes.add(v)
		o.w.countVolume(v, 1)
	}
	v.Status, v.Server, v.Device, v.Attached = "in-use", s.ID, "/dev/vda", o.now
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
