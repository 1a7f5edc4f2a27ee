package watch_test

import (
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state/bolt"
	"github.com/npctl/npctl/watch"
)

// use returns the records of use of the stopped daemons, by hour.
func (l *lab) use() map[string]*resources.Use {
	l.t.Helper()
	store, err := bolt.Open(bolt.Options{Path: filepath.Join(l.dir, "npctl.db"), ReadOnly: true})
	testutil.Must(l.t, err)
	defer store.Close() //nolint:errcheck // read-only file
	entries, err := store.List(l.t.Context(), resources.KindUse)
	testutil.Must(l.t, err)
	records := map[string]*resources.Use{}
	for _, e := range entries {
		records[e.Record.Key().ID] = e.Record.(*resources.Use)
	}
	return records
}

// usedBy returns the amounts of a tenant, without the group.
func usedBy(record *resources.Use, tenant string) (sum resources.UseAmounts) {
	for _, r := range record.Rows {
		if r.Tenant == tenant {
			sum = sum.Plus(r.UseAmounts)
		}
	}
	return sum
}

func TestUseIsRecordedAcrossHoursAndRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, strings.NewReplacer("min_ready = 1", "", `image_format = "raw"`, "image_format = \"raw\"\nprices = { small = 0.36 }\ncurrency = \"EUR\"").Replace(fleet),
			emulator.Options{BuildTime: 20 * time.Second})
		l.ahead.Store(int64(57 * time.Minute)) // the fake clock starts at midnight
		d, stop := l.daemonWith(&life{})
		l.live(d)
		r := l.fulfilled(d, l.asks(d, watch.NewRequest{Labels: []string{"small"}, Tenant: "acme"}))
		nodes, err := d.Clients.Take(t.Context(), r.ID, "me", 0)
		testutil.Must(t, err)
		taken := l.now()
		time.Sleep(7 * time.Minute)
		stop(true)
		stopped := l.now()

		before := l.use()
		first, second := before["2000-01-01T00"], before["2000-01-01T01"]
		if len(before) != 2 || first == nil || second == nil {
			t.Fatalf("records: %v", before)
		}
		one := time.Date(2000, 1, 1, 1, 0, 0, 0, time.UTC)
		if got, want := usedBy(first, "acme"), int64(one.Sub(taken).Seconds()); got.InUse < want-16 || got.InUse > want+16 || got.Fulfilled() != 1 || got.Waits[1] != 1 {
			t.Errorf("the first hour has %+v, want %d seconds in use", got, want)
		}
		want := int64(stopped.Sub(one).Seconds())
		if got := usedBy(second, "acme"); got != (resources.UseAmounts{InUse: want, Cost: resources.Money(want * 360000)}) {
			t.Errorf("the second hour has %+v, want %d seconds in use at 0.36 for each hour", got, want)
		}
		groups := []resources.UseGroup{{Label: "metal", Provider: "rack", Pool: "main"}, {Label: "small", Provider: "one", Pool: "main", Tenant: "acme", Currency: "EUR"}}
		if got := []resources.UseGroup{second.Rows[0].UseGroup, second.Rows[1].UseGroup}; second.Seconds != want || !cmp.Equal(got, groups) {
			t.Errorf("the second record covers %d seconds of %v, want %d of %v", second.Seconds, got, want, groups)
		}

		// The next daemon continues the record of the hour. A killed one loses what it has not written.
		d, stop = l.daemonWith(&life{})
		time.Sleep(2 * time.Minute)
		_, err = d.Clients.Return(t.Context(), nodes[0].ID)
		testutil.Must(t, err)
		time.Sleep(time.Minute)
		stop(true)
		after := l.use()
		if diff := cmp.Diff(first, after["2000-01-01T00"]); diff != "" {
			t.Errorf("the first hour has changed:\n%s", diff)
		}
		if got := usedBy(after["2000-01-01T01"], "acme"); got.InUse < want+105 || got.InUse > want+135 || after["2000-01-01T01"].Seconds != want+180 {
			t.Errorf("the second hour has %+v after the restart, had %d", got, want)
		}
		dies := &life{}
		_, stop = l.daemonWith(dies)
		time.Sleep(5*time.Minute + time.Second)
		dies.over.Store(true)
		stop(false)
		if got := l.use()["2000-01-01T01"].Seconds; got != want+180+300 {
			t.Errorf("after a kill the record covers %d seconds, want %d", got, want+180+300)
		}
	})
}

func TestRequestsThatFailAreRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, fleet, emulator.Options{})
		d, stop := l.daemon()
		r := l.fulfilled(d, l.asks(d, watch.NewRequest{Labels: []string{"metal", "small"}, Tenant: "acme"}))
		if r.State != resources.StateFailed {
			t.Fatalf("the request is %s", r.State)
		}
		stop()
		if got := usedBy(l.use()["2000-01-01T00"], "acme"); got != (resources.UseAmounts{Failed: 1}) {
			t.Errorf("recorded: %+v", got)
		}
	})
}
