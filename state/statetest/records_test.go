package statetest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/resources"
)

// TestSamplesRoundTripJSON checks clone. The suite compares stored records with clones, so a clone that lost a field
// would hide that a store loses it.
func TestSamplesRoundTripJSON(t *testing.T) {
	for _, kind := range resources.Kinds() {
		r := record(kind, 1)
		if got := clone(r); !cmp.Equal(r, got) {
			t.Errorf("%s: %s", kind, cmp.Diff(r, got))
		}
		if cmp.Equal(r, touched(r)) || r.Key() != touched(r).Key() {
			t.Errorf("%s: touched must change the content and nothing of the key", kind)
		}
		if r.Key() == record(kind, 2).Key() && r.Key().ID != "" {
			t.Errorf("%s: samples must have keys of their own", kind)
		}
	}
}
