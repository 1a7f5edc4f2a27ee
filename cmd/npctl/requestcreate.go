package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v3"
	"github.com/xhit/go-str2duration/v2"

	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/watch/httpapi/client"
)

const requestCreateDescription = `Requests nodes: one for each -label, in this order, all in one pool of one provider. With -wait it waits until
the request is fulfilled or has failed and shows how to reach the nodes; with -take it takes them too.

^C during the wait does not change the request; npctl request wait resumes the wait, npctl request cancel
cancels the request. With -lease npctl watch takes the nodes back unless npctl node renew runs in time.

Examples:
  npctl request create -label=debian -wait
  npctl request create -label=debian -label=debian -priority=100 -deadline=10m
  npctl request create -label=debian -take -lease=1h -json | jq -r '.nodes[0].addresses.interface'

Exit codes: 0; 1 on an error, or when the request has failed; 130 interrupted.`

// requestCreate implements npctl request create.
type requestCreate struct {
	command        *requestCommand
	ask            wire.NewRequest
	labels         []string
	data, deadline string
	priority       int64
	wait, take     bool
}

func newRequestCreateCommand(a *app) *cli.Command {
	c := &requestCreate{command: a.newRequest()}
	flags := []cli.Flag{
		&stringsFlag{cli.StringSliceFlag{Name: "label", Category: categoryRequest, Destination: &c.labels, Usage: "request a node of a `LABEL`; may be given several times"}, labelNames},
		&cli.Int64Flag{Name: "priority", Category: categoryRequest, Value: 200, Destination: &c.priority, Usage: "`NUMBER` from 1 to 999, lower goes first"},
		&cli.Int64Flag{Name: "relative", Category: categoryRequest, Destination: &c.ask.RelativePriority, Usage: "`NUMBER` that orders requests of one priority, lower goes first"},
		&cli.StringFlag{Name: "requestor", Category: categoryRequest, Destination: &c.ask.Requestor, Usage: "`NAME` of the requestor, instead of user@host"},
		&cli.StringFlag{Name: "tenant", Category: categoryRequest, Destination: &c.ask.Tenant, Usage: "`TENANT` that it counts against"},
		&stringFlag{cli.StringFlag{Name: "provider", Category: categoryRequest, Destination: &c.ask.Provider, Usage: "use only provider `NAME`"}, providerNames},
		&cli.BoolFlag{Name: "fresh", Category: categoryRequest, Destination: &c.ask.Fresh, Usage: "only nodes launched for this request"},
		&cli.StringFlag{Name: "data", Category: categoryRequest, Destination: &c.data, TakesFile: true, Usage: "`JSON` to store with it, or @FILE; do not put secrets in it"},
		&cli.StringFlag{Name: "deadline", Category: categoryRequest, Destination: &c.deadline, Usage: "fail unless it is fulfilled within a `DURATION` such as 10m, or by a time such as 2026-01-31T12:00:00Z"},
		&cli.BoolFlag{Name: "wait", Category: categoryRun, Destination: &c.wait, Usage: "wait until it is fulfilled or has failed"},
		&cli.BoolFlag{Name: "take", Category: categoryRun, Destination: &c.take, Usage: "wait, and take the nodes"},
		c.command.timeoutFlag(),
	}
	return &cli.Command{Name: "create", Usage: "request nodes", Description: requestCreateDescription,
		Flags: c.command.flags(append(flags, c.command.takeFlags()...)...), Action: c.run}
}

func (c *requestCreate) run(ctx context.Context, _ *cli.Command) error {
	if err := c.check(); err != nil {
		return err
	}
	return c.command.with(ctx, func(ctx context.Context, d *client.Client) error {
		r, err := d.CreateRequest(ctx, c.ask)
		if err != nil {
			return err
		}
		if !c.wait && !c.take {
			return c.created(r)
		}
		if !c.command.json {
			c.command.ui.Message("Request %s asks for %s.", r.ID, visibleLine(labelCounts(r.Labels)))
		}
		return c.command.answer(ctx, d, r.ID, c.take)
	})
}

// check converts the options into a request.
func (c *requestCreate) check() (err error) {
	if len(c.labels) == 0 {
		return hint(errors.New("npctl request create needs a label"), "write -label=NAME, once for each node; npctl status lists the labels")
	}
	if (c.command.lease != 0 || c.command.holder != "") && !c.take {
		return hint(errors.New("-lease and -holder need -take"), "add -take, or take the nodes later with npctl request take")
	}
	c.ask.Labels, c.ask.Priority = c.labels, &c.priority
	c.ask.Requestor = cmp.Or(c.ask.Requestor, whoAmI())
	if c.ask.Deadline, err = moment("deadline", c.deadline, time.Now()); err != nil {
		return err
	}
	c.ask.Data, err = attachment(c.data)
	return err
}

// whoAmI returns user@host.
func whoAmI() string { return state.Self(state.HostName(), version()).UserHost }

// moment parses a time, or a duration relative to now.
func moment(option, text string, now time.Time) (time.Time, error) {
	return relativeTime(option, text, now.Add, "write a duration such as 10m or 2d, or a time such as 2026-01-31T12:00:00Z", time.RFC3339)
}

