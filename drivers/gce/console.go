package gce

import (
	"context"
	"fmt"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
)

// ConsoleLog implements drivers.Console with the output of the first serial port. Google keeps the last MiB of a running
// instance.
func (c *Cloud) ConsoleLog(ctx context.Context, id string) (string, error) {
	at, ok := placeOf(id)
	if !ok {
		return "", drivers.Unsent(fmt.Errorf("read serial port: %w: instance %s does not exist", drivers.ErrRejected, id))
	}
	output, err := c.api.serialPort(ctx, at, -cloudkit.ConsoleBytes) // negative: from the end
	if err != nil {
		return "", err
	}
	return cloudkit.Console(output), nil
}
