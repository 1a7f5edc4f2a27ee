package resources

import (
	"cmp"
	"slices"
	"time"
)

// Use is the use of nodes in one hour, as one process has seen it: that of the providers which it leads.
type Use struct {
	Hour    time.Time `json:"hour"`    // its start, in UTC
	Seconds int64     `json:"seconds"` // the part of the hour that the record covers
	Rows    []UseRow  `json:"rows"`
}

// UseKept is how long records of use are kept.
const UseKept = 40 * 24 * time.Hour

// Key implements Record. IDs are in the order of time.
func (u *Use) Key() Key { return Key{KindUse, u.Hour.UTC().Format("2006-01-02T15")} }

// UseRow is the use by one group of nodes and requests.
type UseRow struct {
	UseGroup
	UseAmounts
}

// UseGroup is what the nodes and requests of a row have in common. A node or a request with several labels counts for the first one.
type UseGroup struct {
	Label     string `json:"label,omitempty"`
	Provider  string `json:"provider,omitempty"`
	Pool      string `json:"pool,omitempty"`
	Tenant    string `json:"tenant,omitempty"`
	Project   string `json:"project,omitempty"`   // of a node, if its user records it
	Currency  string `json:"currency,omitempty"`  // of Cost
	Remainder bool   `json:"remainder,omitempty"` // the sum of the groups that were too many; it has only a currency
}

// UseAmounts are the amounts of a row. They can be added.
type UseAmounts struct {
	InUse     int64 `json:"in_use,omitempty"` // node-seconds, as the next ones
	Ready     int64 `json:"ready,omitempty"`
	Launching int64 `json:"launching,omitempty"`
	Other     int64 `json:"other,omitempty"`    // in all other states
	Unpriced  int64 `json:"unpriced,omitempty"` // the part of them without a known price
	// Cost is the price of one hour at that time multiplied by the seconds, so that sums are exact: 3,600 times the amount.
	Cost   Money `json:"cost,omitempty"`
	Failed int64 `json:"failed,omitempty"` // requests
	// Waits are the numbers of fulfilled requests by waiting time, as WaitLimits.
	Waits [len(WaitLimits) + 1]int64 `json:"waits,omitzero"`
}

// WaitLimits are the upper limits of the waiting times in UseAmounts.Waits. The last element there has no limit.
var WaitLimits = [...]time.Duration{10 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour}

// AddNode adds seconds of a node in a state.
func (a *UseAmounts) AddNode(s State, seconds int64) {
	switch s {
	case StateInUse:
		a.InUse += seconds
	case StateReady:
		a.Ready += seconds
	case StateInit, StateBuilding:
		a.Launching += seconds
	default:
		a.Other += seconds
	}
}

// AddWait adds a fulfilled request.
func (a *UseAmounts) AddWait(waited time.Duration) {
	i, _ := slices.BinarySearch(WaitLimits[:], waited)
	a.Waits[i]++
}

// NodeSeconds returns the time of nodes in all states.
func (a *UseAmounts) NodeSeconds() int64 { return a.InUse + a.Ready + a.Launching + a.Other }

// Fulfilled returns the number of fulfilled requests.
func (a *UseAmounts) Fulfilled() (n int64) {
	for _, requests := range a.Waits {
		n += requests
	}
	return n
}

// Plus adds amounts.
func (a UseAmounts) Plus(b UseAmounts) UseAmounts {
	a.InUse, a.Ready, a.Launching, a.Other = a.InUse+b.InUse, a.Ready+b.Ready, a.Launching+b.Launching, a.Other+b.Other
	a.Unpriced, a.Cost, a.Failed = a.Unpriced+b.Unpriced, a.Cost.Plus(b.Cost), a.Failed+b.Failed
	for i, requests := range b.Waits {
		a.Waits[i] += requests
	}
	return a
}

// UseTable has the rows of a record by group.
type UseTable map[UseGroup]UseAmounts

// Add adds amounts to a group.
func (t UseTable) Add(g UseGroup, a UseAmounts) { t[g] = t[g].Plus(a) }

// AddRows adds rows.
func (t UseTable) AddRows(rows []UseRow) {
	for _, r := range rows {
		t.Add(r.UseGroup, r.UseAmounts)
	}
}

// Rows returns the rows with the largest groups first. Those beyond a limit become one row for each currency.
func (t UseTable) Rows(limit int) []UseRow {
	rows := make([]UseRow, 0, len(t))
	for g, a := range t {
		rows = append(rows, UseRow{g, a})
	}
	slices.SortFunc(rows, func(a, b UseRow) int {
		return cmp.Or(cmp.Compare(b.NodeSeconds(), a.NodeSeconds()), cmp.Compare(b.Fulfilled()+b.Failed, a.Fulfilled()+a.Failed), a.compare(b.UseGroup))
	})
	if len(rows) <= limit {
		return rows
	}
	rest := UseTable{}
	for _, r := range rows[limit:] {
		rest.Add(UseGroup{Currency: r.Currency, Remainder: true}, r.UseAmounts)
	}
	return append(rows[:limit:limit], rest.Rows(len(rest))...)
}

func (g UseGroup) compare(h UseGroup) int {
	return slices.Compare([]string{g.Label, g.Provider, g.Pool, g.Tenant, g.Project, g.Currency}, []string{h.Label, h.Provider, h.Pool, h.Tenant, h.Project, h.Currency})
}
