package qemu

import (
	"bytes"
	"context"
	"fmt"
	"os"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/resources"
)

// List implements drivers.Cloud: the directories of the machines.
func (c *Cloud) List(ctx context.Context) ([]resources.Instance, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	all, err := c.all()
	if err != nil {
		return nil, fmt.Errorf("list machines: %w", err)
	}
	list := make([]resources.Instance, 0, len(all))
	for _, m := range all {
		list = append(list, c.instance(m))
	}
	return list, nil
}

// instance returns the machine with the current state of its process.
func (c *Cloud) instance(m machine) resources.Instance {
	i := resources.Instance{
		ID: m.ID, Name: m.Name, Marks: resources.OwnerTags(m.Tags), Status: resources.StatusPending, Created: m.Created, Flavor: flavorOf(m.amounts()),
		Resources: m.amounts(), Addresses: resources.Addresses{Interface: loopback, PrivateIPv4: loopback},
		Login: resources.Login{Username: m.Username, ConnectionPort: int64(m.Port)},
	}
	switch {
	case c.isLocked(m.ID):
		switch pid, err := holderOf(c.file(m.ID, filePID)); {
		case err != nil || pid == 0:
		case isStopped(pid):
			i.Status, i.Fault = resources.StatusFailed, fmt.Sprintf("the QEMU process %d is stopped (SIGSTOP)", pid)
		default:
			i.Status = resources.StatusReady
		}
	case c.hasRun(m.ID):
		i.Status, i.Fault = resources.StatusFailed, "the QEMU process has ended"
		if output, err := os.ReadFile(c.file(m.ID, fileLog)); err == nil && len(output) > 0 {
			i.Fault += ": " + lastLines(string(output))
		}
	}
	return i
}

// isStopped reports whether a signal has stopped a process, as /proc of Linux shows it.
func isStopped(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, found := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	return err == nil && found && bytes.HasPrefix(after, []byte("T"))
}

// hasRun reports whether QEMU was started for the machine: QEMU creates the file of the console.
func (c *Cloud) hasRun(id string) bool {
	_, err := os.Stat(c.file(id, fileConsole))
	return err == nil
}

func flavorOf(a resources.ResourceAmounts) string {
	return fmt.Sprintf("%s, %d MiB", text.Count(a.Cores, "core", "cores"), a.RAM)
}
