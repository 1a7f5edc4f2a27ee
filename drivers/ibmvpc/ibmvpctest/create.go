package ibmvpctest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

type identity struct {
	ID string `json:"id"`
}

type named struct {
	Name string `json:"name"`
}

type instanceRequest struct {
	Name             string           `json:"name"`
	Profile          named            `json:"profile"`
	VPC              identity         `json:"vpc"`
	Zone             named            `json:"zone"`
	Image            identity         `json:"image"`
	Keys             []identity       `json:"keys"`
	UserData         string           `json:"user_data"`
	ResourceGroup    *identity        `json:"resource_group"`
	BootVolume       *bootRequest     `json:"boot_volume_attachment"`
	PrimaryInterface interfaceRequest `json:"primary_network_interface"`
}

type bootRequest struct {
	Delete bool          `json:"delete_volume_on_instance_delete"`
	Volume volumeRequest `json:"volume"`
}

type volumeRequest struct {
	Name     string   `json:"name"`
	Profile  named    `json:"profile"`
	Capacity int64    `json:"capacity"`
	UserTags []string `json:"user_tags"`
}

type interfaceRequest struct {
	Name           string     `json:"name"`
	Subnet         identity   `json:"subnet"`
	SecurityGroups []identity `json:"security_groups"`
}

type floatingIPRequest struct {
	Name          string    `json:"name"`
	Target        identity  `json:"target"`
	ResourceGroup *identity `json:"resource_group"`
}

type imageRequest struct {
	Name string `json:"name"`
	File struct {
		Href string `json:"href"`
	} `json:"file"`
	OperatingSystem named     `json:"operating_system"`
	ResourceGroup   *identity `json:"resource_group"`
}

func decode(r *http.Request, into any) *fault {
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil || r.Header.Get("Content-Type") != "application/json" {
		return bad("bad_field", "the body is wrong: %v", err)
	}
	return nil
}

func (s *Server) create(collection string, r *http.Request) (doc, *fault) {
	switch collection {
	case "instances":
		var in instanceRequest
		if f := decode(r, &in); f != nil {
			return nil, f
		}
		return s.createInstance(in)
	case "floating_ips":
		var in floatingIPRequest
		if f := decode(r, &in); f != nil {
			return nil, f
		}
		return s.createFloatingIP(in)
	case "images":
		var in imageRequest
		if f := decode(r, &in); f != nil {
			return nil, f
		}
		return s.createImage(in)
	}
	return nil, &fault{status: http.StatusMethodNotAllowed, Code: "method_not_allowed", Message: "POST"}
}

var (
	validName = regexp.MustCompile(`^([a-z]|[a-z][-a-z0-9]*[a-z0-9])$`)
	validTag  = regexp.MustCompile(`^[A-Za-z0-9:_ .-]{1,128}$`)
	validFile = regexp.MustCompile(`^cos://` + Region + `/` + Bucket + `/([^/]+\.(?:qcow2|vhd))$`)
)

// checkName checks a new name.
func (s *Server) checkName(collection, name string) *fault {
	if len(name) > 63 || !validName.MatchString(name) {
		return bad("validation_invalid_name", "name %q", name)
	}
	if slices.ContainsFunc(s.collections[collection], func(d doc) bool { return d["name"] == name }) {
		f := bad("validation_unique_failed", "Provided Name (%s) is not unique", name)
		f.Target = &target{"name", "field", name}
		return f
	}
	return nil
}

func (s *Server) checkGroup(group *identity) *fault {
	if group != nil && !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(group.ID) {
		return bad("bad_field", "resource group %q", group.ID)
	}
	return nil
}

func firstFault(all ...*fault) *fault {
	for _, f := range all {
		if f != nil {
			return f
		}
	}
	return nil
}

// mustFind checks that an object exists.
func (s *Server) mustFind(collection, id string) *fault {
	if s.find(collection, id) == nil {
		return notFound(collection, id)
	}
	return nil
}

