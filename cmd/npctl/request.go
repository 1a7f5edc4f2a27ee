package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/internal/terminal"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/watch/httpapi/client"
)

const requestDescription = `Requests nodes from npctl watch, and shows requests.

A request names labels and gets one node for each, all of them in one pool. Take the nodes of a fulfilled request
within ten minutes; then they are in use until npctl node return.` + daemonHelp

// requestCommand holds the options of the subcommands of npctl request.
type requestCommand struct {
	daemonCommand
	states, label, tenant, who, holder string
	lease, timeout                     time.Duration
}

func newRequestCommand(a *app) *cli.Command {
	list, show := a.newRequest(), a.newRequest()
	cancel, wait, take := a.newRequest(), a.newRequest(), a.newRequest()
	return &cli.Command{
		Name: "request", Category: categoryDaemon, Usage: "request nodes", Description: requestDescription,
		Commands: []*cli.Command{
			newRequestCreateCommand(a),
			{Name: "list", Usage: "list requests", Description: requestListDescription, Action: list.list, Flags: list.flags(
				&stringFlag{cli.StringFlag{Name: "state", Category: categoryFilter, Destination: &list.states, Usage: "only those in these `STATES`, separated by commas: requested, pending, fulfilled, failed"}, states(resources.KindRequest)},
				&stringFlag{cli.StringFlag{Name: "label", Category: categoryFilter, Destination: &list.label, Usage: "only those for a `LABEL`"}, labelNames},
				&cli.StringFlag{Name: "tenant", Category: categoryFilter, Destination: &list.tenant, Usage: "only those of a `TENANT`"},
				&cli.StringFlag{Name: "requestor", Category: categoryFilter, Destination: &list.who, Usage: "only those of a `REQUESTOR`"})},
			{Name: "show", Usage: "show the details of requests", ArgsUsage: "ID...", Description: requestShowDescription, Metadata: takes(records(resources.KindRequest)), Flags: show.flags(), Action: show.show},
			{Name: "cancel", Usage: "cancel requests", ArgsUsage: "ID...", Description: requestCancelDescription, Metadata: takes(records(resources.KindRequest)), Flags: cancel.flags(), Action: cancel.cancel},
			{Name: "wait", Usage: "wait until a request is fulfilled or has failed", ArgsUsage: "ID", Description: requestWaitDescription, Metadata: takes(records(resources.KindRequest)), Flags: wait.flags(wait.timeoutFlag()), Action: wait.wait},
			{Name: "take", Usage: "take the nodes of a fulfilled request", ArgsUsage: "ID", Description: requestTakeDescription, Metadata: takes(records(resources.KindRequest)), Flags: take.flags(take.takeFlags()...), Action: take.take},
		},
	}
}

func (a *app) newRequest() *requestCommand {
	return &requestCommand{daemonCommand: daemonCommand{app: a}}
}

func (c *requestCommand) timeoutFlag() cli.Flag {
	return &cli.DurationFlag{Name: "timeout", DefaultText: "no limit", Category: categoryRun, Destination: &c.timeout, Usage: "wait at most for a `DURATION` such as 10m; the request stays open"}
}

func (c *requestCommand) takeFlags() []cli.Flag {
	return []cli.Flag{
		&cli.DurationFlag{Name: "lease", DefaultText: "no end", Category: categoryRun, Destination: &c.lease, Usage: "return the nodes after a `DURATION` such as 10m without a renewal of their lease"},
		&cli.StringFlag{Name: "holder", Category: categoryRun, Destination: &c.holder, Usage: "`NAME` of the holder, instead of user@host"},
	}
}

// requestsDocument is the document that request list, show, wait and create print with -json.
type requestsDocument struct {
	Requests []wire.Request `json:"requests"`
	Nodes    []wire.Node    `json:"nodes,omitempty"` // the nodes of a fulfilled request
}

const requestListDescription = `Shows every open request: waiting requests, fulfilled requests with nodes to take, and requests
that failed within the last hour.

Examples:
  npctl request list
  npctl request list -state=requested,pending
  npctl request list -json | jq -r '.requests[] | select(.state == "failed") | .error'

Exit codes: 0, or 1 on an error.`

