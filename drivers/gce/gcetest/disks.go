package gcetest

import (
	"maps"
	"slices"
	"strings"

	"google.golang.org/api/compute/v1"
)

func (s *Server) insertDisk(c call) (any, *fault) {
	d := &compute.Disk{}
	if f := decode(c, d); f != nil {
		return nil, f
	}
	if !validName.MatchString(d.Name) {
		return nil, invalid("'resource.name': '%s'", d.Name)
	}
	if f := checkLabels(d.Labels); f != nil {
		return nil, f
	}
	at := c.zone + "/" + d.Name
	if s.disks[at] != nil {
		return nil, &fault{409, "alreadyExists", "The resource '" + at + "' already exists"}
	}
	d.Zone, d.Status = "https://www.googleapis.com/compute/v1/projects/"+c.project+"/zones/"+c.zone, "READY"
	s.disks[at] = d
	return s.operation(c, "insert", d.Zone+"/disks/"+d.Name), nil
}

func (s *Server) findDisk(c call, name string) (*compute.Disk, *fault) {
	d := s.disks[c.zone+"/"+name]
	if d == nil {
		return nil, notFound("projects/" + c.project + "/zones/" + c.zone + "/disks/" + name)
	}
	return d, nil
}

func (s *Server) getDisk(c call) (any, *fault) {
	d, f := s.findDisk(c, c.name)
	if f != nil {
		return nil, f
	}
	return d, nil
}

func (s *Server) deleteDisk(c call) (any, *fault) {
	d, f := s.findDisk(c, c.name)
	if f != nil {
		return nil, f
	}
	if len(d.Users) > 0 {
		return nil, &fault{400, "resourceInUseByAnotherResource", "The disk resource is already being used by '" + d.Users[0] + "'"}
	}
	delete(s.disks, c.zone+"/"+c.name)
	return s.operation(c, "delete", d.Zone+"/disks/"+d.Name), nil
}

func (s *Server) attachDisk(c call) (any, *fault) {
	i, f := s.find(c)
	if f != nil {
		return nil, f
	}
	attached := &compute.AttachedDisk{}
	if f := decode(c, attached); f != nil {
		return nil, f
	}
	d, f := s.findDisk(c, last(attached.Source))
	if f != nil {
		return nil, f
	}
	d.Users = []string{i.SelfLink}
	i.Disks = append(i.Disks, attached)
	return s.operation(c, "attachDisk", i.SelfLink), nil
}

func (s *Server) listDisks(c call) (any, *fault) {
	var all []*compute.Disk
	for _, at := range slices.Sorted(maps.Keys(s.disks)) {
		if strings.HasPrefix(at, c.zone+"/") {
			all = append(all, s.disks[at])
		}
	}
	return page(c, all)
}

func (s *Server) aggregatedDisks(c call) (any, *fault) {
	matches, f := filter(c.URL.Query().Get("filter"))
	if f != nil {
		return nil, f
	}
	var all []*compute.Disk
	for _, at := range slices.Sorted(maps.Keys(s.disks)) {
		if matches(s.disks[at].Labels) {
			all = append(all, s.disks[at])
		}
	}
	return aggregated(s, c, "disks", all, func(d *compute.Disk) string { return last(d.Zone) })
}