// relativeTime parses a time in one of the layouts, or a duration, which from converts to a time.
func relativeTime(option, text string, from func(time.Duration) time.Time, advice string, layouts ...string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range layouts {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return t, nil
		}
	}
	d, err := str2duration.ParseDuration(text)
	if err != nil || d <= 0 {
		return time.Time{}, hint(fmt.Errorf("option -%s does not take %q", option, text), advice)
	}
	return from(d), nil
}

// attachmentSize is the number of bytes that are read from an attached file. npctl watch accepts less.
const attachmentSize = 1 << 20

// attachment returns the value of -data: JSON, or with @FILE the content of a file.
func attachment(text string) (json.RawMessage, error) {
	if path, isFile := strings.CutPrefix(text, "@"); isFile {
		file, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("option -data: %w", err)
		}
		defer file.Close() //nolint:errcheck // read-only file
		content, err := io.ReadAll(io.LimitReader(file, attachmentSize))
		if err != nil {
			return nil, fmt.Errorf("option -data: %w", err)
		}
		text = string(content)
	}
	if text == "" {
		return nil, nil
	}
	if !json.Valid([]byte(text)) {
		return nil, hint(errors.New("option -data takes JSON"), `write -data='"text"' for a text, or -data=@FILE`)
	}
	return json.RawMessage(text), nil
}

func (c *requestCreate) created(r wire.Request) error {
	if c.command.json {
		return c.command.printDocument(requestsDocument{Requests: []wire.Request{r}})
	}
	return c.command.ui.Print("Request %s asks for %s. npctl request wait %s waits until it is fulfilled.", r.ID, visibleLine(labelCounts(r.Labels)), r.ID)
}

// answer waits until a request is fulfilled, and prints or takes its nodes.
func (c *requestCommand) answer(ctx context.Context, d *client.Client, id string, takes bool) error {
	started := time.Now()
	r, err := c.waitFor(ctx, d, id)
	if err != nil {
		return err
	}
	if r.State == resources.StateFailed {
		return hint(fmt.Errorf("request %s has failed: %s", id, r.Error), "npctl why request/"+id+" shows more")
	}
	document := requestsDocument{Requests: []wire.Request{r}}
	if takes {
		document.Nodes, err = d.TakeRequest(ctx, id, cmp.Or(c.holder, whoAmI()), c.lease)
	} else {
		document.Nodes, err = each(r.Nodes, func(id string) (wire.Node, error) { return d.Node(ctx, id) })
	}
	if err != nil {
		return err
	}
	if c.json {
		return c.printDocument(document)
	}
	c.ui.Message("Fulfilled after %s.", time.Since(started).Round(100*time.Millisecond))
	if err := c.reachable(document.Nodes); err != nil {
		return err
	}
	if !takes {
		c.ui.Message("Take them within ten minutes: npctl request take %s", id)
	} else if c.lease > 0 {
		c.ui.Message("Their lease ends in %s unless it is renewed: npctl node renew %s", c.lease, strings.Join(r.Nodes, " "))
	}
	return nil
}

// waitFor waits until a request is fulfilled or fails.
func (c *requestCommand) waitFor(ctx context.Context, d *client.Client, id string) (wire.Request, error) {
	now := func() (wire.Request, error) { return d.Request(context.WithoutCancel(ctx), id) }
	if c.timeout > 0 {
		limited, cancel := context.WithTimeout(ctx, c.timeout)
		defer cancel()
		ctx = limited
	}
	c.signals.interrupt.Set(func() {
		c.ui.Message("The request stays open: npctl request wait %s, or npctl request cancel %s", id, id)
	})
	defer c.signals.interrupt.Set(nil)
	r, err := d.WaitRequest(ctx, id)
	switch {
	case errors.Is(context.Cause(ctx), errSignal):
		return r, exitCode(exitInterrupted)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		if r, err = now(); err != nil {
			return r, err
		}
		return r, hint(fmt.Errorf("request %s is %s after %s", id, r.State, c.timeout), "it stays open; npctl why request/"+id+" shows what it waits for")
	}
	return r, err
}

const requestWaitDescription = `Waits until a request is fulfilled or has failed, and shows how to reach its nodes.

Example:
  npctl request wait -timeout=10m 0000000017

Exit codes: 0 fulfilled; 1 on an error, when it has failed, or when it takes longer; 130 interrupted.`

func (c *requestCommand) wait(ctx context.Context, cmd *cli.Command) error {
	id, err := one(cmd, resources.KindRequest)
	if err != nil {
		return err
	}
	return c.with(ctx, func(ctx context.Context, d *client.Client) error { return c.answer(ctx, d, id, false) })
}

const requestTakeDescription = `Takes the nodes of a fulfilled request: they are in use from now on, and the request ends. With -lease npctl watch
takes the nodes back unless npctl node renew runs in time.

Examples:
  npctl request take 0000000017
  npctl request take -lease=10m -holder=job-4711 0000000017

Exit codes: 0, or 1 on an error or when the request is not fulfilled.`

func (c *requestCommand) take(ctx context.Context, cmd *cli.Command) error {
	id, err := one(cmd, resources.KindRequest)
	if err != nil {
		return err
	}
	return c.with(ctx, func(ctx context.Context, d *client.Client) error {
		nodes, err := d.TakeRequest(ctx, id, cmp.Or(c.holder, whoAmI()), c.lease)
		if err != nil {
			return err
		}
		if c.json {
			return c.printNodes(nodes)
		}
		return c.reachable(nodes)
	})
}
