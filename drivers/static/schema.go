package static

import (
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/resources/schema"
)

// Schema implements drivers.Driver.
func (*Driver) Schema() schema.Driver {
	return schema.Driver{
		Doc:      "Nodes are existing machines. npctl neither creates nor deletes them; it assigns them and takes them back.",
		HasNodes: true,
		Node:     schema.Of[nodeSettings]("", nil),
		Nodepool: nodepoolKeys(),
	}
}

// nodeSettings are the driver's attributes of a node block.
type nodeSettings struct {
	Timeout         time.Duration `config:"timeout" default:"5s" doc:"Time within which the node must respond to a check."`
	HostKeyChecking bool          `config:"host_key_checking" default:"true" doc:"Check that the node responds and presents the configured host keys before npctl assigns it. Without the check, npctl passes the keys on unverified and assumes that the node is reachable."`
}

const defaultTimeout = 5 * time.Second

// settingsOf returns the settings of a node, the defaults without a valid configuration.
func settingsOf(config cty.Value) nodeSettings {
	s := nodeSettings{HostKeyChecking: true}
	if err := schema.Decode(config, &s); err != nil || s.Timeout <= 0 {
		s.Timeout = defaultTimeout
	}
	return s
}
