package main

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/internal/terminal"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/watch/httpapi/client"
)

const nodeDescription = `Shows, returns, holds and deletes nodes.` + daemonHelp

// nodeCommand holds the options of the subcommands of npctl node.
type nodeCommand struct {
	daemonCommand
	filter        wire.NodeFilter
	states        string
	reason, until string
	holder        string
	force         bool
	timeout       time.Duration
}

func (a *app) newNode() *nodeCommand { return &nodeCommand{daemonCommand: daemonCommand{app: a}} }

func newNodeCommand(a *app) *cli.Command {
	list, show := a.newNode(), a.newNode()
	return &cli.Command{
		Name: "node", Category: categoryDaemon, Usage: "show, hold, return and delete nodes", Description: nodeDescription,
		Commands: append([]*cli.Command{
			{Name: "list", Usage: "list nodes", Description: nodeListDescription, Action: list.list, Flags: list.flags(
				&stringFlag{cli.StringFlag{Name: "state", Category: categoryFilter, Destination: &list.states, Usage: "only those in these `STATES`, separated by commas, such as ready,in-use,hold; before the command, -state names the state file"}, states(resources.KindNode)},
				&stringFlag{cli.StringFlag{Name: "label", Category: categoryFilter, Destination: &list.filter.Label, Usage: "only those with a `LABEL`"}, labelNames},
				&stringFlag{cli.StringFlag{Name: "provider", Category: categoryFilter, Destination: &list.filter.Provider, Usage: "only those of a `PROVIDER`"}, providerNames},
				&stringFlag{cli.StringFlag{Name: "pool", Category: categoryFilter, Destination: &list.filter.Pool, Usage: "only those of a `POOL`"}, poolNames},
				&cli.StringFlag{Name: "tenant", Category: categoryFilter, Destination: &list.filter.Tenant, Usage: "only those in use by a `TENANT`"},
				&stringFlag{cli.StringFlag{Name: "request", Category: categoryFilter, Destination: &list.filter.Request, Usage: "only those for the request `ID`, or taken with it"}, records(resources.KindRequest)})},
			{Name: "show", Usage: "show the details of nodes", ArgsUsage: "ID...", Description: nodeShowDescription, Metadata: takes(records(resources.KindNode)), Flags: show.flags(), Action: show.show},
		}, newNodeChanges(a)...),
	}
}

// printNodes prints the document of the commands with nodes as their result.
func (a *app) printNodes(nodes []wire.Node) error {
	return a.printDocument(map[string]any{"nodes": nodes})
}

const nodeListDescription = `Shows every node with its state, provider, label and user. FOR is the request that it is assigned to or was taken
with, or the holder of its lease.

Examples:
  npctl node list
  npctl node list -state=in-use -label=debian
  npctl node list -json | jq -r '.nodes[] | select(.state == "hold") | [.id, .comment] | @tsv'

Exit codes: 0, or 1 on an error.`

func (c *nodeCommand) list(ctx context.Context, _ *cli.Command) error {
	if c.states != "" {
		c.filter.States = strings.Split(c.states, ",")
	}
	if err := wire.CheckStates(resources.KindNode, c.filter.States); err != nil {
		return err
	}
	if c.filter.Request != "" {
		c.filter.Request = idOf(resources.KindRequest, c.filter.Request)
	}
	nodes, err := fetch(ctx, &c.daemonCommand, func(ctx context.Context, d *client.Client) ([]wire.Node, error) { return d.Nodes(ctx, c.filter) },
		c.stored(resources.KindNode), func(w *inspect.Fleet) ([]wire.Node, error) {
			return all(w.Observed.Records.Nodes, c.filter.Matches, w.NodeViews(nil)), nil
		})
	switch {
	case err != nil:
		return err
	case c.json:
		return c.printNodes(append([]wire.Node{}, nodes...))
	case len(nodes) == 0:
		return c.ui.Print("No nodes.")
	}
	return c.table(nodes)
}

