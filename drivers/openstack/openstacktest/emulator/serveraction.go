package emulator

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// serverAction is POST /servers/{id}/action. The single key of the body names the action.
func serverAction(c *call) (*answer, error) {
	var in map[string]json.RawMessage
	if err := c.decodeLoosely(&in); err != nil {
		return nil, err
	}
	if len(in) != 1 {
		return nil, badRequest("There is no such action: %v", slices.Collect(maps.Keys(in)))
	}
	return c.withServer(func(w *cloudState, s *server) (*answer, error) {
		for name, body := range in {
			return c.act(w, s, name, body)
		}
		return nil, nil
	})
}

func (c *call) act(w *cloudState, s *server, name string, body json.RawMessage) (*answer, error) {
	switch name {
	case "os-getConsoleOutput":
		return s.console(body)
	case "os-stop":
		return s.switchPower(c.now, name, "ACTIVE", "SHUTOFF", powerOff)
	case "os-start":
		return s.switchPower(c.now, name, "SHUTOFF", "ACTIVE", powerRunning)
	case "reboot":
		return s.switchPower(c.now, name, "ACTIVE", "ACTIVE", powerRunning)
	case "lock", "unlock":
		s.Locked = name == "lock"
		return accepted(nil)
	case "addSecurityGroup", "removeSecurityGroup":
		return c.changeGroups(w, s, name == "addSecurityGroup", body)
	case "forceDelete":
		w.scheduleDelete(c, s)
		return accepted(nil)
	case "createImage":
		return c.snapshot(w, s, body)
	case "rebuild", "resize":
		return nil, refuse(http.StatusForbidden, "Policy doesn't allow os_compute_api:servers:%s to be performed.", strings.ToLower(name))
	}
	return nil, badRequest("There is no such action: %s", name)
}

func (s *server) switchPower(now time.Time, action, from, to string, power int) (*answer, error) {
	if s.Status != from || s.Task != "" {
		return nil, refuse(http.StatusConflict, "Cannot '%s' instance %s while it is in vm_state %s", strings.TrimPrefix(action, "os-"), s.ID, vmState(s.Status))
	}
	s.Status, s.Power = to, power
	s.touch(now)
	return accepted(nil)
}

