package metastatic

import (
	"fmt"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/resources/schema"
)

const driverDoc = "Nodes are slots on backing nodes, which npctl requests from its other providers by a label. Several jobs " +
	"share a backing node at the same time or one after the other. Needs `npctl watch`, which serves the requests."

// Schema implements drivers.Driver.
func (*Driver) Schema() schema.Driver {
	pool := schema.Of[poolSettings]("", nil)
	return schema.Driver{
		Doc:       driverDoc,
		Pool:      pool,
		Label:     schema.ForLabels[labelSettings](pool, map[string]schema.Check{"backing_label": schema.CheckNotEmpty}),
		HasLabels: true,
		Nodepool:  nodepoolKeys(),
		Agree: &schema.Agreement{By: "backing_label",
			Attributes: []string{"max_parallel_jobs", "grace_time", "min_retention_time", "max_age", "host_key_checking"}},
	}
}

// poolSettings are the driver's attributes of a pool.
type poolSettings struct {
	HostKeyChecking bool `config:"host_key_checking" default:"false" doc:"Read the SSH host keys of the backing node again for each slot. Without it, the slot has the host keys of the backing node."`
}

// labelSettings are the attributes of an offer.
type labelSettings struct {
	BackingLabel     string        `config:"backing_label,required,replacing" doc:"Label of the backing nodes, which another provider offers."`
	MaxParallelJobs  int64         `config:"max_parallel_jobs" default:"1" min:"1" doc:"Number of slots of a backing node."`
	GraceTime        time.Duration `config:"grace_time" default:"60s" doc:"Time after which npctl returns a backing node without used slots."`
	MinRetentionTime time.Duration `config:"min_retention_time" default:"0s" doc:"Time after its creation for which npctl keeps a backing node, such as the minimum that the cloud charges for."`
	MaxAge           time.Duration `config:"max_age" doc:"Age above which a backing node gets no new slots; npctl returns it when its last slot is free. The default is no limit."`
	Pool             poolSettings  `config:",inline"`
}

// settingsOf decodes an offer's configuration.
func settingsOf(config cty.Value) (labelSettings, error) {
	var s labelSettings
	if err := schema.Decode(config, &s); err != nil {
		return s, err
	}
	if s.MaxAge > 0 && s.MaxAge < s.MinRetentionTime {
		return s, fmt.Errorf("max_age %s is less than min_retention_time %s", s.MaxAge, s.MinRetentionTime)
	}
	return s, nil
}
