package sandbox

import (
	"fmt"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
)

const driverDoc = "A cloud inside npctl, stored in one file, for trials, examples and tests. It has the flavors `small` (1 core, 2 GiB), " +
	"`medium` (2, 4 GiB), `large` (8, 8 GiB) and `toobig` (for which no host has capacity), the networks `private` and `public`, and the " +
	"zones `az1` and `az2`. Its servers are records only: they run nothing and do not respond to SSH."

// providerSettings are the attributes of a provider: the content and the behavior of its cloud.
type providerSettings struct {
	File        string          `config:"file" doc:"File of the cloud, relative to npctl's data directory; providers with the same absolute path share a cloud. The default is 'sandbox.json', one for each provider."`
	ImageFormat string          `config:"image_format" default:"raw" oneof:"raw qcow2" doc:"Format of uploaded images."`
	BuildTime   time.Duration   `config:"build_time" default:"2s" doc:"Time until a new server is ready."`
	DeleteTime  time.Duration   `config:"delete_time" default:"1s" doc:"Time until a deleted server is gone."`
	ImageTime   time.Duration   `config:"image_time" default:"0s" doc:"Time that the cloud needs for an uploaded image."`
	Zones       []string        `config:"zones" doc:"Availability zones; the default is 'az1' and 'az2'."`
	Quota       *quota          `config:"quota" doc:"Quota of the project."`
	Flavors     []flavor        `config:"flavor" label:"name" doc:"An additional flavor."`
	Images      []publicImage   `config:"public_image" label:"name" doc:"An image without content for 'cloud_image'. The sandbox creates it once; later changes of the block do not change it."`
	Foreign     []foreignServer `config:"foreign_server" label:"name" doc:"A server of another program, to show that npctl does not change it. The sandbox creates it once."`
	Faults      []fault         `config:"fault" doc:"A fault of the cloud: of the calls that match the patterns, the first 'after' succeed; of the rest every 'every'-th fails, at most 'times'. In patterns '*' stands for any text and '?' for one character."`
	FaultFile   string          `config:"fault_file,path" doc:"JSON file with a list of faults, as in 'fault' blocks. npctl reads it at each call, so faults can come and go while it runs."`
}

// quota holds the limits of a cloud; -1 means no limit.
type quota struct {
	Instances int64 `config:"instances" default:"100" min:"-1" doc:"Servers; -1 means no limit."`
	Cores     int64 `config:"cores" default:"200" min:"-1" doc:"Cores of all servers; -1 means no limit."`
	RAM       int64 `config:"ram" default:"512000" min:"-1" doc:"MiB of RAM of all servers; -1 means no limit."`
}

// flavor is a size of servers.
type flavor struct {
	Name   string `config:",label"`
	VCPUs  int64  `config:"vcpus,required" min:"1" doc:"Cores."`
	RAM    int64  `config:"ram,required" min:"1" doc:"MiB of RAM."`
	NoHost bool   `config:"no_host" default:"false" doc:"Servers of this flavor fail because no host has capacity for them."`
}

// publicImage is an image that npctl did not upload.
type publicImage struct {
	Name       string            `config:",label"`
	Private    bool              `config:"private" default:"false" doc:"It belongs to the project, like an image that was uploaded by hand."`
	Properties map[string]string `config:"properties" doc:"Its properties, for 'filters'."`
}

// foreignServer is a server that npctl did not create.
type foreignServer struct {
	Name     string            `config:",label"`
	Flavor   string            `config:"flavor" default:"small" doc:"Its flavor."`
	Metadata map[string]string `config:"metadata" doc:"Its metadata."`
}

// labelSettings are the attributes of an offer.
type labelSettings struct {
	Flavor string `config:"flavor,required,replacing" doc:"Flavor by name."`

	poolSettings `config:",inline"`
}

// poolSettings are the attributes of an offer that a pool may have too.
type poolSettings struct {
	Networks           []string                  `config:"networks,replacing" doc:"Networks by name, 'private' or 'public'; the default is 'private'."`
	Zones              []string                  `config:"availability_zones,new" doc:"Zones to choose from; the default is all zones."`
	UserData           string                    `config:"userdata,replacing,hashed" doc:"User data, as in other clouds. Nothing reads it."`
	InstanceProperties map[string]string         `config:"instance_properties,replacing" doc:"Metadata of servers."`
	Request            drivers.RequestProperties `config:",inline"`
	HostKeyChecking    bool                      `config:"host_key_checking" default:"false" doc:"A node is ready when it presents its SSH host keys, which servers of the sandbox never do."`
}

// offerOf reads the configuration of an offer.
func offerOf(config cty.Value) (o labelSettings, err error) {
	err = cloudkit.Decode(config, &o)
	return o, err
}

func (s providerSettings) check() error {
	for i, f := range s.Faults {
		if err := f.check(); err != nil {
			return drivers.Rejectf("fault %d: %w", i+1, err)
		}
	}
	return nil
}

func checkOperation(v cty.Value) error { return checkPattern(v.AsString()) }

func checkProperties(v cty.Value) error {
	for key := range v.AsValueMap() {
		if strings.HasPrefix(key, drivers.TagPrefix) {
			return fmt.Errorf("property %q: %s… is reserved for ownership tags; choose another name", key, drivers.TagPrefix)
		}
	}
	return nil
}
