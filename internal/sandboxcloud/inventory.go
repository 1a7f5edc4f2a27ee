package sandboxcloud

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Thing is something in the cloud, of whichever project, as tests look at it from above.
type Thing struct {
	Type     string // server, image, port, floating_ip, volume
	ID       string
	Name     string
	Project  string // its name
	Status   string
	Metadata map[string]string // of servers and volumes; properties of images
	Tags     []string
	Text     string // description of ports and floating IPs
	Of       string // the server a port or volume belongs to, the port of a floating IP
}

// Inventory lists everything there is, whatever faults make of lists, by type and in the order of its making.
func (c *Cloud) Inventory() ([]Thing, error) {
	now := c.now()
	var things []Thing
	err := c.store.view(now, func(w *world) error {
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

// Remove deletes something at once and behind everybody's back.
func (c *Cloud) Remove(id string) error {
	now := c.now()
	return c.store.update(now, func(w *world) error {
		if s, found := w.Servers.get(id, now); found {
			s.GoesFromLists = now
			w.removeServer(s, now)
		} else if i, found := w.Images.get(id, now); found {
			c.contents.remove(i.ID)
			retire(w, &w.Images, i, now, now)
		} else if f, found := w.FloatingIPs.get(id, now); found {
			w.removeFloatingIP(f, now, now)
		} else if p, found := w.Ports.get(id, now); found {
			w.removePort(p, now, now)
		} else if v, found := w.Volumes.get(id, now); found {
			w.countVolume(v, -1)
			retire(w, &w.Volumes, v, now, now)
		} else {
			return fmt.Errorf("sandbox: nothing has the id %s", id)
		}
		return nil
	})
}

// AddServer makes an active server that somebody else asked for.
func (c *Cloud) AddServer(f ForeignServer) (id string, err error) {
	now := c.now()
	err = c.store.update(now, func(w *world) error {
		w.addForeign(f, now)
		id = w.Servers.rows[len(w.Servers.rows)-1].ID
		return nil
	})
	return id, err
}

// SetServerStatus turns a server into what its cloud might make of it, such as ERROR with the fault text given.
func (c *Cloud) SetServerStatus(id, status, fault string) error {
	now := c.now()
	return c.store.update(now, func(w *world) error {
		s, found := w.Servers.get(id, now)
		if !found {
			return fmt.Errorf("sandbox: no server has the id %s", id)
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
	return c.store.update(c.now(), func(w *world) error {
		for _, p := range w.Projects.rows {
			w.Quotas[p.ID] = q
		}
		return nil
	})
}
