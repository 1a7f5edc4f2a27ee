package openstack

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

// server holds the fields of a Nova server that npctl uses (GET /servers/detail).
type server struct {
	ID        string               `json:"id"`
	Name      string               `json:"name"`
	Status    string               `json:"status"`
	Task      string               `json:"OS-EXT-STS:task_state"`
	Created   string               `json:"created"`
	Updated   string               `json:"updated"`
	Metadata  map[string]string    `json:"metadata"`
	Addresses map[string][]address `json:"addresses"` // by network name
	HostID    string               `json:"hostId"`
	Project   string               `json:"tenant_id"`
	Key       string               `json:"key_name"`
	Image     serverImage          `json:"image"`
	Zone      string               `json:"OS-EXT-AZ:availability_zone"`
	Flavor    serverFlavor         `json:"flavor"`
	Fault     *fault               `json:"fault"`
	Volumes   []attachedVolume     `json:"os-extended-volumes:volumes_attached"`
}

// serverImage is the image of a server. Nova shows an empty text for a server that boots from a volume.
type serverImage struct{ ID string }

// UnmarshalJSON accepts the empty text.
func (i *serverImage) UnmarshalJSON(text []byte) error {
	var image struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(text, &image); err == nil {
		i.ID = image.ID
	}
	return nil
}

// attachedVolume is a volume in a server's representation.
type attachedVolume struct {
	ID                  string `json:"id"`
	DeleteOnTermination *bool  `json:"delete_on_termination"` // not shown below microversion 2.3
}

type address struct {
	Address string `json:"addr"`
	Version int    `json:"version"`
	Type    string `json:"OS-EXT-IPS:type"` // fixed or floating
}

// serverFlavor has an ID below microversion 2.47 and the other fields from 2.47 on.
type serverFlavor struct {
	ID    string `json:"id"`
	Name  string `json:"original_name"`
	VCPUs int64  `json:"vcpus"`
	RAM   int64  `json:"ram"`
}

type fault struct {
	Message string `json:"message"`
}

// Metadata of servers beside the ownership tags: the values of the offer that List needs.
const (
	keyFloating  = markPrefix + "floating_ip" // "true": not ready without a public address
	keyPorts     = markPrefix + "ports"       // "true": npctl deletes its ports
	keyVolumeGB  = markPrefix + "volume_gb"   // size of the boot volume
	keyInterface = markPrefix + "interface"   // address to connect to, see addressChoice
)

// instance converts a server. The flavors are needed if the server does not include its size.
func (c *Cloud) instance(s server, external externalNetworks, flavors []flavor) resources.Instance {
	i := resources.Instance{
		ID:        s.ID,
		Name:      s.Name,
		Marks:     ownerOf(s.Metadata),
		Status:    statusOf(s),
		Zone:      s.Zone,
		Region:    c.entry.region,
		Cloud:     c.entry.name,
		HostID:    s.HostID,
		Flavor:    s.Flavor.Name,
		Resources: resources.ResourceAmounts{Instances: 1, Cores: s.Flavor.VCPUs, RAM: s.Flavor.RAM},
	}
	if f, ok := flavorByID(flavors, s.Flavor.ID); ok && s.Flavor.Name == "" {
		i.Flavor, i.Resources.Cores, i.Resources.RAM = f.Name, f.VCPUs, f.RAM
	}
	i.Created, _ = time.Parse(time.RFC3339, s.Created)
	addVolumes(&i, s)
	i.Addresses = addressesOf(s, external, choiceOf(s.Metadata, c.entry.private))
	i.AddressLate = s.Status == "ACTIVE" && i.Status == resources.StatusPending
	c.addFloating(&i, s)
	if i.Status == resources.StatusFailed {
		i.Fault = "server is " + s.Status
		if s.Fault != nil && s.Fault.Message != "" {
			i.Fault = cloudkit.Clean(s.Fault.Message)
			i.FaultKind = faultKind(s.Fault.Message)
		}
	}
	return i
}

func addVolumes(i *resources.Instance, s server) {
	if gb := parseInt(s.Metadata[keyVolumeGB]); gb > 0 {
		i.Resources.Volumes, i.Resources.VolumeGB = 1, gb
	} else {
		i.Resources.Volumes = int64(len(s.Volumes))
	}
}

// addFloating determines whether a server that needs a floating IP has one. Nova shows it with a delay, so
// associations by this process count too.
func (c *Cloud) addFloating(i *resources.Instance, s server) {
	if s.hasFloating() {
		i.Resources.Addresses = 1
	}
	if s.Metadata[keyFloating] != "true" || i.Status != resources.StatusReady {
		return
	}
	if address, ok := c.attached.get(s.ID); ok && i.Addresses.PublicIPv4 == "" {
		setFloating(i, address, choiceOf(s.Metadata, c.entry.private))
	}
	if i.Addresses.PublicIPv4 == "" {
		i.Status, i.AddressLate = resources.StatusPending, true
	}
}

func (s server) hasFloating() bool {
	for _, list := range s.Addresses {
		if slices.ContainsFunc(list, func(a address) bool { return a.Type == "floating" }) {
			return true
		}
	}
	return false
}

func setFloating(i *resources.Instance, address string, choice addressChoice) {
	i.Addresses.PublicIPv4 = address
	i.Resources.Addresses = 1
	i.Status, i.AddressLate = resources.StatusReady, false
	i.Addresses.Interface = choice.pick(i.Addresses)
}

// statusOf maps Nova's statuses (https://docs.openstack.org/api-guide/compute/server_concepts.html). A server with a
// delete task is being deleted, whatever its status; if the deletion fails, Nova clears the task and sets ERROR.
func statusOf(s server) resources.Status {
	if s.Task == "deleting" || s.Task == "soft-deleting" {
		return resources.StatusDeleting
	}
	if s.Status == "ERROR" && s.Fault == nil && isRecent(s.Updated) {
		return resources.StatusPending // Nova sets the status first and adds the fault a moment later
	}
	switch s.Status {
	case "ACTIVE", "MIGRATING", "PASSWORD", "VERIFY_RESIZE", "RESIZE", "REVERT_RESIZE":
		if len(s.Addresses) == 0 { // the address may appear after the status
			return resources.StatusPending
		}
		return resources.StatusReady
	case "DELETED", "SOFT_DELETED":
		return resources.StatusDeleting
	case "ERROR", "SHUTOFF", "STOPPED", "SUSPENDED", "PAUSED", "RESCUE", "SHELVED", "SHELVED_OFFLOADED":
		return resources.StatusFailed
	default: // BUILD, REBUILD, REBOOT, HARD_REBOOT, UNKNOWN (its cell does not respond) and new statuses
		return resources.StatusPending
	}
}

// faultDelay is the maximum time between a server's ERROR status and its fault.
const faultDelay = 5 * time.Second

func isRecent(stamp string) bool {
	at, err := time.Parse(time.RFC3339, stamp)
	return err == nil && time.Since(at).Abs() < faultDelay
}
