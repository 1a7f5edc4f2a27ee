package openstack

import (
	"context"

	"github.com/npctl/npctl/drivers/cloudkit"
)

// consoleLines are more than npctl returns; the API limits the console log in lines.
const consoleLines = 2000

// ConsoleLog implements drivers.Console.
func (c *Cloud) ConsoleLog(ctx context.Context, id string) (string, error) {
	body := map[string]any{"os-getConsoleOutput": map[string]any{"length": consoleLines}}
	var answer struct {
		Output string `json:"output"`
	}
	_, err := c.compute.Post(ctx, c.compute.ServiceURL("servers", id, "action"), body, &answer, okCodes(200))
	if err != nil {
		return "", wrap("read console of server "+id, err)
	}
	return cloudkit.Console(answer.Output), nil
}
