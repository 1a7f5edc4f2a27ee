package gce

import (
	"context"
	"fmt"
	"strings"

	"github.com/npctl/npctl/drivers"
)

// consoleBytes is the size of the returned console output.
const consoleBytes = 64 << 10

// ConsoleLog implements drivers.Console with the output of the first serial port. Google keeps the last MiB of a running
// instance.
func (c *Cloud) ConsoleLog(ctx context.Context, id string) (string, error) {
	at, ok := placeOf(id)
	if !ok {
		return "", unsentError{fmt.Errorf("read serial port: %w: instance %s does not exist", drivers.ErrRejected, id)}
	}
	output, err := c.api.serialPort(ctx, at, -consoleBytes) // negative: from the end
	if err != nil {
		return "", err
	}
	return newestLines(strings.ToValidUTF8(output, "\uFFFD"), consoleBytes), nil
}

// newestLines returns the last lines of text.
func newestLines(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	text = text[len(text)-limit:]
	if _, rest, ok := strings.Cut(text, "\n"); ok {
		text = rest
	}
	return strings.ToValidUTF8(text, "")
}
