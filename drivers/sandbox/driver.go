// Package sandbox is a cloud in a file, for trials, examples and tests: its instances and images are records.
//
// The file is the cloud. Several processes may use it at the same time: it is only replaced as a whole, under a lock. Nothing runs
// between the calls: after its build_time an instance is ready in the next list.
package sandbox

import (
	"cmp"
	"context"
	"path/filepath"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/internal/requestvalues"
	"github.com/npctl/npctl/resources/schema"
)

// Driver opens clouds in files.
type Driver struct{}

var _ drivers.Driver = (*Driver)(nil)

// New returns the driver.
func New() *Driver { return &Driver{} }

// Kind implements drivers.Driver.
func (*Driver) Kind() string { return "sandbox" }

// Schema implements drivers.Driver.
func (*Driver) Schema() schema.Driver {
	pool := schema.Of[poolSettings]("", map[string]schema.Check{"instance_properties": checkProperties, "request_properties": requestvalues.CheckMap(checkProperties)})
	return schema.Driver{
		Doc:            driverDoc,
		Provider:       schema.Of[providerSettings]("", map[string]schema.Check{"fault.operation": checkOperation}),
		Pool:           pool,
		Label:          schema.ForLabels[labelSettings](pool, nil),
		HasLabels:      true,
		HasImages:      true,
		HasCloudImages: true,
		Formats:        []string{"raw", "qcow2"},
	}
}

// defaultFile is the name of the file in the directory of the provider.
const defaultFile = "sandbox.json"

// Open implements drivers.Driver. It creates the objects of public_image and foreign_server blocks that the file has never had.
func (*Driver) Open(ctx context.Context, env drivers.Env, config cty.Value) (drivers.Cloud, error) {
	var s providerSettings
	if err := cloudkit.Decode(config, &s); err != nil {
		return nil, err
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	file := cmp.Or(s.File, defaultFile)
	switch {
	case filepath.IsAbs(file):
	case env.Dir == "":
		return nil, drivers.Rejectf("the sandbox has no directory for its file; write an absolute path as file")
	default:
		file = filepath.Join(env.Dir, file)
	}
	c := &Cloud{store: &store{path: file}, catalog: catalogOf(s), buildTime: s.BuildTime, deleteTime: s.DeleteTime, imageTime: s.ImageTime,
		faults: faultBook{blocks: s.Faults, file: s.FaultFile}}
	if err := c.seed(s); err != nil {
		return nil, err
	}
	return &adopter{&imageStore{c, s.ImageFormat}}, ctx.Err()
}
