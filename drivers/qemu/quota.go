package qemu

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/npctl/npctl/resources"
)

// limitsOf returns the limits of a provider: those of its configuration, else those of the host.
func limitsOf(s providerSettings) resources.ResourceAmounts {
	limits := resources.NoLimits()
	limits.Instances = cmp.Or(s.MaxInstances, resources.Unlimited)
	limits.Cores, limits.RAM = cmp.Or(s.MaxCores, int64(runtime.NumCPU())), cmp.Or(s.MaxRAM, hostMemory())
	return limits
}

// hostMemory returns the memory of the host in MiB, or no limit if the system has no /proc/meminfo.
func hostMemory() int64 {
	file, err := os.Open("/proc/meminfo")
	if err != nil {
		return resources.Unlimited
	}
	defer file.Close() //nolint:errcheck // only read
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if words := strings.Fields(lines.Text()); len(words) > 1 && words[0] == "MemTotal:" {
			if n, err := strconv.ParseInt(words[1], 10, 64); err == nil {
				return n >> 10
			}
		}
	}
	return resources.Unlimited
}

// Quota implements drivers.Cloud: the limits, and the sum of all machines in the directory.
func (c *Cloud) Quota(ctx context.Context) (resources.Quota, error) {
	if err := ctx.Err(); err != nil {
		return resources.Quota{}, err
	}
	all, err := c.all()
	if err != nil {
		return resources.Quota{}, fmt.Errorf("read quota: %w", err)
	}
	return resources.Quota{Limit: c.limits, Used: used(all)}, nil
}

func used(all []machine) resources.ResourceAmounts {
	var sum resources.ResourceAmounts
	for _, m := range all {
		sum = sum.Plus(m.amounts())
	}
	return sum
}
