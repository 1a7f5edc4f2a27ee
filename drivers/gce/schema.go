package gce

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/internal/requestvalues"
	"github.com/npctl/npctl/resources/schema"
)

const driverDoc = "Nodes are instances of Google Compute Engine in one region of a project. Credentials are Google's application default credentials."

func driverSchema() schema.Driver {
	checks := map[string]schema.Check{"userdata": cloudkit.CheckBytes("user data", "Google", maxMetadataValue), "labels": checkLabels, "metadata": checkMetadata, "ssh_keys": checkSSHKeys,
		"request_properties": requestvalues.CheckMap(checkLabelKeys)}
	pool := schema.Of[poolSettings]("", checks)
	return schema.Driver{
		Doc:            driverDoc,
		Provider:       schema.Of[providerSettings]("", nil),
		Pool:           pool,
		Label:          schema.ForLabels[labelSettings](pool, map[string]schema.Check{"machine_types": cloudkit.CheckFilled("machine type such as e2-standard-2")}),
		HasLabels:      true,
		HasCloudImages: true,
		Nodepool:       nodepoolKeys(),
	}
}

// providerSettings locate the cloud.
type providerSettings struct {
	Project  string `config:"project,required" doc:"ID of the project."`
	Region   string `config:"region,required" doc:"Region of the nodes, for example 'europe-west1'."`
	Endpoint string `config:"endpoint" doc:"URL of the Compute Engine API, such as that of Private Service Connect; the default is 'https://compute.googleapis.com/compute/v1/'."`
}

// labelSettings are the attributes of an offer.
type labelSettings struct {
	MachineTypes []string `config:"machine_types,required,replacing" doc:"Machine types in order of preference: npctl uses the next one when the zone has no capacity for one."`

	poolSettings `config:",inline"`
}

// poolSettings are the attributes of an offer that a pool may have too. The defaults apply when neither sets them.
type poolSettings struct {
	Zones             []string                  `config:"zones,new" doc:"Zones to choose from; the default is all zones of the region that have one of the machine types."`
	Network           string                    `config:"network,replacing" doc:"Network by name; the default is that of 'subnetwork', else 'default'."`
	Subnetwork        string                    `config:"subnetwork,replacing" doc:"Subnetwork by name, or 'projects/…/subnetworks/…' of a shared network. The default is the one of the network in the region."`
	NetworkTags       []string                  `config:"network_tags,replacing" doc:"Network tags, which select firewall rules and routes."`
	PublicIPv4        bool                      `config:"public_ipv4,replacing" default:"true" doc:"Nodes have a public IPv4 address."`
	UseInternalIP     bool                      `config:"use_internal_ip,new" default:"false" doc:"Connect to nodes at their private address even if they have a public one."`
	Reach             drivers.Reach             `config:",inline"`
	SSHKeys           []string                  `config:"ssh_keys,replacing" doc:"Public keys in the form 'user:ssh-ed25519 AAAA…': the guest agent creates the users."`
	VolumeSize        int64                     `config:"volume_size,replacing" min:"1" doc:"Size of the boot disk in GB; the default is that of the image."`
	VolumeType        string                    `config:"volume_type,replacing" doc:"Type of the boot disk, for example 'pd-ssd'; Google has a default for each machine type."`
	UserData          string                    `config:"userdata,replacing,hashed" doc:"User data for cloud-init, in the metadata 'user-data'; at most 262144 bytes."`
	Metadata          map[string]string         `config:"metadata,replacing" doc:"Metadata of instances, such as 'startup-script'."`
	ServiceAccount    string                    `config:"service_account,replacing" doc:"Email address of the service account of the nodes; 'default' is that of the project. Without it nodes have no service account."`
	Scopes            []string                  `config:"scopes,replacing" doc:"Access scopes of the service account, as URLs or short names; the default is 'cloud-platform'."`
	Labels            map[string]string         `config:"labels,replacing" doc:"Labels of instances and their boot disks."`
	Request           drivers.RequestProperties `config:",inline"`
	ProvisioningModel string                    `config:"provisioning_model,replacing" default:"standard" oneof:"standard spot" doc:"'spot' nodes cost less; Google may delete them at any time."`
	NestedVirt        bool                      `config:"nested_virtualization,replacing" default:"false" doc:"Nodes can run virtual machines; only some machine types support it."`
}

