package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/watch/httpapi/client"
)

// change is the operation of a subcommand on one node. It returns the node and the message to print.
type change func(ctx context.Context, d *client.Client, id string) (n wire.Node, told string, err error)

// newNodeChanges returns the subcommands of npctl node that change nodes or wait for them.
func newNodeChanges(a *app) []*cli.Command {
	return []*cli.Command{newNodeHoldCommand(a), newNodeReleaseCommand(a), newNodeDeleteCommand(a), newNodeReturnCommand(a), newNodeRenewCommand(a), newNodeAccessCommand(a), newNodeWaitCommand(a)}
}

// each returns the action of a subcommand that changes the nodes in its arguments.
func (c *nodeCommand) each(do change) cli.ActionFunc {
	return func(ctx context.Context, cmd *cli.Command) error {
		list, err := ids(cmd, resources.KindNode)
		if err != nil {
			return err
		}
		return c.with(ctx, func(ctx context.Context, d *client.Client) error {
			nodes, err := each(list, func(id string) (wire.Node, error) {
				n, told, err := do(ctx, d, id)
				if err == nil {
					err = c.printChange("%s", told)
				}
				return n, err
			})
			if err == nil && c.json {
				err = c.printNodes(nodes)
			}
			return err
		})
	}
}

func newNodeHoldCommand(a *app) *cli.Command {
	c := a.newNode()
	return &cli.Command{
		Name: "hold", Usage: "keep nodes for debugging", ArgsUsage: "ID...", Metadata: takes(records(resources.KindNode)),
		Description: `Keeps nodes that are in use or idle until npctl node release, until -until, or as long as
max_hold_age permits. A hold ends the lease of a node.

Examples:
  npctl node hold -reason="disk full, see INFRA-17" 0000000017
  npctl node hold -until=8h 17 18

Exit codes: 0, or 1 on an error.`,
		Flags: c.flags(
			&cli.StringFlag{Name: "reason", Destination: &c.reason, Usage: "a `TEXT` to show with it"},
			&cli.StringFlag{Name: "until", Destination: &c.until, Usage: "for a `DURATION` such as 8h or 2d, or up to a time such as 2026-01-31T12:00:00Z"}),
		Action: c.each(func(ctx context.Context, d *client.Client, id string) (n wire.Node, told string, err error) {
			until, err := moment("until", c.until, time.Now())
			if err != nil {
				return n, "", err
			}
			n, err = d.HoldNode(ctx, id, c.reason, until)
			told = fmt.Sprintf("Node %s is held", id)
			if !until.IsZero() {
				told += " until " + until.Local().Format(time.DateTime)
			}
			return n, told + ". npctl node release " + id + " ends that.", err
		}),
	}
}

func newNodeReleaseCommand(a *app) *cli.Command {
	c := a.newNode()
	return &cli.Command{
		Name: "release", Usage: "end the hold of nodes", ArgsUsage: "ID...", Metadata: takes(records(resources.KindNode)),
		Description: `Ends npctl node hold: the nodes count as used, so npctl deletes them, or checks and reuses static nodes.

Example:
  npctl node release 0000000017

Exit codes: 0, or 1 on an error or when a node is not held.`,
		Flags: c.flags(),
		Action: c.each(func(ctx context.Context, d *client.Client, id string) (wire.Node, string, error) {
			n, err := d.ReleaseNode(ctx, id)
			return n, "Node " + id + " is released" + afterUseText(&n), err
		}),
	}
}

// afterUseText returns what npctl does with a node after its use.
func afterUseText(n *wire.Node) string {
	if n.Static {
		return ": it is ready again once it answers."
	}
	return ": it is deleted."
}

func newNodeReturnCommand(a *app) *cli.Command {
	c := a.newNode()
	return &cli.Command{
		Name: "return", Usage: "return nodes after use", ArgsUsage: "ID...", Metadata: takes(records(resources.KindNode)),
		Description: `Returns nodes that npctl request take has taken: npctl deletes them, or checks and reuses static nodes.

Example:
  npctl node return 0000000017 0000000018

Exit codes: 0, or 1 on an error.`,
		Flags: c.flags(),
		Action: c.each(func(ctx context.Context, d *client.Client, id string) (wire.Node, string, error) {
			n, err := d.ReturnNode(ctx, id)
			return n, "Node " + id + " is returned" + afterUseText(&n), err
		}),
	}
}

func newNodeRenewCommand(a *app) *cli.Command {
	c := a.newNode()
	return &cli.Command{
		Name: "renew", Usage: "renew the lease of nodes", ArgsUsage: "ID...", Metadata: takes(records(resources.KindNode)),
		Description: `Renews the lease of nodes that were taken with -lease, for the same duration, from now on.

Example:
  while sleep 60; do npctl node renew -holder=job-4711 0000000017; done

Exit codes: 0, or 1 on an error, such as when the lease has ended.`,
		Flags: c.flags(&cli.StringFlag{Name: "holder", Destination: &c.holder, Usage: "`NAME` of the holder, instead of user@host"}),
		Action: c.each(func(ctx context.Context, d *client.Client, id string) (n wire.Node, told string, err error) {
			if n, err = d.RenewNode(ctx, id, cmp.Or(c.holder, whoAmI())); err != nil || n.Lease == nil {
				return n, "", err
			}
			return n, fmt.Sprintf("The lease of node %s ends at %s.", id, n.Lease.Until.Local().Format(time.DateTime)), nil
		}),
	}
}