func (s *Server) createInstance(in instanceRequest) (doc, *fault) {
	if in.BootVolume == nil {
		return nil, bad("validation_required_field", "boot_volume_attachment")
	}
	boot := in.BootVolume.Volume
	f := firstFault(s.checkName("instances", in.Name), s.checkName("volumes", boot.Name), s.checkGroup(in.ResourceGroup), s.mustFind("vpcs", in.VPC.ID),
		s.mustFind("images", in.Image.ID), s.mustFind("subnets", in.PrimaryInterface.Subnet.ID))
	for _, key := range in.Keys {
		f = firstFault(f, s.mustFind("keys", key.ID))
	}
	for _, group := range in.PrimaryInterface.SecurityGroups {
		f = firstFault(f, s.mustFind("security_groups", group.ID))
	}
	if f != nil {
		return nil, f
	}
	i := slices.IndexFunc(s.collections["profiles"], func(d doc) bool { return d["name"] == in.Profile.Name })
	subnet := s.find("subnets", in.PrimaryInterface.Subnet.ID)
	tags := []string{}
	for _, tag := range boot.UserTags {
		if !validTag.MatchString(tag) {
			return nil, bad("bad_field", "tag %q", tag)
		}
		tags = append(tags, strings.ToLower(tag)) // tags are case-insensitive
	}
	refused := s.refusals[in.Profile.Name]
	switch {
	case i < 0:
		return nil, bad("bad_field", "profile %q", in.Profile.Name)
	case subnet.at("zone").text("name") != in.Zone.Name:
		return nil, bad("bad_field", "the subnet is not in zone %q", in.Zone.Name)
	case !slices.Contains([]string{"general-purpose", "5iops-tier", "10iops-tier"}, boot.Profile.Name) || boot.Capacity != 0 && (boot.Capacity < 10 || boot.Capacity > 250):
		return nil, bad("bad_field", "volume profile %q, capacity %d", boot.Profile.Name, boot.Capacity)
	case s.MaxInstances > 0 && len(s.collections["instances"]) >= s.MaxInstances:
		return nil, bad("over_quota", "The request would exceed the quota for a resource type.")
	case refused != nil:
		refused.requests++
		return nil, bad(refused.code, "Zone %s has no capacity for %s.", in.Zone.Name, in.Profile.Name)
	}
	profile := s.collections["profiles"][i]
	d := s.add("instances", "instance", doc{
		"name": in.Name, "status": "pending", "status_reasons": []any{}, "lifecycle_state": "pending", "memory": profile.at("memory")["value"], "vcpu": doc{"architecture": "amd64", "count": profile.at("vcpu_count")["value"]},
		"profile": profile.reference(), "vpc": s.find("vpcs", in.VPC.ID).reference(), "zone": s.zone(in.Zone.Name), "image": s.find("images", in.Image.ID).reference(),
	})
	nic := doc{"id": "0716-" + d.text("id"), "name": in.PrimaryInterface.Name, "href": d.text("href") + "/network_interfaces/0716-" + d.text("id"), "resource_type": "network_interface",
		"primary_ip": doc{"address": fmt.Sprintf("10.240.%d.%d", s.numbers/250%250, s.numbers%250+4), "id": "x", "name": "x", "href": "x", "resource_type": "subnet_reserved_ip"}, "subnet": subnet.reference()}
	volume := s.add("volumes", "volume", doc{"name": boot.Name, "status": "available", "user_tags": tags, "profile": doc{"name": boot.Profile.Name, "href": "x"}, "zone": s.zone(in.Zone.Name),
		"volume_attachments": []doc{{"id": "a", "name": "boot", "href": "a", "type": "boot", "delete_volume_on_instance_delete": in.BootVolume.Delete, "instance": d.reference()}}})
	d["primary_network_interface"], d["network_interfaces"] = nic, []doc{nic}
	d["boot_volume_attachment"] = doc{"id": "a", "name": "boot", "href": "a", "volume": volume.reference()}
	s.pending[d.text("id")] = &progress{statuses: []string{"pending", "starting", "running"}}
	return d, nil
}

func (s *Server) createFloatingIP(in floatingIPRequest) (doc, *fault) {
	if f := firstFault(s.checkName("floating_ips", in.Name), s.checkGroup(in.ResourceGroup)); f != nil {
		return nil, f
	}
	i := slices.IndexFunc(s.collections["instances"], func(d doc) bool { return d.at("primary_network_interface")["id"] == in.Target.ID })
	if i < 0 {
		return nil, notFound("network interface", in.Target.ID)
	}
	of := s.collections["instances"][i]
	if of["status"] != "running" || slices.ContainsFunc(s.collections["floating_ips"], func(d doc) bool { return d.at("target")["id"] == in.Target.ID }) {
		return nil, bad("floating_ip_in_use", "the instance does not run, or has a floating IP")
	}
	return s.add("floating_ips", "floating-ip", doc{"name": in.Name, "status": "available", "address": fmt.Sprintf("198.51.%d.%d", s.numbers/250%250, s.numbers%250+4),
		"target": of.at("primary_network_interface").reference(), "zone": of["zone"]}), nil
}

func (s *Server) createImage(in imageRequest) (doc, *fault) {
	if f := firstFault(s.checkName("images", in.Name), s.checkGroup(in.ResourceGroup)); f != nil {
		return nil, f
	}
	file := validFile.FindStringSubmatch(in.File.Href)
	i := slices.IndexFunc(s.collections["operating_systems"], func(d doc) bool { return d["name"] == in.OperatingSystem.Name })
	switch {
	case file == nil:
		return nil, bad("cos_uri_not_supported", "%s", in.File.Href)
	case i < 0:
		return nil, bad("bad_field", "operating system %q", in.OperatingSystem.Name)
	}
	content, exists := s.objects[file[1]]
	if !exists {
		return nil, bad("cos_not_found", "%s", in.File.Href)
	}
	sum := sha256.Sum256(content)
	d := s.add("images", "image", doc{"name": in.Name, "status": "pending", "status_reasons": []any{}, "visibility": "private", "operating_system": s.collections["operating_systems"][i],
		"file": doc{"size": 1, "checksums": doc{"sha256": hex.EncodeToString(sum[:])}}})
	s.pending[d.text("id")] = &progress{statuses: []string{"available"}}
	return d, nil
}
