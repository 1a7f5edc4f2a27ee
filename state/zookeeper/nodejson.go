package zookeeper

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"strings"
	"time"

	"github.com/npctl/npctl/resources"
)

// nodeJSON is a node as Nodepool writes it.
type nodeJSON struct {
	State       text               `json:"state"`
	Time        seconds            `json:"state_time"`
	Labels      texts              `json:"type"`
	Provider    text               `json:"provider"`
	Pool        text               `json:"pool"`
	Request     text               `json:"allocated_to"`
	Launcher    text               `json:"launcher"`
	HoldJob     anyText            `json:"hold_job"`
	UserData    anyText            `json:"user_data"`
	DriverData  anyText            `json:"driver_data"`
	Created     seconds            `json:"created_time"`
	External    anyText            `json:"external_id"`
	Cloud       text               `json:"cloud"`
	Region      text               `json:"region"`
	Zone        text               `json:"az"`
	HostID      text               `json:"host_id"`
	Hostname    text               `json:"hostname"`
	Interface   text               `json:"interface_ip"`
	PublicIPv4  text               `json:"public_ipv4"`
	PrivateIPv4 text               `json:"private_ipv4"`
	PublicIPv6  text               `json:"public_ipv6"`
	PrivateIPv6 text               `json:"private_ipv6"`
	Connection  text               `json:"connection_type"`
	Port        json.RawMessage    `json:"connection_port"` // a number, or an object with credentials
	SSHPort     json.RawMessage    `json:"ssh_port"`
	Username    *text              `json:"username"`
	Python      text               `json:"python_path"`
	Shell       text               `json:"shell_type"`
	HostKeys    texts              `json:"host_keys"`
	ImageID     text               `json:"image_id"`
	Attributes  map[string]anyText `json:"attributes"`
	Slot        number             `json:"slot"`
	Resources   map[string]number  `json:"resources"`
	Tenant      text               `json:"tenant_name"`
	Requestor   text               `json:"requestor"`
	Comment     anyText            `json:"comment"`
	Hold        number             `json:"hold_expiration"`
	Extra       *nodeExtra         `json:"npctl"`
}

// nodeExtra holds the attributes without a key in Nodepool's documents. It omits keys that other programs write,
// because npctl's value would outlive a newer one of theirs.
type nodeExtra struct {
	Hash               *resources.Hash            `json:"hash,omitempty"`
	Image              *string                    `json:"image,omitempty"`
	ImageID            *string                    `json:"image_id,omitempty"`
	Upload             *string                    `json:"upload,omitempty"`
	Attempt            *int64                     `json:"attempt,omitempty"`
	UnansweredAttempts *int64                     `json:"unanswered,omitempty"`
	ReturnedAttempts   *int64                     `json:"returned,omitempty"`
	Login              *resources.Login           `json:"login,omitempty"`
	Resources          *resources.ResourceAmounts `json:"resources,omitempty"`
	Static             *bool                      `json:"static,omitempty"`
	Seconds            *float64                   `json:"seconds,omitempty"`
	Error              *string                    `json:"error,omitempty"`
	Lease              *resources.Lease           `json:"lease,omitempty"`
	VerifiedAt         *time.Time                 `json:"checked,omitempty"`
	Phases             *resources.Phases          `json:"phases,omitempty"`
	IdleSince          *time.Time                 `json:"idle_since,omitempty"`
	Retired            *bool                      `json:"retired,omitempty"`
	Shares             *bool                      `json:"shares,omitempty"`
	Importing          *resources.State           `json:"importing,omitempty"`
	Validates          *string                    `json:"validates,omitempty"`
	Replaces           *string                    `json:"replaces,omitempty"`
	DeletedFor         *string                    `json:"deleted_for,omitempty"`
}

const (
	staticLauncher = "static driver" // in place of a launcher's id
	stateDeleted   = "deleted"       // written shortly before the znode of a node is deleted
	defaultPort    = 22
)

func decodeNode(p znodeRef, data []byte, _ int64) (record, base resources.Record, err error) {
	var doc nodeJSON
	if err := unmarshal(data, &doc); err != nil {
		return nil, nil, err
	}
	n, err := doc.record(p.id)
	if err != nil {
		return nil, nil, err
	}
	bare := *n
	nodeExtras.overlay(n, doc.Extra)
	return n, &bare, nil
}