func newNodeDeleteCommand(a *app) *cli.Command {
	c := a.newNode()
	return &cli.Command{
		Name: "delete", Usage: "delete nodes", ArgsUsage: "ID...", Metadata: takes(records(resources.KindNode)),
		Description: `Deletes nodes through npctl watch, which checks and reuses static nodes instead, and refills min_ready.
Nodes that are in use, held or assigned to a request need -force. A node with a running step cannot be
deleted until the step ends.

Examples:
  npctl node delete 0000000017
  npctl node delete -force -reason="broken disk" 17

Exit codes: 0, or 1 on an error.`,
		Flags: c.flags(
			&cli.BoolFlag{Name: "force", Destination: &c.force, Usage: "even nodes that are in use, held or assigned to a request"},
			&cli.StringFlag{Name: "reason", Destination: &c.reason, Usage: "a `TEXT` to show with it"}),
		Action: c.each(func(ctx context.Context, d *client.Client, id string) (wire.Node, string, error) {
			n, err := d.DeleteNode(ctx, id, c.reason, c.force)
			if client.IsCode(err, wire.CodeInvalidState) && !c.force && !strings.Contains(err.Error(), "a step works") {
				err = hint(err, "npctl node delete -force "+id+" deletes it anyway")
			}
			return n, "Node " + id + " goes" + afterUseText(&n), err
		}),
	}
}

func newNodeWaitCommand(a *app) *cli.Command {
	c := a.newNode()
	c.states = string(resources.StateReady)
	return &cli.Command{
		Name: "wait", Usage: "wait until nodes are in a state", ArgsUsage: "ID...", Metadata: takes(records(resources.KindNode)),
		Description: `Waits until each of the nodes is in one of the states.

Examples:
  npctl node wait 0000000017
  npctl node wait -state=ready,failed -timeout=10m 17

Exit codes: 0 they are; 1 on an error, when it takes longer, or when a node is gone; 130 interrupted.`,
		Flags: c.flags(
			&stringFlag{cli.StringFlag{Name: "state", Destination: &c.states, Value: c.states, Usage: "the `STATES` to wait for, separated by commas; before the command, -state names the state file"}, states(resources.KindNode)},
			&cli.DurationFlag{Name: "timeout", DefaultText: "no limit", Destination: &c.timeout, Usage: "wait at most for a `DURATION` such as 10m"}),
		Action: c.each(c.waited),
	}
}

func (c *nodeCommand) waited(ctx context.Context, d *client.Client, id string) (wire.Node, string, error) {
	var states []resources.State
	for _, s := range strings.Split(c.states, ",") {
		states = append(states, resources.State(s))
	}
	waiting := ctx
	if c.timeout > 0 {
		limited, cancel := context.WithTimeout(ctx, c.timeout)
		defer cancel()
		waiting = limited
	}
	n, err := d.WaitNode(waiting, id, states...)
	switch {
	case errors.Is(context.Cause(ctx), errSignal):
		return n, "", exitCode(exitInterrupted)
	case errors.Is(waiting.Err(), context.DeadlineExceeded):
		if n, err = d.Node(ctx, id); err != nil {
			return n, "", err
		}
		return n, "", hint(fmt.Errorf("node %s is %s after %s", id, n.State, c.timeout), "npctl why node/"+id+" explains its progress")
	}
	return n, "Node " + id + " is " + string(n.State) + ".", err
}

func newNodeAccessCommand(a *app) *cli.Command {
	c := a.newNode()
	return &cli.Command{
		Name: "access", Usage: "print the credentials of a node", ArgsUsage: "ID", Metadata: takes(records(resources.KindNode)),
		Description: `Prints the credentials of a node in use or on hold as JSON, such as the API server, the namespace and the token
of a node in Kubernetes. npctl watch requests them from the cloud. They are a secret.

Examples:
  npctl node access 0000000017 >access.json
  kubectl --server="$(jq -r .host access.json)" --token="$(jq -r .token access.json)" \
    --namespace="$(jq -r .namespace access.json)" --certificate-authority=ca.pem get pods

Exit codes: 0, or 1 on an error, such as when jobs need no credentials of the cloud.`,
		Flags: c.flags(&cli.StringFlag{Name: "holder", Destination: &c.holder, Usage: "`NAME` of the holder of the lease, instead of user@host"}),
		Action: func(ctx context.Context, cmd *cli.Command) error {
			list, err := ids(cmd, resources.KindNode)
			if err != nil {
				return err
			}
			if len(list) != 1 {
				return errors.New("specify one node")
			}
			return c.with(ctx, func(ctx context.Context, d *client.Client) error {
				access, err := d.AccessNode(ctx, list[0], cmp.Or(c.holder, whoAmI()))
				if err != nil {
					return err
				}
				return c.printJSON(access.Credentials)
			})
		},
	}
}
