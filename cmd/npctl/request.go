package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/watch/httpapi/client"
	"github.com/npctl/npctl/watch/httpapi/wire"
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
				&cli.StringFlag{Name: "state", Category: categoryFilter, Destination: &list.states, Usage: "only those in these `STATES`, separated by commas: requested, pending, fulfilled, failed"},
				&cli.StringFlag{Name: "label", Category: categoryFilter, Destination: &list.label, Usage: "only those for a `LABEL`"},
				&cli.StringFlag{Name: "tenant", Category: categoryFilter, Destination: &list.tenant, Usage: "only those of a `TENANT`"},
				&cli.StringFlag{Name: "requestor", Category: categoryFilter, Destination: &list.who, Usage: "only those of a `REQUESTOR`"})},
			{Name: "show", Usage: "show the details of requests", ArgsUsage: "ID...", Description: requestShowDescription, Flags: show.flags(), Action: show.show},
			{Name: "cancel", Usage: "cancel requests", ArgsUsage: "ID...", Description: requestCancelDescription, Flags: cancel.flags(), Action: cancel.cancel},
			{Name: "wait", Usage: "wait until a request is fulfilled or has failed", ArgsUsage: "ID", Description: requestWaitDescription, Flags: wait.flags(wait.timeoutFlag()), Action: wait.wait},
			{Name: "take", Usage: "take the nodes of a fulfilled request", ArgsUsage: "ID", Description: requestTakeDescription, Flags: take.flags(take.takeFlags()...), Action: take.take},
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
	FormatVersion string         `json:"format_version"`
	Requests      []wire.Request `json:"requests"`
	Nodes         []wire.Node    `json:"nodes,omitempty"` // the nodes of a fulfilled request
}

const requestListDescription = `Shows every open request: waiting requests, fulfilled requests whose nodes can be taken, and requests
that failed within the last hour.

Examples:
  npctl request list
  npctl request list -state=requested,pending
  npctl request list -json | jq -r '.requests[] | select(.state == "failed") | .error'

Exit codes: 0, or 1 on an error.`

func (c *requestCommand) list(ctx context.Context, cmd *cli.Command) error {
	if err := arguments(cmd, 0); err != nil {
		return err
	}
	return c.failed(c.listed(ctx))
}

func (c *requestCommand) listed(ctx context.Context) error {
	filter := wire.RequestFilter{Label: c.label, Tenant: c.tenant, Requestor: c.who}
	if c.states != "" {
		filter.States = strings.Split(c.states, ",")
	}
	if err := wire.CheckStates(resources.KindRequest, filter.States); err != nil {
		return err
	}
	requests, err := c.requests(ctx, filter)
	if err != nil {
		return err
	}
	if c.json {
		return c.ui.printJSON(requestsDocument{FormatVersion: jsonVersion, Requests: requests})
	}
	if len(requests) == 0 {
		return c.ui.print("No requests.")
	}
	rows := [][]string{{"REQUEST", "STATE", "AGE", "PRIORITY", "LABELS", "REQUESTOR", "WHERE", "NODES", "REASON"}}
	now := time.Now()
	for i := range requests {
		rows = append(rows, requestRow(&requests[i], now))
	}
	return c.ui.table(rows, "PRIORITY", "REQUESTOR", "WHERE", "AGE")
}

// requests gets the requests from npctl watch, or from the state if npctl watch is not running.
func (c *requestCommand) requests(ctx context.Context, filter wire.RequestFilter) ([]wire.Request, error) {
	ask := func(ctx context.Context, d *client.Client) ([]wire.Request, error) { return d.Requests(ctx, filter) }
	return askAll(ctx, &c.daemonCommand, resources.KindRequest, ask, func(r resources.Record) (wire.Request, bool) {
		request := r.(*resources.Request)
		return wire.Request{Request: *request}, filter.Matches(request)
	})
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
		return c.jsonFailure(c.json, err)
	}
	return c.failed(c.shown(ctx, list))
}

func (c *requestCommand) shown(ctx context.Context, list []string) error {
	found, err := c.found(ctx, list)
	switch {
	case err != nil:
		return err
	case c.json:
		return c.ui.printJSON(requestsDocument{FormatVersion: jsonVersion, Requests: found})
	}
	for i := range found {
		if err := c.printRecord(i, &found[i].Request); err != nil {
			return err
		}
	}
	return nil
}

// found returns the requests with these IDs.
func (c *requestCommand) found(ctx context.Context, list []string) ([]wire.Request, error) {
	ask := func(ctx context.Context, d *client.Client, id string) (wire.Request, error) {
		return d.Request(ctx, id)
	}
	return askEach(ctx, &c.daemonCommand, resources.KindRequest, list, ask, func(r resources.Record) (wire.Request, bool) {
		return wire.Request{Request: *r.(*resources.Request)}, true
	})
}

// printRecord prints a record as a block of HCL, after an empty line unless i is 0.
func (c *daemonCommand) printRecord(i int, r resources.Record) error {
	if i > 0 {
		if err := c.ui.print(""); err != nil {
			return err
		}
	}
	text, err := recordText(r)
	if err != nil {
		return err
	}
	return c.ui.print("%s", strings.TrimRight(visible(text), "\n"))
}

const requestCancelDescription = `Cancels requests. Nodes assigned to them are free again; taken nodes stay in use.

Example:
  npctl request cancel 0000000017

Exit codes: 0, or 1 on an error or when there is no such request.`

func (c *requestCommand) cancel(ctx context.Context, cmd *cli.Command) error {
	list, err := ids(cmd, resources.KindRequest)
	if err != nil {
		return c.jsonFailure(c.json, err)
	}
	return c.with(ctx, func(ctx context.Context, d *client.Client) error {
		for _, id := range list {
			if err := d.CancelRequest(ctx, id); err != nil {
				return err
			}
			if !c.json {
				if err := c.ui.print("Request %s is cancelled.", id); err != nil {
					return err
				}
			}
		}
		if c.json {
			return c.ui.printJSON(cancelledDocument{jsonVersion, list})
		}
		return nil
	})
}

// cancelledDocument is the document that request cancel prints with -json.
type cancelledDocument struct {
	FormatVersion string   `json:"format_version"`
	Cancelled     []string `json:"cancelled"`
}
