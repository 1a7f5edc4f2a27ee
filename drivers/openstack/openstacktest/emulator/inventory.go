package emulator

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Thing is an object in the cloud, in any project, as tests see it.
type Thing struct {
	Type     string // server, image, port, floating_ip, volume
	ID       string
	Name     string
	Project  string // name of the project
	Status   string
	Metadata map[string]string // of servers and volumes; properties of images
	Tags     []string
	Text     string // description of ports and floating IPs
	Of       string // the server of a port or volume, the port of a floating IP
}

// Inventory lists all objects, regardless of list faults, by type and in the order of creation.
func (c *Cloud) Inventory() ([]Thing, error) {
	now := c.now()
	var things []Thing
	err := c.store.view(now, func(w *cloudState) error {
		add := func(b *base, t Thing) {
			if b.exists(now) {
				t.ID = b.ID
				if p, found := w.Projects.byID[b.Project]; found {
					t.Project = p.Name
				}
				things = append(things, t)
			}
		}
		for _, s := range w.Servers.rows {
			add(&s.base, Thing{Type: "server", Name: s.Name, Status: s.Status, Metadata: maps.Clone(s.Metadata), Tags: slices.Clone(s.Tags)})
		}
		for _, i := range w.Images.rows {
			add(&i.base, Thing{Type: "image", Name: i.Name, Status: i.Status, Metadata: maps.Clone(i.Properties), Tags: slices.Clone(i.Tags)})
		}
		for _, p := range w.Ports.rows {
			add(&p.base, Thing{Type: "port", Name: p.Name, Tags: slices.Clone(p.Tags), Text: p.Description, Of: p.Device})
		}
		for _, f := range w.FloatingIPs.rows {
			add(&f.base, Thing{Type: "floating_ip", Name: f.Address.String(), Status: f.status(), Tags: slices.Clone(f.Tags), Text: f.Description, Of: f.Port})
		}
		for _, v := range w.Volumes.rows {
			add(&v.base, Thing{Type: "volume", Name: v.Name, Status: v.Status, Metadata: maps.Clone(v.Metadata), Of: v.Server, Text: v.Description})
		}
		return nil
	})
	slices.SortStableFunc(things, func(a, b Thing) int { return cmp.Compare(a.Type, b.Type) })
	return things, err
}

// Remove deletes an object immediately, without an API call.
func (c *Cloud) Remove(id string) error {
	now := c.now()
	return c.store.update(now, func(w *cloudState) error {
		if s, found := w.Servers.get(id, now); found {
			s.HiddenFrom = now
			w.removeServer(s, now)
		} else if i, found := w.Images.get(id, now); found {
			c.contents.remove(i.ID)
			retire(&w.timeline, &w.Images, i, now, now)
		} else if f, found := w.FloatingIPs.get(id, now); found {
			w.removeFloatingIP(f, now, now)
		} else if p, found := w.Ports.get(id, now); found {
			w.removePort(p, now, now)
		} else if v, found := w.Volumes.get(id, now); found {
			w.countVolume(v, -1)
			retire(&w.timeline, &w.Volumes, v, now, now)
		} else {
			return fmt.Errorf("emulator: no object has the id %s", id)
		}
		return nil
	})
}

// AddServer creates an active server that npctl did not request.
func (c *Cloud) AddServer(f ForeignServer) (id string, err error) {
	now := c.now()
	err = c.store.update(now, func(w *cloudState) error {
		seeder{w, now}.addForeign(f)
		id = w.Servers.rows[len(w.Servers.rows)-1].ID
		return nil
	})
	return id, err
}

// SetServerStatus changes the status of a server as its cloud could, such as to ERROR with the given fault text.
func (c *Cloud) SetServerStatus(id, status, fault string) error {
	now := c.now()
	return c.store.update(now, func(w *cloudState) error {
		s, found := w.Servers.get(id, now)
		if !found {
			return fmt.Errorf("emulator: no server has the id %s", id)
		}
		s.Status, s.Task = status, ""
		s.touch(now)
		if status == "ERROR" {
			w.fail(s, fault, now)
		}
		return nil
	})
}

// SetQuota changes the quota of every project at once.
func (c *Cloud) SetQuota(q Quota) error {
	return c.store.update(c.now(), func(w *cloudState) error {
		for _, p := range w.Projects.rows {
			w.Quotas[p.ID] = q
		}
		return nil
	})
}
