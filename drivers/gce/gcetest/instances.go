package gcetest

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/api/compute/v1"
)

// decode reads the body of a request strictly.
func decode(c call, into any) *fault {
	d := json.NewDecoder(c.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return &fault{400, "badRequest", "Invalid JSON payload received. " + err.Error()}
	}
	return nil
}

func (s *Server) insertInstance(c call) (any, *fault) {
	i := &compute.Instance{}
	if f := decode(c, i); f != nil {
		return nil, f
	}
	if f := s.checkInstance(c, i); f != nil {
		return nil, f
	}
	at := c.zone + "/" + i.Name
	if s.instances[at] != nil {
		return nil, &fault{409, "alreadyExists", "The resource 'projects/" + c.project + "/zones/" + c.zone + "/instances/" + i.Name + "' already exists"}
	}
	used := s.usage()
	for metric, n := range s.demand(i) {
		if limit, limited := s.Limits[metric]; limited && used[metric]+n > limit {
			return nil, &fault{403, "quotaExceeded", fmt.Sprintf("Quota '%s' exceeded.  Limit: %.1f in region %s.", metric, limit, Region)}
		}
	}
	prefix := "https://www.googleapis.com/compute/v1/projects/" + c.project + "/zones/" + c.zone
	op := s.operation(c, "insert", prefix+"/instances/"+i.Name)
	if s.Fails != nil {
		if code, message := s.Fails(c.zone, last(i.MachineType)); code != "" {
			op.Error = &compute.OperationError{Errors: []*compute.OperationErrorErrors{{Code: code, Message: message}}}
			op.HttpErrorStatusCode, op.HttpErrorMessage = 503, "SERVICE UNAVAILABLE"
			return op, nil
		}
	}
	s.serial++
	i.Id, i.Status, i.CreationTimestamp, i.Zone, i.SelfLink = uint64(s.serial), "PROVISIONING", now(), prefix, prefix+"/instances/"+i.Name //nolint:gosec // a small number
	i.MachineType = prefix + "/machineTypes/" + last(i.MachineType)
	for n, network := range i.NetworkInterfaces {
		network.Name, network.NetworkIP = fmt.Sprintf("nic%d", n), fmt.Sprintf("10.132.%d.%d", s.serial/250, s.serial%250+2)
	}
	for n, d := range i.Disks {
		s.bootDisk(prefix, i, d, n)
	}
	s.instances[at] = i
	return op, nil
}

// bootDisk creates a disk of a new instance.
func (s *Server) bootDisk(prefix string, i *compute.Instance, d *compute.AttachedDisk, n int) {
	disk := &compute.Disk{Name: i.Name, Labels: d.InitializeParams.Labels, SizeGb: max(d.InitializeParams.DiskSizeGb, 10), SourceImage: d.InitializeParams.SourceImage,
		Zone: prefix, Status: "READY", Users: []string{i.SelfLink}}
	if n > 0 {
		disk.Name = fmt.Sprintf("%s-%d", i.Name, n)
	}
	d.Source, d.DiskSizeGb, d.InitializeParams = prefix+"/disks/"+disk.Name, disk.SizeGb, nil
	s.disks[last(prefix)+"/"+disk.Name] = disk
}

var sshKey = regexp.MustCompile(`^[^:\s]+:[a-z0-9-]+ \S+`)

