package qemu

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/npctl/npctl/drivers/cloudkit"
)

// ConsoleLog implements drivers.Console: the end of the output on the serial port.
func (c *Cloud) ConsoleLog(ctx context.Context, id string) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if !isID(id) {
		return "", fmt.Errorf("read console: there is no machine %q", id)
	}
	file, err := os.Open(c.file(id, fileConsole))
	if err != nil {
		return "", fmt.Errorf("read console of machine %s: %w", id, err)
	}
	defer file.Close() //nolint:errcheck // only read
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	const most = cloudkit.ConsoleBytes + 1 // shows that there is more
	content, err := io.ReadAll(io.NewSectionReader(file, max(0, info.Size()-most), most))
	return cloudkit.Console(string(content)), err
}
