package sandbox

import (
	"path/filepath"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/sandboxcloud"
)

// openCloud opens the cloud in a file. A new one gets an address range that no other sandbox beside it has; one process
// makes new ones one by one.
func (d *Driver) openCloud(env drivers.Env, o sandboxcloud.Options) (*sandboxcloud.Cloud, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	others, err := filepath.Glob(filepath.Join(filepath.Dir(env.Dir), "*", defaultFile))
	if err != nil {
		return nil, err
	}
	used := map[int]bool{}
	for _, other := range others {
		n, known, err := sandboxcloud.RangeOf(other)
		switch {
		case other == o.File: // it has its addresses
			return sandboxcloud.Open(o)
		case err != nil:
			o.Log.Debug("address range of another sandbox is not known", "file", other, "error", err)
		case known:
			used[n] = true
		}
	}
	for used[o.Range] && o.Range < sandboxcloud.MaxRange {
		o.Range++
	}
	return sandboxcloud.Open(o)
}
