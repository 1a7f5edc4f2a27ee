package resources

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestWaitsAreCountedByLimit(t *testing.T) {
	var a UseAmounts
	for _, waited := range []time.Duration{-time.Second, 10 * time.Second, 11 * time.Second, 5 * time.Minute, time.Hour, time.Hour + 1, 48 * time.Hour} {
		a.AddWait(waited)
	}
	if want := [...]int64{2, 1, 1, 0, 1, 2}; a.Waits != want || a.Fulfilled() != 7 {
		t.Errorf("waits %v, want %v", a.Waits, want)
	}
}

func TestStatesAreCountedOnce(t *testing.T) {
	var a UseAmounts
	for i, s := range StatesOf(KindNode) {
		a.AddNode(s, 1)
		if a.NodeSeconds() != int64(i+1) {
			t.Errorf("after %s: %d node-seconds", s, a.NodeSeconds())
		}
	}
	if want := (UseAmounts{InUse: 1, Ready: 1, Launching: 2, Other: 5}); a != want {
		t.Errorf("got %+v, want %+v", a, want)
	}
}

// table draws a table of few groups, so that tables have groups in common.
func table(t *rapid.T) UseTable {
	u := UseTable{}
	for range rapid.IntRange(0, 12).Draw(t, "rows") {
		n := rapid.Int64Range(0, 1e9)
		u.Add(UseGroup{Label: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "label"), Tenant: rapid.SampledFrom([]string{"", "x"}).Draw(t, "tenant"),
			Currency: rapid.SampledFrom([]string{"EUR", "USD"}).Draw(t, "currency")},
			UseAmounts{InUse: n.Draw(t, "in use"), Ready: n.Draw(t, "ready"), Launching: n.Draw(t, "launching"), Other: n.Draw(t, "other"),
				Unpriced: n.Draw(t, "unpriced"), Cost: Money(n.Draw(t, "cost")), Failed: n.Draw(t, "failed"), Waits: [6]int64{n.Draw(t, "fast"), 5: n.Draw(t, "slow")}})
	}
	return u
}

func sum(tables ...UseTable) UseTable {
	all := UseTable{}
	for _, one := range tables {
		all.AddRows(one.Rows(len(one)))
	}
	return all
}

func TestTablesAddInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := table(t), table(t), table(t)
		if diff := cmp.Diff(sum(sum(a, b), c), sum(a, sum(c, b))); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestLimitedRowsKeepTheSum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all, limit := table(t), rapid.IntRange(0, 6).Draw(t, "limit")
		rows := all.Rows(limit)
		perCurrency := func(rows []UseRow) map[string]UseAmounts {
			sums := map[string]UseAmounts{}
			for _, r := range rows {
				sums[r.Currency] = sums[r.Currency].Plus(r.UseAmounts)
			}
			return sums
		}
		if diff := cmp.Diff(perCurrency(all.Rows(len(all))), perCurrency(rows)); diff != "" {
			t.Fatal(diff)
		}
		kept := slices.IndexFunc(rows, func(r UseRow) bool { return r.Remainder })
		if kept < 0 {
			kept = len(rows)
		}
		if kept > limit || len(rows) > limit+2 {
			t.Fatalf("%d rows, %d of them groups, for a limit of %d", len(rows), kept, limit)
		}
		for i := 1; i < kept; i++ {
			if rows[i].NodeSeconds() > rows[i-1].NodeSeconds() {
				t.Fatalf("row %d is larger than the one before", i)
			}
		}
	})
}

func TestRecordsOfUseAreInTheOrderOfTime(t *testing.T) {
	at := time.Date(2026, 9, 30, 22, 0, 0, 0, time.FixedZone("", 2*3600))
	var ids []string
	for i := range 30 {
		ids = append(ids, (&Use{Hour: at.Add(time.Duration(i) * time.Hour)}).Key().ID)
	}
	if !slices.IsSorted(ids) || ids[0] != "2026-09-30T20" || ids[4] != "2026-10-01T00" {
		t.Errorf("IDs: %v", ids)
	}
}

func TestMoneyTimes(t *testing.T) {
	for _, c := range []struct {
		m    Money
		n    int64
		want Money
	}{{0, 15, 0}, {250000, 3600, 900000000}, {MoneyLimit, 15, MoneyLimit / 15 * 15}, {5, 0, 0}} {
		if got := c.m.Times(c.n); got != c.want {
			t.Errorf("%d times %d is %d, want %d", c.m, c.n, got, c.want)
		}
	}
	if doc, err := json.Marshal(UseRow{UseGroup{Label: "a"}, UseAmounts{Ready: 15}}); fmt.Sprint(string(doc), err) != `{"label":"a","ready":15}<nil>` {
		t.Errorf("a row in JSON: %s, %v", doc, err)
	}
}
