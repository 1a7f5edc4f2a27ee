package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/internal/terminal"
	"github.com/npctl/npctl/resources"
)

// usedHour is a record that starts an hour before noon.
func usedHour() []*resources.Use {
	group := resources.UseGroup{Label: "small", Provider: "one", Pool: "main", Tenant: "acme", Project: "acme/site", Currency: "EUR"}
	return []*resources.Use{{Hour: noon.Add(-time.Hour).UTC().Truncate(time.Hour), Seconds: 3600, Rows: []resources.UseRow{
		{UseGroup: group, UseAmounts: resources.UseAmounts{InUse: 7200, Launching: 360, Cost: 7200 * 500000, Waits: [6]int64{0, 12}}},
		{UseGroup: resources.UseGroup{Remainder: true, Currency: "USD"}, UseAmounts: resources.UseAmounts{Ready: 3600, Unpriced: 1800, Cost: 1800 * 1000000, Failed: 1}}}}}
}

func TestCostReportMatchesItsSchema(t *testing.T) {
	schema := publishedSchema(t, "cost.json", "")
	for name, records := range map[string][]*resources.Use{"empty": nil, "one hour": usedHour()} {
		checkDocument(t, schema, name, versioned{inspect.ReportUse(records, noon.Add(-2*time.Hour), noon, []string{"tenant", "label"})})
	}
}

func TestCostReport(t *testing.T) {
	var out bytes.Buffer
	c := &costCommand{app: newApp(terminal.Streams{Out: &out}, func(string) (string, bool) { return "", false })}
	if err := c.print(inspect.ReportUse(usedHour(), noon.Add(-24*time.Hour), noon, []string{"tenant", "project", "label"})); err != nil {
		t.Fatal(err)
	}
	want := `Hours of nodes from 2026-06-30 12:00 UTC to 2026-07-01 12:00 UTC:

TENANT       PROJECT    LABEL  IN USE  READY  OTHER  REQUESTS       COST                 WITHOUT A PRICE
acme         acme/site  small  2.0     0.0    0.1    12             1.00 EUR             0.0
(remainder)                    0.0     1.0    0.0    0 (1 failed)   0.50 USD             0.5
total                          2.0     1.0    0.1    12 (1 failed)  1.00 EUR + 0.50 USD  0.5

The (remainder) has groups of hours with more groups than a record keeps.
The record has 1.0 of these 24.0 hours; its first hour is 2026-07-01 11:00 UTC.
`
	if out.String() != want {
		t.Errorf("printed:\n%s", out.String())
	}
}
