package startup

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
)

func TestOnlyTheFirstCollectionIsLate(t *testing.T) {
	now := func() uint64 {
		sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	debug.SetGCPercent(50) // by the user
	if delay(); now() != 50 {
		t.Errorf("GOGC is %d, want that of the user", now())
	}
	if CollectLess(200); now() != 50 {
		t.Errorf("GOGC is %d after CollectLess, want that of the user", now())
	}
	chosen.Store(false)
	debug.SetGCPercent(percent)
	if delay(); now() != firstPercent {
		t.Errorf("GOGC is %d, want %d", now(), firstPercent)
	}
	runtime.GC()
	testutil.Await(t, "the default is back", func() bool { return now() == percent })

	chosen.Store(false)
	delay()
	CollectLess(200)
	runtime.GC()
	if runtime.GC(); now() != 200 {
		t.Errorf("GOGC is %d after a collection, want that of CollectLess", now())
	}
}