// console returns the console output of a machine with this name.
func (s *server) console(body json.RawMessage) (*answer, error) {
	var in struct {
		Length *flexible `json:"length"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, badRequest("%s", jsonMistake(err))
	}
	if s.Launched == nil {
		return nil, refuse(http.StatusConflict, "Instance %s is not ready", s.ID)
	}
	lines := []string{
		"[    0.000000] Linux version 6.1.0-emulator (npctl) #1 SMP",
		"[    0.000000] Command line: root=/dev/vda1 console=ttyS0",
		fmt.Sprintf("[    1.234567] systemd[1]: Hostname set to <%s>.", s.Hostname),
		"cloud-init: finished", "",
	}
	if s.ConsoleInput != "" {
		lines = append(lines, strings.Split(strings.TrimSuffix(s.ConsoleInput, "\n"), "\n")...)
	}
	lines = append(lines, s.Hostname+" login: ")
	if in.Length != nil {
		n, err := in.Length.number(-1)
		if err != nil {
			return nil, err
		}
		if n >= 0 && int(n) < len(lines) {
			lines = lines[len(lines)-int(n):]
		}
	}
	return ok(view{"output": strings.Join(lines, "\n")})
}

func (by scope) changeGroups(w *cloudState, s *server, add bool, body json.RawMessage) (*answer, error) {
	var in nameView
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, badRequest("%s", jsonMistake(err))
	}
	g, err := w.findGroup(by.who.project, in.Name, by.now)
	if err != nil {
		return nil, refuse(http.StatusNotFound, "Security group %s not found for project %s.", in.Name, by.who.project)
	}
	s.Groups = slices.DeleteFunc(slices.Clone(s.Groups), func(name string) bool { return name == g.Name })
	for _, p := range w.portsOf[s.ID] {
		p.Groups = slices.DeleteFunc(slices.Clone(p.Groups), func(id string) bool { return id == g.ID })
		if add {
			p.Groups = append(p.Groups, g.ID)
		}
	}
	if add {
		s.Groups = append(s.Groups, g.Name)
	}
	return accepted(nil)
}

func updateServer(c *call) (*answer, error) {
	var in struct {
		Server struct {
			Name        *string `json:"name"`
			Description *string `json:"description"`
			DiskConfig  string  `json:"OS-DCF:diskConfig"`
			AccessIPv4  *string `json:"accessIPv4"`
			AccessIPv6  *string `json:"accessIPv6"`
			Hostname    *string `json:"hostname"`
		} `json:"server"`
	}
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	return c.withServer(func(w *cloudState, s *server) (*answer, error) {
		set(&s.Name, in.Server.Name)
		set(&s.AccessIPv4, in.Server.AccessIPv4)
		set(&s.AccessIPv6, in.Server.AccessIPv6)
		set(&s.Hostname, in.Server.Hostname)
		if in.Server.Description != nil {
			s.Description = in.Server.Description
		}
		s.touch(c.now)
		return ok(view{"server": c.views().serverView(w, s)})
	})
}

func showMetadata(c *call) (*answer, error) {
	return c.withServer(func(_ *cloudState, s *server) (*answer, error) { return ok(view{"metadata": s.Metadata}) })
}

func changeMetadata(replace bool) func(*call) (*answer, error) {
	return func(c *call) (*answer, error) {
		var in struct {
			Metadata map[string]string `json:"metadata"`
		}
		if err := c.decode(&in); err != nil {
			return nil, err
		}
		return c.withServer(func(_ *cloudState, s *server) (*answer, error) {
			changed := map[string]string{} // views may still read the old map
			if !replace {
				maps.Copy(changed, s.Metadata)
			}
			maps.Copy(changed, in.Metadata)
			if len(changed) > 128 {
				return nil, refuse(http.StatusForbidden, "Maximum number of metadata items exceeds 128")
			}
			s.Metadata = changed
			s.touch(c.now)
			return ok(view{"metadata": changed})
		})
	}
}

func deleteMetadata(c *call) (*answer, error) {
	return c.withServer(func(_ *cloudState, s *server) (*answer, error) {
		key := c.request.PathValue("key")
		if _, known := s.Metadata[key]; !known {
			return nil, refuse(http.StatusNotFound, "Metadata item was not found")
		}
		changed := maps.Clone(s.Metadata)
		delete(changed, key)
		s.Metadata = changed
		s.touch(c.now)
		return noContent()
	})
}

func showServerTags(c *call) (*answer, error) {
	return c.withServer(func(_ *cloudState, s *server) (*answer, error) { return ok(view{"tags": list(s.Tags)}) })
}

func replaceServerTags(c *call) (*answer, error) {
	var in struct {
		Tags []string `json:"tags"`
	}
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	return c.withServer(func(_ *cloudState, s *server) (*answer, error) {
		s.Tags = in.Tags
		return ok(view{"tags": list(s.Tags)})
	})
}

func addServerTag(c *call) (*answer, error) {
	return c.withServer(func(_ *cloudState, s *server) (*answer, error) {
		tag := c.request.PathValue("tag")
		if slices.Contains(s.Tags, tag) {
			return noContent()
		}
		s.Tags = append(slices.Clone(s.Tags), tag)
		return &answer{status: http.StatusCreated}, nil
	})
}

func deleteServerTag(c *call) (*answer, error) {
	return c.withServer(func(_ *cloudState, s *server) (*answer, error) {
		tag := c.request.PathValue("tag")
		if !slices.Contains(s.Tags, tag) {
			return nil, refuse(http.StatusNotFound, "Server %s has no tag '%s'", s.ID, tag)
		}
		s.Tags = slices.DeleteFunc(slices.Clone(s.Tags), func(one string) bool { return one == tag })
		return noContent()
	})
}

func showServerAddresses(c *call) (*answer, error) {
	return c.withServer(func(w *cloudState, s *server) (*answer, error) {
		short := map[string][]view{}
		for name, addresses := range addressesOf(w, s, c.now) {
			for _, a := range addresses {
				short[name] = append(short[name], view{"version": a.Version, "addr": a.Address})
			}
		}
		return ok(view{"addresses": short})
	})
}

func showServerGroups(c *call) (*answer, error) {
	return c.withServer(func(w *cloudState, s *server) (*answer, error) {
		views := []view{}
		for _, name := range s.Groups {
			if g, err := w.findGroup(c.who.project, name, c.now); err == nil {
				views = append(views, view{"id": g.ID, "name": g.Name, "description": g.Description, "tenant_id": g.Project, "rules": []any{}})
			}
		}
		return ok(view{"security_groups": views})
	})
}

func (cv computeViews) interfaceView(p *port, tag string) view {
	v := view{"port_id": p.ID, "net_id": p.Network, "mac_addr": p.MAC, "port_state": "ACTIVE", "fixed_ips": list(p.FixedIPs)}
	if cv.micro >= 70 {
		v["tag"] = orNil(tag)
	}
	return v
}

// attachInterface attaches an existing port to a server. The port is not deleted with the server.
func attachInterface(c *call) (*answer, error) {
	var in struct {
		Attachment struct {
			Port string `json:"port_id"`
			Tag  string `json:"tag"`
		} `json:"interfaceAttachment"`
	}
	if err := c.decodeLoosely(&in); err != nil {
		return nil, err
	}
	return c.withServer(func(w *cloudState, s *server) (*answer, error) {
		p, err := c.findPort(w, in.Attachment.Port)
		if err != nil {
			return nil, err
		}
		if p.Device != "" {
			return nil, badRequest("Port %s is still in use.", p.ID)
		}
		name := p.Network
		if n, found := w.Networks.byID[p.Network]; found {
			name = n.Name
		}
		s.Nics = append(slices.Clone(s.Nics), nic{Port: p.ID, Network: name, Tag: in.Attachment.Tag})
		w.attachPort(p, s.ID, "compute:"+s.Zone, c.now)
		return ok(view{"interfaceAttachment": c.views().interfaceView(p, in.Attachment.Tag)})
	})
}

func listInterfaces(c *call) (*answer, error) {
	return c.withServer(func(w *cloudState, s *server) (*answer, error) {
		views := []view{}
		for _, n := range s.Nics {
			p, found := w.Ports.byID[n.Port]
			if !found {
				continue
			}
			views = append(views, c.views().interfaceView(p, n.Tag))
		}
		return ok(view{"interfaceAttachments": views})
	})
}