func (doc *nodeJSON) record(id string) (*resources.Node, error) {
	switch {
	case !sequence.MatchString(id):
		return nil, errors.New("its name is not a sequence of ten digits")
	case doc.State == "":
		return nil, errors.New("it has no state")
	}
	n := &resources.Node{ID: id, State: resources.State(doc.State), StateTime: doc.Time.Time, Created: doc.Created.Time,
		Provider: string(doc.Provider), Pool: string(doc.Pool), Labels: doc.Labels, ExternalID: string(doc.External),
		Zone: string(doc.Zone), Cloud: string(doc.Cloud), Region: string(doc.Region), HostID: string(doc.HostID),
		Hostname: string(doc.Hostname), HostKeys: doc.HostKeys, Slot: int64(doc.Slot), Comment: string(doc.Comment),
		Request: string(doc.Request), Tenant: string(doc.Tenant), Requestor: string(doc.Requestor),
		Static: doc.Launcher == staticLauncher, HoldJob: string(doc.HoldJob),
		UserData: string(doc.UserData), DriverData: string(doc.DriverData),
		Addresses: resources.Addresses{Interface: string(doc.Interface), PublicIPv4: string(doc.PublicIPv4),
			PrivateIPv4: string(doc.PrivateIPv4), PublicIPv6: string(doc.PublicIPv6), PrivateIPv6: string(doc.PrivateIPv6)},
		Login: doc.login(), Access: doc.access(), Resources: doc.amounts()}
	if doc.Extra == nil && !n.Static { // npctl did not launch it
		n.Launcher = string(doc.Launcher)
	}
	if n.State == stateDeleted {
		n.State = resources.StateDeleting
	}
	if n.State == resources.StateHold && doc.Hold > 0 && !n.StateTime.IsZero() {
		n.HoldUntil = n.StateTime.Add(time.Duration(min(int64(doc.Hold), maxHold)) * time.Second)
	}
	for name, value := range doc.Attributes {
		if n.Attributes == nil {
			n.Attributes = make(map[string]string, len(doc.Attributes))
		}
		n.Attributes[name] = string(value)
	}
	n.Image, n.Upload = doc.image()
	return n, nil
}

// image returns the image that the node was booted from: an upload, or the name of a cloud image.
func (doc *nodeJSON) image() (image, upload string) {
	at := string(doc.ImageID)
	if upload, ok := uploadID(at); ok {
		name, _, _ := strings.Cut(upload, "/")
		return resources.ImageRef{Kind: resources.DiskImage, Name: name}.String(), upload
	}
	if at == "" {
		return "", ""
	}
	return resources.ImageRef{Kind: resources.CloudImage, Name: at}.String(), ""
}

func (doc *nodeJSON) login() resources.Login {
	l := resources.Login{Username: "zuul", PythonPath: string(doc.Python), ShellType: string(doc.Shell),
		ConnectionType: string(doc.Connection), ConnectionPort: doc.port()}
	if doc.Username != nil {
		l.Username = string(*doc.Username)
	}
	return l
}

// port returns zero if the document has the credentials of a cluster in place of a port.
func (doc *nodeJSON) port() int64 {
	raw := doc.Port
	if raw == nil {
		raw = doc.SSHPort
	}
	if raw == nil {
		return defaultPort
	}
	var port int64
	if json.Unmarshal(raw, &port) != nil {
		return 0
	}
	return port
}

// access returns the credentials of a cluster that the document has in place of a port.
func (doc *nodeJSON) access() string {
	if raw := bytes.TrimSpace(doc.Port); len(raw) > 0 && raw[0] == '{' {
		return string(raw)
	}
	return ""
}

func (doc *nodeJSON) amounts() resources.ResourceAmounts {
	var a resources.ResourceAmounts
	for name, n := range doc.Resources {
		switch n := int64(n); name {
		case "instances":
			a.Instances = n
		case "cores":
			a.Cores = n
		case "ram":
			a.RAM = n
		case "volumes":
			a.Volumes = n
		case "volume-gb":
			a.VolumeGB = n
		default:
			if a.Other == nil {
				a.Other = map[string]int64{}
			}
			a.Other[name] = n
		}
	}
	return a
}

