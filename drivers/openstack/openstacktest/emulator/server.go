package emulator

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

type flavor struct {
	base
	Name   string `json:"name"`
	VCPUs  int64  `json:"vcpus"`
	RAM    int64  `json:"ram"`
	Disk   int64  `json:"disk"`
	NoHost bool   `json:"no_host,omitempty"`
}

type keyPair struct {
	base
	Name        string `json:"name"`
	User        string `json:"user"`
	Type        string `json:"type"`
	PublicKey   string `json:"public_key"`
	Fingerprint string `json:"fingerprint"`
}

// server is a row in the state; no machine runs.
type server struct {
	base
	User         string            `json:"user"`
	Name         string            `json:"name"`
	Description  *string           `json:"description"`
	Hostname     string            `json:"hostname"`
	Flavor       string            `json:"flavor"`
	VCPUs        int64             `json:"vcpus"`
	RAM          int64             `json:"ram"`
	Image        string            `json:"image"` // empty if it boots from a volume
	Metadata     map[string]string `json:"metadata"`
	Tags         []string          `json:"tags"`
	Key          string            `json:"key"`
	Zone         string            `json:"zone"`
	ConfigDrive  bool              `json:"config_drive"`
	AutoDisk     bool              `json:"auto_disk"`
	AccessIPv4   string            `json:"access_ipv4"`
	AccessIPv6   string            `json:"access_ipv6"`
	Reservation  string            `json:"reservation"`
	UserDataLen  int               `json:"user_data_len"`   // the content is not stored
	ConsoleInput string            `json:"heard,omitempty"` // newest SSH input; part of its console

	Status   string       `json:"status"`
	Task     string       `json:"task"`
	Power    int          `json:"power"`
	Host     string       `json:"host"`
	Launched *time.Time   `json:"launched"`
	Trouble  *serverFault `json:"trouble,omitempty"`
	Nics     []nic        `json:"nics"`
	Groups   []string     `json:"groups"` // names
	Volumes  []attached   `json:"volumes"`
	// Time of the fault that delays the server's removal from lists.
	HiddenFrom time.Time `json:"goes_from_lists,omitzero"`
}

type serverFault struct {
	Code    int       `json:"code"`
	Message string    `json:"message"`
	Created time.Time `json:"created"`
	Details string    `json:"details,omitempty"`
}

// nic is compute's copy of a port.
type nic struct {
	Port    string `json:"port"`
	Network string `json:"network"` // name of the network, by which addresses are grouped
	Tag     string `json:"tag,omitempty"`
}

type attached struct {
	Volume            string `json:"volume"`
	Device            string `json:"device"`
	DeleteWithMachine bool   `json:"delete"`
}

// Power states, as numbers in the API.
const (
	powerNone    = 0
	powerRunning = 1
	powerOff     = 4
)

func (w *cloudState) countServer(s *server, sign int64) {
	if s.Gone {
		return
	}
	u := w.use(s.Project)
	u.instances += sign
	u.cores += sign * s.VCPUs
	u.ram += sign * s.RAM
}

// startBuild schedules the build of a new server up to ACTIVE or ERROR.
func (w *cloudState) startBuild(s *server, begin time.Time, build time.Duration, fails string) {
	s.Status, s.Task = "BUILD", "scheduling"
	if fails == "" {
		w.schedule(begin.Add(build/4), serverBuilds, s.ID, "")
		w.schedule(begin.Add(build), serverIsActive, s.ID, "")
		return
	}
	w.schedule(begin.Add(build/4), serverFails, s.ID, fails)
}

// serverEvent executes an event of a server.
func (w *cloudState) serverEvent(s *server, e event) {
	if s.Gone {
		return
	}
	switch e.Kind {
	case serverGoes:
		w.removeServer(s, e.At)
		return
	case deleteFails:
		s.Task = ""
		w.fail(s, e.Text, e.At)
		return
	}
	if s.Task == "deleting" {
		return // a deletion ends an unfinished build
	}
	s.touch(e.At)
	switch e.Kind {
	case serverBuilds:
		s.Task = "spawning"
		w.place(s)
	case serverIsActive:
		at := e.At
		s.Status, s.Task, s.Power, s.Launched = "ACTIVE", "", powerRunning, &at
		w.place(s)
	case serverFails:
		s.Task = ""
		w.releasePorts(s, e.At)
		w.fail(s, e.Text, e.At)
	}
}

// place selects zone and host, round-robin.
func (w *cloudState) place(s *server) {
	if s.Host != "" {
		return
	}
	if s.Zone == "" {
		s.Zone = w.Zones[s.Seq%uint64(len(w.Zones))]
	}
	s.Host = "host-" + s.Zone
}

// hostID hides the host's name, as nova does.
func (s *server) hostID() string {
	if s.Host == "" {
		return ""
	}
	sum := sha256.Sum224([]byte(s.Project + s.Host))
	return hex.EncodeToString(sum[:])
}

func (w *cloudState) fail(s *server, message string, at time.Time) {
	s.Status = "ERROR"
	s.Trouble = &serverFault{Code: 500, Message: message, Created: at}
	s.touch(at)
}

// releasePorts removes the ports that compute created and detaches the others.
func (w *cloudState) releasePorts(s *server, now time.Time) {
	for _, p := range w.portsOf[s.ID] {
		if p.OfServer {
			w.removePort(p, now, now)
			continue
		}
		w.detachPort(p)
		p.Device, p.Owner = "", ""
	}
}

// removeServer deletes a server with the ports that compute created and the volumes marked for deletion; floating IPs
// stay.
func (w *cloudState) removeServer(s *server, now time.Time) {
	w.countServer(s, -1)
	w.releasePorts(s, now)
	for _, a := range s.Volumes {
		if v, ok := w.Volumes.byID[a.Volume]; ok {
			w.detachVolume(v, a.DeleteWithMachine, now)
		}
	}
	retire(&w.timeline, &w.Servers, s, now, s.HiddenFrom)
}