func (s *Server) checkInstance(c call, i *compute.Instance) *fault {
	if !validName.MatchString(i.Name) {
		return invalid("'resource.name': '%s'. Must be a match of regex '%s'", i.Name, validName)
	}
	zone, name, ok := strings.Cut(strings.TrimPrefix(i.MachineType, "zones/"), "/machineTypes/")
	if !ok || zone != c.zone {
		return invalid("'resource.machineType': '%s'. The URL is malformed", i.MachineType)
	}
	if !hasType(zone, name) {
		return invalid("'resource.machineType': '%s'. The referenced resource was not found", i.MachineType)
	}
	if f := checkLabels(i.Labels); f != nil {
		return f
	}
	if i.Metadata != nil {
		for _, item := range i.Metadata.Items {
			if !validMeta.MatchString(item.Key) || item.Value == nil || len(*item.Value) > 262144 {
				return invalid("'resource.metadata': '%s'", item.Key)
			}
			if item.Key == "ssh-keys" && slices.ContainsFunc(strings.Split(*item.Value, "\n"), func(line string) bool { return !sshKey.MatchString(line) }) {
				return invalid("'resource.metadata': '%s'", item.Key)
			}
		}
	}
	if spot := i.Scheduling != nil && i.Scheduling.ProvisioningModel == "SPOT"; spot && (i.Scheduling.AutomaticRestart == nil || *i.Scheduling.AutomaticRestart) {
		return invalid("'resource.scheduling': SPOT does not permit automaticRestart")
	}
	if len(i.Disks) == 0 || !i.Disks[0].Boot {
		return invalid("'resource.disks': at least one boot disk is required")
	}
	for _, d := range i.Disks {
		if f := s.checkDisk(c, d); f != nil {
			return f
		}
	}
	return checkNetworks(i)
}

func (s *Server) checkDisk(c call, d *compute.AttachedDisk) *fault {
	p := d.InitializeParams
	if p == nil {
		return invalid("'resource.disks.initializeParams': missing")
	}
	if f := checkLabels(p.Labels); f != nil {
		return f
	}
	if p.DiskType != "" {
		if name, ok := strings.CutPrefix(p.DiskType, "zones/"+c.zone+"/diskTypes/"); !ok || !slices.Contains(diskTypes, name) {
			return invalid("'resource.disks.initializeParams.diskType': '%s'", p.DiskType)
		}
	}
	project, name, ok := strings.Cut(strings.TrimPrefix(p.SourceImage, "projects/"), "/global/images/")
	if !ok {
		return invalid("'resource.disks.initializeParams.sourceImage': '%s'. The URL is malformed", p.SourceImage)
	}
	if !slices.ContainsFunc(s.images[project], func(i *compute.Image) bool { return i.Name == name }) {
		return invalid("'resource.disks.initializeParams.sourceImage': '%s'. The referenced image resource cannot be found", p.SourceImage)
	}
	return nil
}

func checkNetworks(i *compute.Instance) *fault {
	if len(i.NetworkInterfaces) == 0 {
		return invalid("'resource.networkInterfaces': at least one network interface is required")
	}
	for _, n := range i.NetworkInterfaces {
		if name, ok := strings.CutPrefix(n.Network, "global/networks/"); n.Network != "" && (!ok || !slices.Contains(networks, name)) {
			return invalid("'resource.networkInterfaces[0].network': '%s'. The referenced network resource cannot be found", n.Network)
		}
		if name, ok := strings.CutPrefix(n.Subnetwork, "regions/"+Region+"/subnetworks/"); n.Subnetwork != "" && (!ok || !slices.Contains(subnetworks, name)) {
			return invalid("'resource.networkInterfaces[0].subnetwork': '%s'. The referenced subnetwork resource cannot be found", n.Subnetwork)
		}
		for _, a := range n.AccessConfigs {
			if a.Type != "ONE_TO_ONE_NAT" {
				return invalid("'resource.networkInterfaces[0].accessConfigs[0].type': '%s'", a.Type)
			}
		}
	}
	return nil
}

// advance moves an instance one step.
func (s *Server) advance(at string, i *compute.Instance) {
	switch i.Status {
	case "PROVISIONING":
		i.Status = "STAGING"
	case "STAGING":
		i.Status = "RUNNING"
		for _, n := range i.NetworkInterfaces {
			for _, a := range n.AccessConfigs {
				a.NatIP = "34.76" + strings.TrimPrefix(n.NetworkIP, "10.132")
			}
		}
	case "STOPPING":
		delete(s.instances, at)
		for _, d := range i.Disks {
			disk := last(i.Zone) + "/" + last(d.Source)
			if d.AutoDelete {
				delete(s.disks, disk)
			} else if s.disks[disk] != nil {
				s.disks[disk].Users = nil
			}
		}
	}
}

func (s *Server) advanceAll() {
	for _, at := range slices.Sorted(maps.Keys(s.instances)) {
		s.advance(at, s.instances[at])
	}
}