// nodeValues returns each key that Nodepool always writes and that follows from the record.
func nodeValues(record resources.Record) values {
	n := record.(*resources.Node)
	port := n.Login.ConnectionPort
	port = cmp.Or(port, defaultPort)
	connection := asJSON(port)
	if n.Access != "" {
		connection = json.RawMessage(n.Access)
	}
	python := n.Login.PythonPath
	python = cmp.Or(python, "auto") // a null would be passed on as null
	return values{
		{"state", asJSON(n.State)}, {"state_time", formatSeconds(n.StateTime)}, {"cloud", orNull(n.Cloud)},
		{"provider", orNull(n.Provider)}, {"pool", orNull(n.Pool)}, {"type", asJSON(notNil(n.Labels))},
		{"allocated_to", orNull(n.Request)}, {"az", orNull(n.Zone)}, {"region", orNull(n.Region)},
		{"public_ipv4", orNull(n.Addresses.PublicIPv4)}, {"private_ipv4", orNull(n.Addresses.PrivateIPv4)},
		{"public_ipv6", orNull(n.Addresses.PublicIPv6)}, {"private_ipv6", orNull(n.Addresses.PrivateIPv6)},
		{"host_id", orNull(n.HostID)}, {"interface_ip", orNull(n.Addresses.Interface)}, {"connection_port", connection},
		{"ssh_port", asJSON(port)}, {"image_id", imageValue(n)}, {"created_time", formatSeconds(n.Created)},
		{"external_id", orNull(n.ExternalID)}, {"hostname", orNull(n.Hostname)}, {"comment", orNull(n.Comment)},
		{"host_keys", asJSON(notNil(n.HostKeys))}, {"username", orNull(n.Login.Username)},
		{"connection_type", asJSON(cmp.Or(n.Login.ConnectionType, "ssh"))}, {"shell_type", orNull(n.Login.ShellType)},
		{"hold_expiration", holdValue(n)}, {"resources", amountsValue(n.Resources)}, {"slot", slotValue(n)},
		{"attributes", attributesValue(n.Attributes)}, {"python_path", asJSON(python)}, {"tenant_name", orNull(n.Tenant)},
		{"requestor", orNull(n.Requestor)},
	}
}

// freshNode returns the additional keys of a new node. Only other programs change them later.
func freshNode(record resources.Record, launcher string) values {
	if record.(*resources.Node).Static {
		launcher = staticLauncher
	}
	return values{{"launcher", orNull(launcher)}, {"user_data", null}, {"driver_data", null}, {"hold_job", null}}
}

func imageValue(n *resources.Node) json.RawMessage {
	if at, ok := uploadPath(n.Upload); ok {
		return asJSON(at)
	}
	name, ok := strings.CutPrefix(n.Image, string(resources.CloudImage)+".")
	if ok {
		return orNull(name)
	}
	return orNull(n.ImageID)
}

const maxHold = 100 * 365 * 24 * 3600 // seconds

// holdValue returns the duration of the hold from the time of the state, in whole seconds.
func holdValue(n *resources.Node) json.RawMessage {
	if n.HoldUntil.IsZero() {
		return null
	}
	left := math.Ceil(n.HoldUntil.Sub(n.StateTime).Seconds())
	return asJSON(int64(max(1, left))) // zero would mean forever
}

func amountsValue(a resources.ResourceAmounts) json.RawMessage {
	if a.IsZero() {
		return null
	}
	amounts := maps.Clone(a.Other)
	if amounts == nil {
		amounts = map[string]int64{}
	}
	amounts["instances"], amounts["cores"], amounts["ram"] = a.Instances, a.Cores, a.RAM
	for name, n := range map[string]int64{"volumes": a.Volumes, "volume-gb": a.VolumeGB} {
		if n != 0 {
			amounts[name] = n
		}
	}
	return asJSON(amounts)
}

func slotValue(n *resources.Node) json.RawMessage {
	if n.Slot == 0 && !n.Static && !n.Shares {
		return null
	}
	return asJSON(n.Slot)
}

func attributesValue(attributes map[string]string) json.RawMessage {
	if len(attributes) == 0 {
		return null
	}
	return asJSON(attributes)
}
