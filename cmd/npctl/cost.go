package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/internal/terminal"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// costCommand implements npctl cost.
type costCommand struct {
	*app
	since, by string
	json      bool
}

func newCostCommand(a *app) *cli.Command {
	c := &costCommand{app: a}
	return &cli.Command{
		Name: "cost", Category: categoryDaemon, Usage: "report the use of nodes and its cost",
		Description: `Sums the hours of nodes, the requests and the cost since a time, from the record that npctl watch keeps: one for
each hour, for 40 days. The cost is that of the prices in the configuration at the time of the use. With a state in
ZooKeeper, each process records the providers that it leads, and the report is that of one process.

OTHER is the time of nodes in all other states, such as building, hold and deleting. Hours are in UTC, and the
report starts with a full hour. The last five minutes may be missing.

Examples:
  npctl cost -since=7d -by=tenant
  npctl cost -since=2026-11-01 -by=provider,label
  npctl cost -json | jq '.total.cost'

Exit codes: 0, or 1 on an error.`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "since", Destination: &c.since, Value: "24h", Usage: "the `TIME` at which the report starts: a duration such as 24h or 7d, a date, or a time such as 2026-01-31T12:00:00Z"},
			&stringFlag{cli.StringFlag{Name: "by", Destination: &c.by, Value: "tenant,project,label", Usage: "`NAMES` to group by, separated by commas: tenant, project, label, provider, pool"}, listed(inspect.UseDimensions())},
			&cli.BoolFlag{Name: "json", Category: categoryOutput, Destination: &c.json, Usage: "print one JSON document (see docs/json.md)"},
		},
		Action: c.run,
	}
}

func (c *costCommand) run(ctx context.Context, _ *cli.Command) error {
	now := time.Now()
	since, err := earlier("since", c.since, now)
	if err != nil {
		return err
	}
	if since.IsZero() {
		since = now.Add(-resources.UseKept)
	}
	by := strings.Split(c.by, ",")
	for _, name := range by {
		if err := choices(inspect.UseDimensions()).check("group", name); err != nil {
			return fmt.Errorf("option -by: %w", err)
		}
	}
	store, _, err := c.openFound(ctx, readState)
	if err != nil {
		return err
	}
	defer store.Close() //nolint:errcheck // read-only file
	records, err := recordsOfUse(ctx, store, since, now)
	if err != nil {
		return err
	}
	report := inspect.ReportUse(records, since, now, by)
	switch {
	case c.json:
		return c.printDocument(report)
	case report.First == nil:
		return c.ui.Print("No use is recorded since %s. npctl watch writes the record, every five minutes.", hourText(report.Since))
	}
	return c.print(report)
}

// recordsOfUse reads the records of the hours of a period.
func recordsOfUse(ctx context.Context, store state.Store, since, until time.Time) (records []*resources.Use, err error) {
	first := until.Add(-resources.UseKept)
	if since.After(first) {
		first = since
	}
	for at := first.Truncate(time.Hour); !at.After(until); at = at.Add(time.Hour) {
		entry, err := store.Get(ctx, (&resources.Use{Hour: at}).Key())
		if err != nil && !errors.Is(err, state.ErrNotFound) {
			return nil, err
		}
		if record, ok := entry.Record.(*resources.Use); ok {
			records = append(records, record)
		}
	}
	return records, nil
}

func (c *costCommand) print(r inspect.UseReport) error {
	head := append(upper(r.By), "IN USE", "READY", "OTHER", "REQUESTS")
	priced := len(r.Total.Cost) > 0
	if priced {
		head = append(head, "COST", "WITHOUT A PRICE")
	}
	row := func(group []string, t *inspect.UseTotal) []string {
		requests := strconv.FormatInt(t.Requests.Fulfilled, 10)
		if t.Requests.Failed > 0 {
			requests += fmt.Sprintf(" (%d failed)", t.Requests.Failed)
		}
		cells := slices.Concat(group, []string{decimal(t.Hours.InUse), decimal(t.Hours.Ready), decimal(t.Hours.Launching + t.Hours.Other), requests})
		if priced {
			cells = append(cells, costText(t.Cost), decimal(t.Hours.WithoutPrice))
		}
		return cells
	}
	spaces := func(first string) []string {
		return append([]string{first}, slices.Repeat([]string{" "}, len(r.By)-1)...)
	}
	remainder := false
	rows := terminal.Rows(head, r.Rows, func(t *inspect.UseTotal) []string {
		if t.Remainder {
			remainder = true
			return row(spaces("(remainder)"), t)
		}
		names := make([]string, len(r.By))
		for i, name := range r.By {
			names[i] = t.Group[name]
		}
		return row(names, t)
	})
	p := c.ui.Page()
	p.Line(terminal.StylePlain, "Hours of nodes from "+hourText(r.Since)+" to "+hourText(r.Until)+":")
	p.WriteString("\n")
	p.Table(append(rows, row(spaces("total"), &r.Total)))
	var notes []string
	if remainder {
		notes = append(notes, "The (remainder) has groups of hours with more groups than a record keeps.")
	}
	if !priced {
		notes = append(notes, "No node had a price; prices of a provider set them.")
	}
	if all := r.Until.Sub(r.Since); all.Hours()-r.Recorded > incomplete.Hours() {
		notes = append(notes, fmt.Sprintf("The record has %s of these %s hours; its first hour is %s.", decimal(r.Recorded), decimal(all.Hours()), hourText(*r.First)))
	}
	for i, note := range notes {
		if i == 0 {
			p.WriteString("\n")
		}
		p.Line(terminal.StylePlain, note)
	}
	return c.ui.Write(p.String())
}

// incomplete is how much a complete record may lack: npctl watch writes every five minutes.
const incomplete = 10 * time.Minute

func hourText(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

func decimal(hours float64) string { return strconv.FormatFloat(hours, 'f', 1, 64) }

func costText(all []inspect.UseCost) string {
	words := make([]string, len(all))
	for i, cost := range all {
		words[i] = strings.TrimSpace(text.Amount(cost.Amount) + " " + cost.Currency)
	}
	return strings.Join(words, " + ")
}

func upper(names []string) []string {
	return strings.Split(strings.ToUpper(strings.Join(names, ",")), ",")
}
