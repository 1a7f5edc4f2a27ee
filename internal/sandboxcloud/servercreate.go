package sandboxcloud

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// serverRequest is what nova's schema of a new server allows, as far as a member of a project may use it.
type serverRequest struct {
	Server struct {
		Name         string            `json:"name"`
		Image        string            `json:"imageRef"`
		Flavor       flexible          `json:"flavorRef"`
		Metadata     map[string]string `json:"metadata"`
		AdminPass    string            `json:"adminPass"`
		Networks     json.RawMessage   `json:"networks"`
		Key          *string           `json:"key_name"`
		UserData     *string           `json:"user_data"`
		Zone         string            `json:"availability_zone"`
		ConfigDrive  any               `json:"config_drive"`
		DiskConfig   string            `json:"OS-DCF:diskConfig"`
		AccessIPv4   string            `json:"accessIPv4"`
		AccessIPv6   string            `json:"accessIPv6"`
		MinCount     flexible          `json:"min_count"`
		MaxCount     flexible          `json:"max_count"`
		Reservation  any               `json:"return_reservation_id"`
		Description  *string           `json:"description"`
		Hostname     string            `json:"hostname"`
		Tags         []string          `json:"tags"`
		Personality  []any             `json:"personality"`
		Certificates []string          `json:"trusted_image_certificates"`
		Groups       []struct {
			Name string `json:"name"`
		} `json:"security_groups"`
		Blocks []blockRequest `json:"block_device_mapping_v2"`
	} `json:"server"`
	Hints  map[string]any `json:"os:scheduler_hints"`
	Hints2 map[string]any `json:"OS-SCH-HNT:scheduler_hints"`
}

// blockRequest is one entry of block_device_mapping_v2.
type blockRequest struct {
	UUID        string   `json:"uuid"`
	Source      string   `json:"source_type"`
	Destination string   `json:"destination_type"`
	BootIndex   flexible `json:"boot_index"`
	Size        flexible `json:"volume_size"`
	VolumeType  string   `json:"volume_type"`
	Delete      any      `json:"delete_on_termination"`
	DeviceName  string   `json:"device_name"`
	DeviceType  string   `json:"device_type"`
	DiskBus     string   `json:"disk_bus"`
	GuestFormat string   `json:"guest_format"`
	NoDevice    any      `json:"no_device"`
	Tag         string   `json:"tag"`
}

// flexible is a text or number, as nova's schemas allow both in places.
type flexible string

// UnmarshalJSON takes either.
func (f *flexible) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		return nil
	}
	*f = flexible(strings.Trim(string(text), `"`))
	return nil
}

func (f flexible) number(otherwise int64) (int64, error) {
	if f == "" {
		return otherwise, nil
	}
	var n int64
	if _, err := fmt.Sscanf(string(f), "%d", &n); err != nil {
		return 0, badRequest("Invalid input for field/attribute. Value: %s. '%s' is not an integer", f, f)
	}
	return n, nil
}

// maxUserData is nova's bound on encoded user data.
const maxUserData = 65535

// order is a checked request: everything it names exists.
type order struct {
	in       *serverRequest
	flavor   *flavor
	image    *image // nil when booting from a volume that exists
	boot     *bootVolume
	networks []nicOrder
	groups   []*securityGroup
	min, max int64
	first    *server // the first one made
	password string
}

// nicOrder is an interface to make.
type nicOrder struct {
	network *network
	port    *port // made before, or nil
	fixed   string
	tag     string
}

