package inspect

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/resources"
)

var novemberFirst = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// twoHours are records with two tenants, two currencies and a remainder.
func twoHours() []*resources.Use {
	acme := resources.UseGroup{Label: "small", Provider: "one", Pool: "main", Tenant: "acme", Project: "site", Currency: "EUR"}
	globex := resources.UseGroup{Label: "small", Provider: "two", Pool: "main", Tenant: "globex", Currency: "USD"}
	return []*resources.Use{
		{Hour: novemberFirst, Seconds: 3600, Rows: []resources.UseRow{
			{UseGroup: acme, UseAmounts: resources.UseAmounts{InUse: 3600, Ready: 1800, Cost: 5400 * 250000, Waits: [6]int64{1, 2}}},
			{UseGroup: resources.UseGroup{Label: "small", Provider: "one"}, UseAmounts: resources.UseAmounts{Ready: 7200, Unpriced: 7200}}}},
		{Hour: novemberFirst.Add(time.Hour), Seconds: 1800, Rows: []resources.UseRow{
			{UseGroup: globex, UseAmounts: resources.UseAmounts{InUse: 360, Launching: 36, Other: 36, Cost: 360 * 100000000, Failed: 2}},
			{UseGroup: acme, UseAmounts: resources.UseAmounts{InUse: 3600, Cost: 3600 * 250000}},
			{UseGroup: resources.UseGroup{Currency: "EUR", Remainder: true}, UseAmounts: resources.UseAmounts{InUse: 360, Cost: 360 * 1000000}}}},
	}
}

func reportText(r UseReport) string {
	var b strings.Builder
	for _, t := range append(r.Rows, r.Total) {
		fmt.Fprintln(&b, t.Group, t.Remainder, t.Hours, t.Requests.Fulfilled, t.Requests.Failed, t.Cost)
	}
	return b.String()
}

func TestUseIsSummedByGroup(t *testing.T) {
	until := novemberFirst.Add(90 * time.Minute)
	for _, c := range []struct {
		name  string
		since time.Time
		by    []string
		want  string
	}{
		{"by tenant", novemberFirst, []string{"tenant"}, `map[tenant:globex] false {0.1 0 0.01 0.01 0} 0 2 [{USD 10}]
map[tenant:acme] false {2 0.5 0 0 0} 3 0 [{EUR 0.625}]
map[] true {0.1 0 0 0 0} 0 0 [{EUR 0.1}]
map[tenant:] false {0 2 0 0 2} 0 0 []
map[] false {2.2 2.5 0.01 0.01 2} 3 2 [{EUR 0.725} {USD 10}]
`},
		{"by label, from within the second hour", until.Add(-10 * time.Minute), []string{"label"}, `map[label:small] false {1.1 0 0.01 0.01 0} 0 2 [{EUR 0.25} {USD 10}]
map[] true {0.1 0 0 0 0} 0 0 [{EUR 0.1}]
map[] false {1.2 0 0.01 0.01 0} 0 2 [{EUR 0.35} {USD 10}]
`},
		{"later", until.Add(time.Hour), []string{"project", "pool"}, "map[] false {0 0 0 0 0} 0 0 []\n"},
	} {
		r := ReportUse(twoHours(), c.since, until, c.by)
		if got := reportText(r); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
	r := ReportUse(twoHours(), novemberFirst, until, []string{"pool"})
	if r.Recorded != 1.5 || !r.First.Equal(novemberFirst) {
		t.Errorf("%v hours are recorded since %s", r.Recorded, r.First)
	}
	if waits := fmt.Sprint(r.Total.Requests.Waits, r.Limits); waits != "[1 2 0 0 0 0] [10 60 300 900 3600]" {
		t.Errorf("waits: %s", waits)
	}
}
