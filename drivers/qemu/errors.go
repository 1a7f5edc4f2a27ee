package qemu

import (
	"fmt"
	"strings"

	"github.com/npctl/npctl/drivers"
)

// startError returns the error for a QEMU that did not start, by its output.
func startError(output string, err error) error {
	output = lastLines(output)
	kind := drivers.ErrRejected // QEMU does not know an argument, or cannot open a file
	switch {
	case isPortTaken(output):
		return fmt.Errorf("start QEMU: %s: %w", output, errPortTaken)
	case isSandboxMissing(output):
		return drivers.Unsent(fmt.Errorf("start QEMU: %w: %w: %s", drivers.ErrRejected, errNoSandbox, output))
	case strings.Contains(output, "Cannot allocate memory") || strings.Contains(output, "cannot set up guest memory"):
		kind = drivers.ErrCapacity
	}
	if output == "" {
		return fmt.Errorf("start QEMU: %w", err)
	}
	return drivers.Unsent(fmt.Errorf("start QEMU: %w: %s", kind, output))
}

// lastLines returns the end of a program's output as one line.
func lastLines(output string) string {
	const most = 500
	output = strings.Join(strings.Fields(output), " ")
	if len(output) > most {
		output = "…" + strings.ToValidUTF8(output[len(output)-most:], "")
	}
	return output
}

// firstLine returns the first line of a program's output.
func firstLine(output string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(output), "\n")
	return line
}
