package emulator

import (
	"time"
)

// serverView is compute's complete representation of a server. It is a struct rather than a map since lists are long.
type serverView struct {
	ID            string                   `json:"id"`
	Name          string                   `json:"name"`
	Status        string                   `json:"status"`
	TenantID      string                   `json:"tenant_id"`
	UserID        string                   `json:"user_id"`
	Metadata      map[string]string        `json:"metadata"`
	HostID        string                   `json:"hostId"`
	Image         any                      `json:"image"`
	Flavor        any                      `json:"flavor"`
	Created       string                   `json:"created"`
	Updated       string                   `json:"updated"`
	Addresses     map[string][]addressView `json:"addresses"`
	AccessIPv4    string                   `json:"accessIPv4"`
	AccessIPv6    string                   `json:"accessIPv6"`
	Links         []linkView               `json:"links"`
	DiskConfig    string                   `json:"OS-DCF:diskConfig"`
	Fault         *faultView               `json:"fault,omitempty"`
	Progress      *int                     `json:"progress,omitempty"`
	Zone          string                   `json:"OS-EXT-AZ:availability_zone"`
	ConfigDrive   string                   `json:"config_drive"`
	KeyName       *string                  `json:"key_name"`
	Launched      *string                  `json:"OS-SRV-USG:launched_at"`
	Terminated    *string                  `json:"OS-SRV-USG:terminated_at"`
	Groups        []nameView               `json:"security_groups,omitempty"`
	Task          *string                  `json:"OS-EXT-STS:task_state"`
	VM            string                   `json:"OS-EXT-STS:vm_state"`
	Power         int                      `json:"OS-EXT-STS:power_state"`
	Volumes       []volumeLinkView         `json:"os-extended-volumes:volumes_attached"`
	Locked        *bool                    `json:"locked,omitempty"`
	LockedReason  *nullable                `json:"locked_reason,omitempty"`
	Description   *nullable                `json:"description,omitempty"`
	Tags          *[]string                `json:"tags,omitempty"`
	Certificates  *nullable                `json:"trusted_image_certificates,omitempty"`
	Hostname      *string                  `json:"OS-EXT-SRV-ATTR:hostname,omitempty"`
	ServerGroups  *[]string                `json:"server_groups,omitempty"`
	AdminPassword string                   `json:"adminPass,omitempty"`
}

type (
	nameView struct {
		Name string `json:"name"`
	}
	linkView struct {
		Rel  string `json:"rel"`
		Href string `json:"href"`
	}
	faultView struct {
		Code    int    `json:"code"`
		Created string `json:"created"`
		Message string `json:"message"`
		Details string `json:"details,omitempty"`
	}
	addressView struct {
		Version int    `json:"version"`
		Address string `json:"addr"`
		Type    string `json:"OS-EXT-IPS:type"`
		MAC     string `json:"OS-EXT-IPS-MAC:mac_addr"`
	}
	volumeLinkView struct {
		ID     string `json:"id"`
		Delete *bool  `json:"delete_on_termination,omitempty"`
	}
	refView struct {
		ID    string     `json:"id"`
		Links []linkView `json:"links"`
	}
	briefView struct {
		ID    string     `json:"id"`
		Name  string     `json:"name"`
		Links []linkView `json:"links"`
	}
	// embeddedFlavorView is part of servers since microversion 2.47.
	embeddedFlavorView struct {
		VCPUs     int64             `json:"vcpus"`
		RAM       int64             `json:"ram"`
		Disk      int64             `json:"disk"`
		Ephemeral int64             `json:"ephemeral"`
		Swap      int64             `json:"swap"`
		Name      string            `json:"original_name"`
		Specs     map[string]string `json:"extra_specs"`
	}
)

// nullable is a text that is null when absent, in a field that old microversions omit.
type nullable struct{ text *string }

// MarshalJSON writes the text or null.
func (n nullable) MarshalJSON() ([]byte, error) { return jsonText(n.text) }

// computeViews represents objects as the compute API does.
type computeViews struct {
	base  string // URL of the cloud
	micro micro
	now   time.Time
}

func (c *call) views() computeViews { return computeViews{c.base(), c.micro, c.now} }

func (cv computeViews) links(collection, id string) []linkView {
	root := cv.base + "/compute"
	return []linkView{
		{"self", root + "/v2.1/" + collection + "/" + id},
		{"bookmark", root + "/" + collection + "/" + id},
	}
}

func (cv computeViews) briefServer(s *server) briefView {
	return briefView{s.ID, s.Name, cv.links("servers", s.ID)}
}

