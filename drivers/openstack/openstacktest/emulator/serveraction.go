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
	case "createImage":
		return c.snapshot(w, s, body)
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