func (c *nodeCommand) table(nodes []wire.Node) error {
	now := time.Now()
	return c.ui.Table(terminal.Rows([]string{"NODE", "STATE", "SINCE", "LABELS", "PROVIDER/POOL", "ADDRESS", "FOR", "NOTE"}, nodes, func(n *wire.Node) []string {
		return []string{n.ID, string(n.State), age(n.StateTime, now), words(n.Labels), n.Provider + "/" + n.Pool, addressText(&n.Node), nodeFor(n, now), nodeNote(n)}
	}))
}

// nodeFor returns the holder, the requestor or the request to which a node is assigned.
func nodeFor(n *wire.Node, now time.Time) string {
	switch {
	case n.Lease != nil && n.State == resources.StateInUse:
		return fmt.Sprintf("%s (lease ends in %s)", n.Lease.Holder, age(now, n.Lease.Until))
	case n.State == resources.StateInUse && n.Requestor != "":
		return n.Requestor
	case n.Request != "":
		return "request " + n.Request
	default:
		return ""
	}
}

func nodeNote(n *wire.Node) string {
	for _, text := range []string{n.Step, n.Error, n.Comment} {
		if text != "" {
			return oneLine(text, problemLength)
		}
	}
	return ""
}

const nodeShowDescription = `Prints all attributes of nodes. npctl why node/ID explains the progress of a node.

Examples:
  npctl node show 0000000017
  npctl node show -json 17 | jq -r '.nodes[0].host_keys[]'

Exit codes: 0, or 1 on an error or when there is no such node.`

func (c *nodeCommand) show(ctx context.Context, cmd *cli.Command) error {
	list, err := ids(cmd, resources.KindNode)
	if err != nil {
		return err
	}
	found, err := fetch(ctx, &c.daemonCommand, func(ctx context.Context, d *client.Client) ([]wire.Node, error) {
		return each(list, func(id string) (wire.Node, error) { return d.Node(ctx, id) })
	}, c.stored(resources.KindNode), func(w *inspect.Fleet) ([]wire.Node, error) {
		return byIDs(list, w.Observed.Records.Nodes, w.NodeViews(nil))
	})
	switch {
	case err != nil:
		return err
	case c.json:
		return c.printNodes(found)
	}
	return c.printRecords(len(found), func(i int) resources.Record { return &found[i].Node })
}

// reachable prints how to connect to nodes.
func (c *daemonCommand) reachable(nodes []wire.Node) error {
	return c.ui.WideTable(terminal.Rows([]string{"NODE", "LABELS", "CONNECT", "HOST KEYS"}, nodes, func(n *wire.Node) []string {
		return []string{n.ID, words(n.Labels), connectText(&n.Node), keyTypes(n.HostKeys)}
	}))
}

// addressText returns the address of a node, with the port unless it is the usual one of SSH.
func addressText(n *resources.Node) string {
	at, port := n.Addresses.Interface, n.Login.ConnectionPort
	if at == "" || port == 0 || port == 22 {
		return at
	}
	return net.JoinHostPort(at, strconv.FormatInt(port, 10))
}

// connectText returns a command that connects to a node or, for connection types other than ssh, the type and address.
func connectText(n *resources.Node) string {
	port := n.Login.ConnectionPort
	if kind := n.Login.ConnectionType; kind != "" && kind != "ssh" {
		return kind + " " + addressText(n) // kubectl and others need npctl node access
	}
	at := n.Addresses.Interface
	if n.Login.Username != "" {
		at = n.Login.Username + "@" + at
	}
	if port != 0 && port != 22 {
		return fmt.Sprintf("ssh -p %d %s", port, at)
	}
	return "ssh " + at
}

// keyTypes returns the types of host keys, which are their first words.
func keyTypes(keys []string) string {
	types := make([]string, len(keys))
	for i, key := range keys {
		types[i], _, _ = strings.Cut(key, " ")
	}
	return words(types)
}
