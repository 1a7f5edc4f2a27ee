package sandbox

import (
	"os"
	"path/filepath"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/sandbox/sandboxcloud"
)

// openCloud opens the cloud in a file. A new cloud gets an address range that no adjacent sandbox uses; the mutex
// serializes this within the process. An existing file has an address range, so the adjacent files are not read.
func (d *Driver) openCloud(env drivers.Env, o sandboxcloud.Options) (*sandboxcloud.Cloud, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := os.Stat(o.File); err == nil {
		return sandboxcloud.Open(o)
	}
	others, err := filepath.Glob(filepath.Join(filepath.Dir(env.Dir), "*", defaultFile))
	if err != nil {
		return nil, err
	}
	used := map[int]bool{}
	for _, other := range others {
		n, known, err := sandboxcloud.RangeOf(other)
		switch {
		case err != nil:
			o.Log.Debug("address range of another sandbox is unknown", "file", other, "error", err)
		case known:
			used[n] = true
		}
	}
	for used[o.Range] && o.Range < sandboxcloud.MaxRange {
		o.Range++
	}
	return sandboxcloud.Open(o)
}
