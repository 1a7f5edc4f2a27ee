package inspect

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/npctl/npctl/resources"
)

// UseReport is the use of nodes and its cost in a period. npctl cost prints it; docs/schemas/cost.json is its schema.
type UseReport struct {
	Since    time.Time  `json:"since"` // the start of an hour
	Until    time.Time  `json:"until"`
	First    *time.Time `json:"first_record,omitempty"` // the start of its hour
	Recorded float64    `json:"recorded_hours"`
	By       []string   `json:"by"`
	Rows     []UseTotal `json:"rows"` // the dearest first
	Total    UseTotal   `json:"total"`
	Limits   []float64  `json:"wait_limits_seconds"` // of the elements of UseRequests.Waits but the last
}

// UseTotal is a row of a report, or the sum of all.
type UseTotal struct {
	Group     map[string]string `json:"group,omitempty"`     // the values of UseReport.By, which may be empty
	Remainder bool              `json:"remainder,omitempty"` // the sum of groups that an hour had too many of
	Hours     UseNodeHours      `json:"node_hours"`
	Requests  UseRequests       `json:"requests"`
	Cost      []UseCost         `json:"cost"` // by currency

	amounts resources.UseAmounts
	costs   map[string]float64 // by currency
	price   float64            // the sum of all currencies, for the order of rows only
}

// UseNodeHours are the hours of nodes by state.
type UseNodeHours struct {
	InUse        float64 `json:"in_use"`
	Ready        float64 `json:"ready"`
	Launching    float64 `json:"launching"`
	Other        float64 `json:"other"`
	WithoutPrice float64 `json:"without_price"` // the part of them without a known price
}

// UseRequests counts the requests that were answered.
type UseRequests struct {
	Fulfilled int64   `json:"fulfilled"`
	Failed    int64   `json:"failed"`
	Waits     []int64 `json:"waits"` // the fulfilled ones by waiting time
}

// UseCost is an amount in a currency.
type UseCost struct {
	Currency string  `json:"currency,omitempty"`
	Amount   float64 `json:"amount"`
}

// useDimensions are the values of UseReport.By.
var useDimensions = map[string]func(*resources.UseRow) string{
	"tenant":   func(r *resources.UseRow) string { return r.Tenant },
	"project":  func(r *resources.UseRow) string { return r.Project },
	"label":    func(r *resources.UseRow) string { return r.Label },
	"provider": func(r *resources.UseRow) string { return r.Provider },
	"pool":     func(r *resources.UseRow) string { return r.Pool },
}

// UseDimensions returns the values of UseReport.By, sorted.
func UseDimensions() []string { return slices.Sorted(maps.Keys(useDimensions)) }

// ReportUse sums the records of the hours since a time, by dimensions of UseDimensions.
func ReportUse(records []*resources.Use, since, until time.Time, by []string) UseReport {
	r := UseReport{Since: since.UTC().Truncate(time.Hour), Until: until.UTC(), By: by, Rows: []UseTotal{}}
	for _, limit := range resources.WaitLimits {
		r.Limits = append(r.Limits, limit.Seconds())
	}
	r.Total.costs = map[string]float64{}
	rows := map[string]*UseTotal{}
	seconds := int64(0)
	for _, record := range records {
		if record.Hour.Before(r.Since) || record.Hour.After(until) {
			continue
		}
		if seconds += record.Seconds; r.First == nil || record.Hour.Before(*r.First) {
			r.First = &record.Hour
		}
		for i := range record.Rows {
			row := &record.Rows[i]
			group, key := map[string]string{}, "remainder"
			if !row.Remainder {
				names := make([]string, len(by))
				for j, dimension := range by {
					names[j] = useDimensions[dimension](row)
					group[dimension] = names[j]
				}
				key = "\x00" + strings.Join(names, "\x00")
			}
			if rows[key] == nil {
				rows[key] = &UseTotal{Group: group, Remainder: row.Remainder, costs: map[string]float64{}}
			}
			rows[key].add(row)
			r.Total.add(row)
		}
	}
	r.Recorded = hoursOf(seconds)
	r.Total.finish()
	for _, key := range slices.SortedFunc(maps.Keys(rows), func(a, b string) int {
		x, y := rows[a], rows[b]
		return cmp.Or(cmp.Compare(y.price, x.price), cmp.Compare(y.amounts.NodeSeconds(), x.amounts.NodeSeconds()), strings.Compare(a, b))
	}) {
		rows[key].finish()
		r.Rows = append(r.Rows, *rows[key])
	}
	return r
}

func (t *UseTotal) add(row *resources.UseRow) {
	t.amounts = t.amounts.Plus(row.UseAmounts)
	if row.Cost > 0 {
		amount := float64(row.Cost) / 3600 / 1e6
		t.costs[row.Currency], t.price = t.costs[row.Currency]+amount, t.price+amount
	}
}

// finish sets the fields for readers.
func (t *UseTotal) finish() {
	a := &t.amounts
	t.Hours = UseNodeHours{hoursOf(a.InUse), hoursOf(a.Ready), hoursOf(a.Launching), hoursOf(a.Other), hoursOf(a.Unpriced)}
	t.Requests = UseRequests{a.Fulfilled(), a.Failed, a.Waits[:]}
	t.Cost = []UseCost{}
	for _, currency := range slices.Sorted(maps.Keys(t.costs)) {
		t.Cost = append(t.Cost, UseCost{currency, math.Round(t.costs[currency]*1e6) / 1e6})
	}
}

// hoursOf returns seconds as hours with four decimals.
func hoursOf(seconds int64) float64 { return math.Round(float64(seconds)/3600*1e4) / 1e4 }
