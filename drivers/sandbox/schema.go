package sandbox

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/sandbox/sandboxcloud"
	"github.com/npctl/npctl/resources/schema"
)

const driverDoc = "An OpenStack inside npctl, stored in one file, for trials, examples and tests. It has " +
	"the flavors `small` (1 core, 2 GiB), `medium` (2, 4 GiB), `large` (8, 8 GiB) and `toobig` (for which no host has " +
	"capacity), the network `private`, the external network `public` and the zones `az1` and `az2`. Servers are records only, " +
	"so nodes do not respond to SSH unless `ssh_port` is set; then set `host_key_checking = true` to read their host keys."

// Schema implements drivers.Driver.
func (d *Driver) Schema() schema.Driver {
	s := d.shared
	s.Doc = driverDoc
	s.Provider = schema.Of[sandboxcloud.Options]("", map[string]schema.Check{
		"network.cidrs": checkPrefixes, "fault.operation": checkOperation,
	})
	for _, action := range sandboxcloud.Actions() {
		a := s.Provider.Find("fault.action")
		a.OneOf = append(a.OneOf, string(action))
	}
	s.Provider.Attributes = append(s.Provider.Attributes, d.shared.Provider.Attributes...)
	s.Pool.Attributes = slices.Clone(s.Pool.Attributes)
	check := s.Pool.Find("host_key_checking")
	check.Default = cty.False
	check.Doc += " The default is false because servers of the sandbox do not respond without `ssh_port`."
	return s
}

// defaultFile is the name of the file in the provider's own directory.
const defaultFile = "sandbox.json"

// optionsOf decodes the driver's own attributes of a provider block. A null configuration means the defaults.
func (d *Driver) optionsOf(env drivers.Env, config cty.Value) (sandboxcloud.Options, error) {
	quota := sandboxcloud.DefaultQuota()
	o := sandboxcloud.Options{Log: env.Log, Quota: &quota}
	if err := schema.Decode(config, &o); err != nil {
		return o, err
	}
	switch {
	case filepath.IsAbs(o.File):
	case env.Dir == "":
		return o, errors.New("the sandbox has no directory for its file; write an absolute path as file")
	case o.File == "":
		o.File = filepath.Join(env.Dir, defaultFile)
	default:
		o.File = filepath.Join(env.Dir, o.File)
	}
	return o, o.Check()
}

func checkPrefixes(v cty.Value) error {
	for _, e := range v.AsValueSlice() {
		if e.IsNull() || !e.IsKnown() {
			continue
		}
		if _, err := netip.ParsePrefix(e.AsString()); err != nil {
			return fmt.Errorf("%q is not an address range; write one such as 10.1.0.0/16", e.AsString())
		}
	}
	return nil
}

func checkOperation(v cty.Value) error {
	if sandboxcloud.KnownOperation(v.AsString()) {
		return nil
	}
	return fmt.Errorf("unknown operation %q; one of %s", v.AsString(), strings.Join(sandboxcloud.Operations(), ", "))
}