func createServer(c *call) (*answer, error) {
	in := &serverRequest{}
	if err := c.decode(in); err != nil {
		return nil, err
	}
	if err := c.checkServerRequest(in); err != nil {
		return nil, err
	}
	var o *order
	err := c.update(func(w *world) (err error) {
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

// checkServerRequest is what the API's schema finds before it looks anything up.
func (c *call) checkServerRequest(in *serverRequest) error {
	s := &in.Server
	switch {
	case strings.TrimSpace(s.Name) == "":
		return badRequest("Invalid input for field/attribute name. Value: %s. '%s' is too short", s.Name, s.Name)
	case len(s.Name) > 255:
		return badRequest("Invalid input for field/attribute name. Value: %s. '%s' is too long", s.Name, s.Name)
	case s.Flavor == "":
		return badRequest("Invalid input for field/attribute server. 'flavorRef' is a required property")
	case s.Networks == nil && c.micro >= 37:
		return badRequest("Invalid input for field/attribute server. 'networks' is a required property")
	case s.Tags != nil && c.micro < 52:
		return badRequest("Additional properties are not allowed ('tags' was unexpected)")
	case s.Description != nil && c.micro < 19:
		return badRequest("Additional properties are not allowed ('description' was unexpected)")
	case s.Hostname != "" && c.micro < 90:
		return badRequest("Additional properties are not allowed ('hostname' was unexpected)")
	case len(s.Metadata) > 128:
		return refuse(http.StatusForbidden, "Maximum number of metadata items exceeds 128")
	}
	for key, value := range s.Metadata {
		if len(key) > 255 || len(value) > 255 || key == "" {
			return badRequest("Invalid input for field/attribute %s. Value: %s. '%s' is too long", key, value, value)
		}
	}
	return checkUserData(s.UserData)
}

func checkUserData(text *string) error {
	if text == nil {
		return nil
	}
	if len(*text) > maxUserData {
		return badRequest("Invalid input for field/attribute user_data. Value: %s. '%s' is too long", (*text)[:32], (*text)[:32])
	}
	// As in Python's decoder what is not of the alphabet does not count.
	clean := strings.Map(func(r rune) rune {
		if r == '+' || r == '/' || r == '=' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return -1
	}, *text)
	if _, err := base64.StdEncoding.DecodeString(clean); err != nil {
		return badRequest("Invalid input for field/attribute user_data. Value: %s. '%s' is not a 'base64'", *text, *text)
	}
	return nil
}

// newOrder looks up everything the request names.
func (c *call) newOrder(w *world, in *serverRequest) (*order, error) {
	o := &order{in: in, password: in.Server.AdminPass}
	var err error
	if o.min, err = in.Server.MinCount.number(1); err != nil {
		return nil, err
	}
	if o.max, err = in.Server.MaxCount.number(o.min); err != nil {
		return nil, err
	}
	if o.min > o.max {
		return nil, badRequest("min_count must be <= max_count")
	}
	if o.min < 1 {
		return nil, badRequest("Invalid input for field/attribute min_count. Value: %d. %d is less than the minimum of 1", o.min, o.min)
	}
	if zone := in.Server.Zone; zone != "" && zone != "nova" && !slices.Contains(w.Zones, zone) {
		return nil, badRequest("The requested availability zone is not available")
	}
	for _, step := range []func(*world, *order) error{c.orderFlavor, c.orderImage, c.orderBoot, c.orderKey, c.orderGroups, c.orderNetworks} {
		if err := step(w, o); err != nil {
			return nil, err
		}
	}
	return o, nil
}

func (c *call) orderFlavor(w *world, o *order) error {
	ref := string(o.in.Server.Flavor)
	ref = ref[strings.LastIndexByte(ref, '/')+1:] // it may be a link
	f, found := w.Flavors.get(ref, c.now)
	if !found {
		return badRequest("Flavor %s could not be found.", ref)
	}
	o.flavor = f
	return nil
}

func (c *call) orderImage(w *world, o *order) error {
	ref := o.in.Server.Image
	if ref == "" {
		if len(o.in.Server.Blocks) == 0 {
			return badRequest("Invalid imageRef provided.")
		}
		return nil
	}
	i, err := c.bootable(w, ref, o.flavor, true)
	o.image = i
	return err
}

// bootable finds an image that a server may start from.
func (c *call) bootable(w *world, id string, f *flavor, local bool) (*image, error) {
	i, found := w.Images.get(id, c.now)
	switch {
	case !found || !i.visible(c.who.project):
		return nil, badRequest("Can not find requested image")
	case i.Status != "active":
		return nil, badRequest("Image %s is not active.", id)
	case i.MinRAM > f.RAM:
		return nil, badRequest("Flavor's memory is too small for requested image.")
	case local && f.Disk > 0 && i.MinDisk > f.Disk:
		return nil, badRequest("Flavor's disk is smaller than the minimum size specified in image metadata. Flavor disk is %d bytes, minimum size is %d bytes.",
			f.Disk<<30, i.MinDisk<<30)
	case local && f.Disk > 0 && i.Size != nil && *i.Size > f.Disk<<30:
		return nil, badRequest("Flavor's disk is too small for requested image. Flavor disk is %d bytes, image is %d bytes.", f.Disk<<30, *i.Size)
	}
	return i, nil
}

func (c *call) orderKey(w *world, o *order) error {
	name := o.in.Server.Key
	if name == nil || *name == "" {
		return nil
	}
	for k := range w.Keys.oldestFirst(c.now) {
		if k.User == c.who.user && k.Name == *name {
			return nil
		}
	}
	return badRequest("Invalid key_name provided.")
}

func (c *call) orderGroups(w *world, o *order) error {
	refs := o.in.Server.Groups
	if len(refs) == 0 {
		refs = append(refs, struct {
			Name string `json:"name"`
		}{"default"})
	}
	for _, ref := range refs {
		g, err := w.findGroup(c.who.project, ref.Name, c.now)
		if err != nil {
			return badRequest("Unable to find security_group with name or id '%s'", ref.Name)
		}
		o.groups = append(o.groups, g)
	}
	return nil
}

// keepServers makes the servers. Nothing in it may fail but for want of addresses, which is found before anything is kept.
func (c *call) keepServers(w *world, o *order) error {
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
			return nil // fewer than asked for, since those before are made
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

func (c *call) newServer(w *world, o *order, name string) *server {
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
	c.bend(&s.base)
	return s
}

func truthy(value any) bool {
	switch v := value.(type) {
	case bool:
		return v
	case string:
		return strings.EqualFold(v, "true") || v == "1" || strings.EqualFold(v, "yes")
	}
	return false
}

func hostname(name, wanted string) string {
	if wanted != "" {
		return wanted
	}
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-':
			return r
		case r == ' ', r == '_', r == '.':
			return '-'
		}
		return -1
	}, strings.ToLower(name))
	return strings.Trim(clean[:min(63, len(clean))], "-")
}

// keepServer adds the server with all that is its own and starts its build.
func (c *call) keepServer(w *world, o *order, s *server, ports []*port) {
	for _, p := range ports {
		if _, known := w.Ports.byID[p.ID]; known {
			w.attachPort(p, s.ID, "compute:"+s.Zone, c.now)
			continue
		}
		p.Device, p.Owner = s.ID, "compute:"+s.Zone
		p.Appears, p.Listed = s.Appears, s.Listed
		w.addPort(p)
	}
	w.Servers.add(s)
	w.countServer(s, 1)
	if o.boot != nil {
		c.bootFrom(w, o, s)
	}
	w.startBuild(s, startOf(&s.base, c.now), c.cloud.options.BuildTime, c.buildFault(o, s))
}

// noValidHost is nova's message, with its space at the end.
const noValidHost = "No valid host was found. "

// buildFault is why the build is to fail; empty when it is not.
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

// checkServerQuota refuses in nova's words.
func (c *call) checkServerQuota(w *world, o *order) error {
	q, u := w.quota(c.who.project), w.use(c.who.project)
	var over, requested, used, allowed []string
	check := func(name string, more, have, limit int64) {
		if limit >= 0 && have+more > limit {
			over, requested = append(over, name), append(requested, fmt.Sprint(more))
			used, allowed = append(used, fmt.Sprint(have)), append(allowed, fmt.Sprint(limit))
		}
	}
	if err := c.checkPortQuota(w, o); err != nil {
		return err
	}
	check("cores", o.max*o.flavor.VCPUs, u.cores, q.Cores)
	check("instances", o.max, u.instances, q.Instances)
	check("ram", o.max*o.flavor.RAM, u.ram, q.RAM)
	if over != nil {
		names := strings.Join(over, ", ")
		return refuse(http.StatusForbidden, "Quota exceeded for %s: Requested %s, but already used %s of %s %s",
			names, strings.Join(requested, ", "), strings.Join(used, ", "), strings.Join(allowed, ", "), names)
	}
	return nil
}

func (c *call) checkPortQuota(w *world, o *order) error {
	var more int64
	for _, n := range o.networks {
		if n.port == nil {
			more += o.max
		}
	}
	q, u := w.quota(c.who.project), w.use(c.who.project)
	if q.Ports >= 0 && u.ports+more > q.Ports {
		return refuse(http.StatusForbidden, "Maximum number of ports exceeded")
	}
	return nil
}

// newNics makes or takes the ports of one server. When addresses run out, those taken are given back.
func (c *call) newNics(w *world, o *order, s *server) ([]*port, error) {
	var ports []*port
	groupIDs := make([]string, 0, len(o.groups))
	for _, g := range o.groups {
		groupIDs = append(groupIDs, g.ID)
	}
	for _, n := range o.networks {
		p := n.port
		if p == nil {
			p = &port{base: w.newBase(c.who.project, c.now), Network: n.network.ID, Groups: groupIDs, OfServer: true}
			p.MAC = macAddress(p.Seq)
			if !w.number(p, n.fixed) {
				for _, earlier := range append(ports, p) {
					w.giveBack(earlier)
				}
				return nil, badRequest("No fixed IP addresses available for network: %s", n.network.ID)
			}
		}
		ports = append(ports, p)
		s.Nics = append(s.Nics, nic{Port: p.ID, Network: n.network.Name, Tag: n.tag})
	}
	return ports, nil
}

func (w *world) number(p *port, fixed string) bool {
	if fixed == "" {
		return w.takeAddresses(p)
	}
	s, err := w.subnetFor(p.Network, "", fixed)
	if err != nil {
		return false
	}
	a, err := w.claim(s, fixed, p.ID)
	if err != nil {
		return false
	}
	p.FixedIPs = []fixedIP{{s.ID, a}}
	return true
}

// giveBack frees the addresses of a port that is not kept after all.
func (w *world) giveBack(p *port) {
	if _, kept := w.Ports.byID[p.ID]; kept {
		return
	}
	for _, f := range p.FixedIPs {
		delete(w.addresses, f.Address)
	}
}

// orderNetworks finds what the server is to be connected to.
func (c *call) orderNetworks(w *world, o *order) error {
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
		return c.orderAnyNetwork(w, o)
	}
	for _, one := range wanted {
		n, err := c.orderNic(w, one.UUID, one.Port, one.FixedIP, o.max)
		if err != nil {
			return err
		}
		n.tag = one.Tag
		o.networks = append(o.networks, n)
	}
	return nil
}