func (s *Server) waitOperation(c call) (any, *fault) {
	op := s.operations[c.zone+"/"+c.name]
	if op == nil {
		return nil, notFound("projects/" + c.project + "/zones/" + c.zone + "/operations/" + c.name)
	}
	op.Status, op.Progress = "DONE", 100
	return op, nil
}

func (s *Server) getOperation(c call) (any, *fault) { return s.waitOperation(c) }

func (s *Server) find(c call) (*compute.Instance, *fault) {
	i := s.instances[c.zone+"/"+c.name]
	if i == nil {
		return nil, notFound("projects/" + c.project + "/zones/" + c.zone + "/instances/" + c.name)
	}
	return i, nil
}

func (s *Server) getInstance(c call) (any, *fault) {
	i, f := s.find(c)
	if f != nil {
		return nil, f
	}
	return i, nil
}

func (s *Server) deleteInstance(c call) (any, *fault) {
	i, f := s.find(c)
	if f != nil {
		return nil, f
	}
	i.Status = "STOPPING"
	return s.operation(c, "delete", i.SelfLink), nil
}

func (s *Server) serialPort(c call) (any, *fault) {
	if _, f := s.find(c); f != nil {
		return nil, f
	}
	if c.URL.Query().Get("port") != "1" {
		return nil, invalid("'port': '%s'", c.URL.Query().Get("port"))
	}
	text := strings.Repeat("[    0.000000] Linux version 6.1\n", 4000)
	var start int
	if _, err := fmt.Sscan(c.URL.Query().Get("start"), &start); err == nil && start < 0 {
		text = text[max(0, len(text)+start):]
	}
	return &compute.SerialPortOutput{Contents: text}, nil
}

func (s *Server) listInstances(c call) (any, *fault) {
	s.advanceAll()
	var all []*compute.Instance
	for _, at := range slices.Sorted(maps.Keys(s.instances)) {
		if strings.HasPrefix(at, c.zone+"/") {
			all = append(all, s.instances[at])
		}
	}
	return page(c, all)
}

func (s *Server) aggregatedInstances(c call) (any, *fault) {
	s.advanceAll()
	matches, f := filter(c.URL.Query().Get("filter"))
	if f != nil {
		return nil, f
	}
	var all []*compute.Instance
	for _, at := range slices.Sorted(maps.Keys(s.instances)) {
		if matches(s.instances[at].Labels) {
			all = append(all, s.instances[at])
		}
	}
	return aggregated(s, c, "instances", all, func(i *compute.Instance) string { return last(i.Zone) })
}

// aggregated returns a page of a list of all zones. Zones without objects on the page have a warning.
func aggregated[T any](s *Server, c call, kind string, all []T, zoneOf func(T) string) (any, *fault) {
	answer, f := page(c, all)
	if f != nil {
		return nil, f
	}
	scopes := map[string]map[string]any{}
	for _, zone := range append(zones(), "us-central1-a") {
		code := "NO_RESULTS_ON_PAGE"
		if slices.Contains(s.Unreachable, zone) {
			code = "UNREACHABLE"
		}
		scopes["zones/"+zone] = map[string]any{"warning": map[string]string{"code": code, "message": "no results for the scope"}}
	}
	found, _ := answer["items"].([]T)
	for _, one := range found {
		if zone := zoneOf(one); !slices.Contains(s.Unreachable, zone) {
			list, _ := scopes["zones/"+zone][kind].([]T)
			scopes["zones/"+zone] = map[string]any{kind: append(list, one)}
		}
	}
	answer["items"] = scopes
	return answer, nil
}

// Fill adds running instances of another user to a zone.
func (s *Server) Fill(zone string, number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	prefix := "https://www.googleapis.com/compute/v1/projects/" + Project + "/zones/" + zone
	for n := range number {
		i := &compute.Instance{Name: fmt.Sprintf("filled-%d", n), Status: "RUNNING", Zone: prefix, MachineType: prefix + "/machineTypes/e2-small", CreationTimestamp: now()}
		s.instances[zone+"/"+i.Name] = i
	}
}