// serverView returns the complete representation. It contains only copies, because it is written after the lock is
// released.
func (cv computeViews) serverView(w *cloudState, s *server) *serverView {
	v := &serverView{
		ID: s.ID, Name: s.Name, Status: s.Status, TenantID: s.Project, UserID: s.User, Metadata: s.Metadata,
		HostID: s.hostID(), Image: cv.imageRef(s), Flavor: cv.flavorRef(w, s), Created: shortTime(s.Created),
		Updated: shortTime(s.Updated), Addresses: addressesOf(w, s, cv.now), AccessIPv4: s.AccessIPv4, AccessIPv6: s.AccessIPv6,
		Links: cv.links("servers", s.ID), DiskConfig: "MANUAL", Zone: s.Zone, Task: textOrNil(s.Task), Power: s.Power,
		KeyName: textOrNil(s.Key), VM: vmState(s.Status), Volumes: []volumeLinkView{},
	}
	if s.AutoDisk {
		v.DiskConfig = "AUTO"
	}
	if s.ConfigDrive {
		v.ConfigDrive = "True"
	}
	if s.Launched != nil {
		at := s.Launched.UTC().Format("2006-01-02T15:04:05.000000")
		v.Launched = &at
	}
	if s.Status == "ACTIVE" || s.Status == "BUILD" {
		v.Progress = new(int)
	}
	if s.Trouble != nil && s.Status == "ERROR" {
		v.Fault = &faultView{s.Trouble.Code, shortTime(s.Trouble.Created), s.Trouble.Message, s.Trouble.Details}
	}
	for _, name := range s.shownGroups() {
		v.Groups = append(v.Groups, nameView{name})
	}
	cv.addByVersion(v, s)
	return v
}

// addByVersion adds the fields of newer microversions.
func (cv computeViews) addByVersion(v *serverView, s *server) {
	for _, a := range s.Volumes {
		link := volumeLinkView{ID: a.Volume}
		if cv.micro >= 3 {
			link.Delete = &a.DeleteWithMachine
		}
		v.Volumes = append(v.Volumes, link)
	}
	if cv.micro >= 9 {
		v.Locked = new(bool)
	}
	if cv.micro >= 19 {
		v.Description = &nullable{s.Description}
	}
	if cv.micro >= 26 {
		tags := list(s.Tags)
		v.Tags = &tags
	}
	if cv.micro >= 63 {
		v.Certificates = &nullable{}
	}
	if cv.micro >= 73 {
		v.LockedReason = &nullable{}
	}
	if cv.micro >= 90 {
		hostname := s.Hostname
		v.Hostname = &hostname
	}
}

// shownGroups returns the groups of the server's ports, none before it has ports.
func (s *server) shownGroups() []string {
	if s.Host == "" {
		return nil
	}
	return s.Groups
}

func vmState(status string) string {
	switch status {
	case "ACTIVE":
		return "active"
	case "BUILD":
		return "building"
	case "SHUTOFF":
		return "stopped"
	default:
		return "error"
	}
}

// imageRef is "" for a server that boots from a volume, as in nova.
func (cv computeViews) imageRef(s *server) any {
	if s.Image == "" {
		return ""
	}
	return refView{s.Image, cv.links("images", s.Image)[1:]}
}

func (cv computeViews) flavorRef(w *cloudState, s *server) any {
	if cv.micro < 47 {
		return refView{s.Flavor, cv.links("flavors", s.Flavor)[1:]}
	}
	v := embeddedFlavorView{VCPUs: s.VCPUs, RAM: s.RAM, Specs: map[string]string{}}
	if f, found := w.Flavors.byID[s.Flavor]; found {
		v.Disk, v.Name = f.Disk, f.Name
	}
	return v
}

// addressesOf groups addresses by network. Before the server has a host, compute reports none.
func addressesOf(w *cloudState, s *server, now time.Time) map[string][]addressView {
	all := map[string][]addressView{}
	if s.Host == "" {
		return all
	}
	for _, n := range s.Nics {
		p, found := w.Ports.byID[n.Port]
		if !found || p.Device != s.ID {
			continue
		}
		for _, f := range p.FixedIPs {
			all[n.Network] = append(all[n.Network], newAddress(f.Address.String(), f.Address.Is4(), "fixed", p.MAC))
		}
		if f := w.floatingOf[p.ID]; f != nil && !now.Before(f.Shown) {
			all[n.Network] = append(all[n.Network], newAddress(f.Address.String(), true, "floating", p.MAC))
		}
	}
	return all
}

func newAddress(text string, four bool, kind, mac string) addressView {
	version := 6
	if four {
		version = 4
	}
	return addressView{version, text, kind, mac}
}

func textOrNil(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