func (s poolSettings) isSpot() bool { return s.ProvisioningModel == "spot" }

// maxMetadataValue is the limit on one value of metadata.
const maxMetadataValue = 262144

var metadataKey = drivers.Pattern(`^[a-zA-Z0-9_-]{1,128}$`)

func checkMetadata(v cty.Value) error {
	for key, value := range v.AsValueMap() {
		switch {
		case key == metadataUserData || key == metadataSSHKeys:
			return fmt.Errorf("metadata %q: use the attribute %s", key, map[string]string{metadataUserData: "userdata", metadataSSHKeys: "ssh_keys"}[key])
		case !metadataKey().MatchString(key):
			return fmt.Errorf("metadata %q: a key has 1 to 128 letters, digits, hyphens and underscores", key)
		case !value.IsNull() && value.IsKnown() && len(value.AsString()) > maxMetadataValue:
			return fmt.Errorf("metadata %q: the value has %d bytes, Google accepts %d", key, len(value.AsString()), maxMetadataValue)
		}
	}
	return nil
}

func checkSSHKeys(v cty.Value) error {
	for _, one := range v.AsValueSlice() {
		if one.IsNull() || !one.IsKnown() {
			continue
		}
		user, key, ok := strings.Cut(one.AsString(), ":")
		if !ok || user == "" || strings.ContainsAny(user, " \n") || !strings.Contains(key, " ") || strings.Contains(strings.TrimSpace(key), "\n") {
			return fmt.Errorf("ssh key %.40q: write the user, a colon and one public key, such as zuul:ssh-ed25519 AAAA", one.AsString())
		}
	}
	return nil
}

// Google's limits on labels. npctl needs up to reservedLabels labels of an object.
const (
	maxLabelValue  = 63
	maxLabels      = 64
	reservedLabels = 15
)

var (
	labelKey   = drivers.Pattern(`^[a-z][a-z0-9_-]{0,62}$`)
	labelValue = drivers.Pattern(`^[a-z0-9_-]{0,63}$`)
)

func checkLabels(v cty.Value) error {
	if err := checkLabelKeys(v); err != nil {
		return err
	}
	for key, value := range v.AsValueMap() {
		if !value.IsNull() && value.IsKnown() && !labelValue().MatchString(value.AsString()) {
			return fmt.Errorf("label %q: value %.70q: Google accepts up to 63 lower-case letters, digits, hyphens and underscores", key, value.AsString())
		}
	}
	return nil
}

func checkLabelKeys(v cty.Value) error {
	values := v.AsValueMap()
	if n := len(values); n > maxLabels-reservedLabels {
		return fmt.Errorf("%d labels: Google accepts %d for an object, of which npctl needs %d", n, maxLabels, reservedLabels)
	}
	for key := range values {
		switch {
		case strings.HasPrefix(key, tagPrefix), strings.HasPrefix(key, "goog"):
			return fmt.Errorf("label %q: %s… and goog… are reserved; choose another", key, tagPrefix)
		case !labelKey().MatchString(key):
			return fmt.Errorf("label %q: a key has 1 to 63 lower-case letters, digits, hyphens and underscores, and starts with a letter", key)
		}
	}
	return nil
}

// decodeOffer reads the configuration of an offer.
func decodeOffer(config cty.Value) (s labelSettings, err error) {
	err = cloudkit.Decode(config, &s)
	s.MachineTypes = slices.Compact(s.MachineTypes)
	return s, err
}
