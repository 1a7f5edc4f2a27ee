package openstack

import (
	"context"
	"strings"
)

// The API limits the console log in lines, npctl in bytes.
const (
	consoleLines = 2000
	consoleBytes = 64 << 10
)

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
	return newest(answer.Output, consoleBytes), nil
}

// newest returns the last lines of text.
func newest(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	text = text[len(text)-limit:]
	if _, rest, ok := strings.Cut(text, "\n"); ok {
		text = rest
	}
	return strings.ToValidUTF8(text, "")
}
