package main

import (
	"cmp"
	"context"
	"errors"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/audit"
)

// audited does something with an audit record: it writes the record before, and the result after it.
func (a *app) audited(ctx context.Context, store state.Store, record resources.Audit, do func() error) error {
	operation, err := audit.Begin(ctx, store.Commit, a.auditNow(record))
	if err != nil {
		return err
	}
	err = do()
	result := resources.AuditDone
	switch {
	case errors.Is(context.Cause(ctx), errSignal):
		result = resources.AuditInterrupted
	case err != nil:
		result = resources.AuditFailed
	}
	if writeErr := operation.End(ctx, time.Now(), result, err); writeErr != nil {
		a.log.Warn("the audit record has no result", "error", writeErr)
	}
	return err
}

// auditDone writes the record of something that has no steps, or that cannot be announced.
func (a *app) auditDone(ctx context.Context, store state.Store, record resources.Audit) error {
	record.Result = resources.AuditDone
	_, err := audit.Begin(ctx, store.Commit, a.auditNow(record))
	return err
}

// auditNow adds the time and the actor to a record.
func (a *app) auditNow(record resources.Audit) resources.Audit {
	record.Time, record.Actor = time.Now().UTC().Round(time.Millisecond), a.actor()
	return record
}

// actor returns user@host, and with sudo the user that called it.
func (a *app) actor() string {
	who := whoAmI()
	caller, _ := a.lookupEnv("SUDO_USER")
	if now, err := user.Current(); caller == "" || err == nil && now.Username == caller {
		return who
	}
	return who + " (sudo of " + caller + ")"
}

// auditCommand implements npctl audit.
type auditCommand struct {
	*app
	json         bool
	since, after string
	limit        int
}

func newAuditCommand(a *app) *cli.Command {
	c := &auditCommand{app: a}
	return &cli.Command{
		Name: "audit", Category: categoryState, Usage: "show applies, reloads and changes of records, with their actors",
		Description: `Shows the newest audit records, the oldest of them first: each apply, destroy, import, reload, start of npctl
watch, image command that changes something, and state command, with the actor, the plan and the result. No command removes
audit records. An operation without a result is running, or was killed.

With -json it prints one object per line (docs/json.md). To ship all records, store the ID of the last one, and continue with
-after=ID.

Examples:
  npctl audit
  npctl audit -since=7d
  npctl audit -json -limit=0 -after=0000000120 >>audit.jsonl

Exit codes: 0, or 1 on an error.`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Category: categoryOutput, Destination: &c.json, Usage: "print one JSON object per line (see docs/json.md)"},
			&cli.StringFlag{Name: "since", Destination: &c.since, Usage: "only records since a `TIME`: a duration such as 36h or 7d, a date, or a time such as 2026-01-31T12:00:00Z"},
			&cli.StringFlag{Name: "after", Destination: &c.after, Usage: "only records after the one with this `ID`"},
			&cli.IntFlag{Name: "limit", Destination: &c.limit, Value: 50, Validator: atLeast(0), Usage: "the newest `N` records; 0 prints all"},
		},
		Action: c.run,
	}
}

func (c *auditCommand) run(ctx context.Context, _ *cli.Command) error {
	since, err := earlier("since", c.since, time.Now())
	if err != nil {
		return err
	}
	store, _, err := c.openFound(ctx, readState)
	if err != nil {
		return err
	}
	defer store.Close() //nolint:errcheck // read-only file
	found, err := audit.List(ctx, store, c.after)
	if err != nil {
		return err
	}
	found = slices.DeleteFunc(found, func(r *resources.Audit) bool { return r.Time.Before(since) })
	if c.limit > 0 {
		found = found[max(0, len(found)-c.limit):]
	}
	if c.json {
		for _, r := range found {
			if err := c.printJSONLine(r); err != nil {
				return err
			}
		}
		return nil
	}
	return c.print(found)
}

func (c *auditCommand) print(found []*resources.Audit) error {
	if len(found) == 0 {
		return c.ui.Print("No audit records.")
	}
	rows := [][]string{{"TIME", "ACTOR", "OPERATION", "RESULT", "WHAT"}}
	for _, r := range found {
		rows = append(rows, []string{r.Time.Local().Format(time.DateTime), visibleLine(r.Actor), r.Operation, cmp.Or(string(r.Result), "-"), visibleLine(auditText(r))})
	}
	return c.ui.WideTable(rows)
}

// auditText describes what an operation did.
func auditText(r *resources.Audit) string {
	var parts []string
	switch {
	case r.Summary != "":
		parts = append(parts, strings.TrimSuffix(strings.TrimPrefix(r.Summary, "Plan: "), "."))
	case len(r.Objects) > 0:
		parts = append(parts, strings.Join(r.Objects, " "))
	}
	if r.Reviewed != "" {
		parts = append(parts, "reviewed "+r.Reviewed)
	}
	parts = append(parts, r.Overrides...)
	if r.Error != "" {
		parts = append(parts, r.Error)
	}
	return strings.Join(parts, "; ")
}

// earlier parses a time, a date, or a duration before now.
func earlier(option, text string, now time.Time) (time.Time, error) {
	before := func(d time.Duration) time.Time { return now.Add(-d) }
	return relativeTime(option, text, before, "write a duration such as 36h or 7d, a date such as 2026-01-31, or a time such as 2026-01-31T12:00:00Z", time.RFC3339, time.DateOnly)
}
