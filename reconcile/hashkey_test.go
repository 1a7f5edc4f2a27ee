package reconcile

import (
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/resources"
)

// TestReloadedConfigurationIsKeyed: without the key, a change of a sensitive value would not be detected.
func TestReloadedConfigurationIsKeyed(t *testing.T) {
	desired := func(password string) resources.Desired {
		source := resources.SourceOfHash(cty.ObjectVal(map[string]cty.Value{"userdata": cty.StringVal(password).Mark("sensitive")}))
		pool := resources.Pool{Offers: []resources.Offer{{Hashed: source}}, Nodes: []resources.StaticNode{{Hashed: source}}}
		return resources.Desired{Hashed: source, Images: []resources.Image{{Hashed: source}}, Providers: []resources.Provider{{Pools: []resources.Pool{pool}}}}
	}
	hashes := func(d resources.Desired) []resources.Hashes {
		pool := d.Providers[0].Pools[0]
		return []resources.Hashes{d.Digests, d.Images[0].Hashes, pool.Offers[0].Hashes, pool.Nodes[0].Hashes}
	}
	e := New(Options{Desired: desired("one"), HashKey: resources.NewHashKey()})
	same, other := hashes(e.With(desired("one")).Desired), hashes(e.With(desired("two")).Desired)
	for i, first := range hashes(e.Desired) {
		if !same[i].Same(first.Current()) || other[i].Same(first.Current()) {
			t.Errorf("hash %d is %s, after a reload %s, and with another value %s", i, first, same[i], other[i])
		}
	}
}