func (c *call) orderNic(w *world, networkID, portID, fixed string, count int64) (nicOrder, error) {
	if portID != "" {
		return c.orderPort(w, portID, count)
	}
	n, found := w.Networks.get(networkID, c.now)
	if !found || !n.visible(c.who.project) {
		return nicOrder{}, badRequest("Network %s could not be found.", networkID)
	}
	if fixed != "" {
		if a, err := netip.ParseAddr(fixed); err != nil {
			return nicOrder{}, badRequest("Invalid fixed IP address (%s)", fixed)
		} else if _, used := w.addresses[a]; used {
			return nicOrder{}, badRequest("Fixed IP address %s is already in use on instance.", fixed)
		}
	}
	return nicOrder{network: n, fixed: fixed}, nil
}

func (c *call) orderPort(w *world, id string, count int64) (nicOrder, error) {
	p, found := w.Ports.get(id, c.now)
	switch {
	case !found || !c.owns(&p.base):
		return nicOrder{}, badRequest("Port id %s could not be found.", id)
	case p.Device != "":
		return nicOrder{}, refuse(http.StatusConflict, "Port %s is still in use.", id)
	case count > 1:
		return nicOrder{}, badRequest("Unable to launch multiple instances with a single configured port ID. Please launch your instance one by one with different ports.")
	}
	n, _ := w.Networks.get(p.Network, c.now)
	return nicOrder{network: n, port: p}, nil
}

// orderAnyNetwork is what happens when no network is named: the one the project has, if there is just one.
func (c *call) orderAnyNetwork(w *world, o *order) error {
	var own, shared []*network
	for n := range w.Networks.oldestFirst(c.now) {
		switch {
		case n.Project == c.who.project && !n.External:
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

// bootFrom gives the server its root volume.
func (c *call) bootFrom(w *world, o *order, s *server) {
	v := o.boot.volume
	if v == nil {
		v = &volume{base: w.newBase(c.who.project, c.now), SizeGB: o.boot.size, ImageID: o.boot.imageID(), Bootable: true, Zone: "nova"}
		v.Appears, v.Listed = s.Appears, s.Listed
		w.Volumes.add(v)
		w.countVolume(v, 1)
	}
	v.Status, v.Server, v.Device, v.Attached = "in-use", s.ID, "/dev/vda", c.now
	v.AttachmentID = uuid.NewString()
	s.Volumes = []attached{{v.ID, v.Device, o.boot.delete}}
}

// startOf is when the life of something begins that a fault may make late.
func startOf(b *base, now time.Time) time.Time {
	if b.Appears.After(now) {
		return b.Appears
	}
	return now
}
