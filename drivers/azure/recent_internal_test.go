package azure

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Lists overlap: the daemon makes one while launches make others.
func TestDiskIsTaggedOnceForOverlappingLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recentList
		untagged := func() map[string]diskTags { return map[string]diskTags{"vm": {disk: "disk"}} }
		calls := 0
		tag := func(err error) error {
			return r.tagDisk("vm", func(d diskTags) error {
				if d.disk != "disk" {
					t.Errorf("disk is %q", d.disk)
				}
				calls++
				r.set(time.Now(), nil, untagged()) // a list that ends during the call
				time.Sleep(time.Second)
				return err
			})
		}
		want := func(n int, when string) {
			t.Helper()
			if calls != n {
				t.Fatalf("%s: tagged %d times, want %d", when, calls, n)
			}
		}
		refused := errors.New("refused")
		r.set(time.Now(), nil, untagged())
		if err := tag(refused); !errors.Is(err, refused) {
			t.Errorf("got %v", err)
		}
		want(1, "refused")
		r.set(time.Now(), nil, untagged())
		overlapping := time.Now()
		if err := tag(nil); err != nil {
			t.Error(err)
		}
		want(2, "repeated after the refusal")
		r.set(overlapping, nil, untagged())
		if err := tag(nil); err != nil {
			t.Error(err)
		}
		want(2, "listed before the call returned")
		r.set(time.Now(), nil, untagged())
		if err := tag(nil); err != nil {
			t.Error(err)
		}
		want(3, "still without tags in a later list")
	})
}