func (c *requestCommand) list(ctx context.Context, _ *cli.Command) error {
	filter := wire.RequestFilter{Label: c.label, Tenant: c.tenant, Requestor: c.who}
	if c.states != "" {
		filter.States = strings.Split(c.states, ",")
	}
	if err := wire.CheckStates(resources.KindRequest, filter.States); err != nil {
		return err
	}
	requests, err := fetch(ctx, &c.daemonCommand, func(ctx context.Context, d *client.Client) ([]wire.Request, error) { return d.Requests(ctx, filter) },
		c.stored(resources.KindRequest, resources.KindNode), func(w *inspect.Fleet) ([]wire.Request, error) {
			return all(w.Observed.Records.Requests, filter.Matches, w.RequestViews()), nil
		})
	switch {
	case err != nil:
		return err
	case c.json:
		return c.printDocument(requestsDocument{Requests: append([]wire.Request{}, requests...)})
	case len(requests) == 0:
		return c.ui.Print("No requests.")
	}
	now := time.Now()
	return c.ui.Table(terminal.Rows([]string{"REQUEST", "STATE", "AGE", "PRIORITY", "LABELS", "REQUESTOR", "WHERE", "NODES", "REASON"}, requests,
		func(r *wire.Request) []string { return requestRow(r, now) }), "PRIORITY", "REQUESTOR", "WHERE", "AGE")
}

func requestRow(r *wire.Request, now time.Time) []string {
	where, nodes, reason := "", words(r.Nodes), ""
	if r.Placement.Provider != "" {
		where = r.Placement.Provider + "/" + r.Placement.Pool
	}
	switch {
	case r.State == resources.StateFailed:
		reason = oneLine(r.Error, problemLength)
	case nodes == "" && len(r.Assigned) > 0:
		nodes = fmt.Sprintf("%d of %d in progress", len(r.Assigned), len(r.Labels))
	}
	return []string{r.ID, string(r.State), age(r.Created, now), fmt.Sprint(r.Priority), labelCounts(r.Labels), r.Requestor, where, nodes, reason}
}

// labelCounts returns a text such as "2×debian,ubuntu".
func labelCounts(labels []string) string {
	var parts []string
	count := map[string]int{}
	for _, l := range labels {
		if count[l]++; count[l] == 1 {
			parts = append(parts, l)
		}
	}
	for i, l := range parts {
		if count[l] > 1 {
			parts[i] = fmt.Sprintf("%d×%s", count[l], l)
		}
	}
	return words(parts)
}

const requestShowDescription = `Prints all attributes of requests. npctl why request/ID explains what a request waits for.

Examples:
  npctl request show 0000000017
  npctl request show -json 17

Exit codes: 0, or 1 on an error or when there is no such request.`

func (c *requestCommand) show(ctx context.Context, cmd *cli.Command) error {
	list, err := ids(cmd, resources.KindRequest)
	if err != nil {
		return err
	}
	found, err := fetch(ctx, &c.daemonCommand, func(ctx context.Context, d *client.Client) ([]wire.Request, error) {
		return each(list, func(id string) (wire.Request, error) { return d.Request(ctx, id) })
	}, c.stored(resources.KindRequest, resources.KindNode), func(w *inspect.Fleet) ([]wire.Request, error) {
		return byIDs(list, w.Observed.Records.Requests, w.RequestViews())
	})
	switch {
	case err != nil:
		return err
	case c.json:
		return c.printDocument(requestsDocument{Requests: found})
	}
	return c.printRecords(len(found), func(i int) resources.Record { return &found[i].Request })
}

// printRecords prints n records as blocks of HCL, separated by empty lines.
func (a *app) printRecords(n int, record func(int) resources.Record) error {
	var b strings.Builder
	for i := range n {
		text, err := recordText(record(i))
		if err != nil {
			return err
		}
		if i > 0 {
			b.WriteString("\n")
		}
		b.WriteString(visible(text))
	}
	return a.ui.Write(b.String())
}

const requestCancelDescription = `Cancels requests. Nodes assigned to them are free again; taken nodes stay in use.

Example:
  npctl request cancel 0000000017

Exit codes: 0, or 1 on an error or when there is no such request.`

func (c *requestCommand) cancel(ctx context.Context, cmd *cli.Command) error {
	list, err := ids(cmd, resources.KindRequest)
	if err != nil {
		return err
	}
	return c.with(ctx, func(ctx context.Context, d *client.Client) error {
		for _, id := range list {
			if err := d.CancelRequest(ctx, id); err != nil {
				return err
			}
			if err := c.printChange("Request %s is cancelled.", id); err != nil {
				return err
			}
		}
		if c.json {
			return c.printDocument(map[string]any{"cancelled": list})
		}
		return nil
	})
}
