package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/watch/httpapi/client"
)

// categoryDaemon is the help category of the commands that call npctl watch.
const categoryDaemon = "Nodes (with npctl watch)"

// daemonHelp ends the description of every command that calls npctl watch.
const daemonHelp = `

The command connects to the unix socket of npctl watch beside the state. -socket or NPCTL_SOCKET names another
socket, or an address such as https://host:8443; then NPCTL_TOKEN contains the token, and NPCTL_CA names a file with
certificate authorities, if those of the system do not suffice.`

// daemonCommand holds the options of the commands that call npctl watch.
type daemonCommand struct {
	*app
	socket string
	json   bool
}

func (c *daemonCommand) flags(own ...cli.Flag) []cli.Flag {
	return append(append(own, c.connectionFlags()...),
		&cli.BoolFlag{Name: "json", Category: categoryOutput, Destination: &c.json, Usage: "print JSON (see docs/json.md)"},
	)
}

func (c *daemonCommand) connectionFlags() []cli.Flag {
	return []cli.Flag{&cli.StringFlag{Name: "socket", Category: categoryConnection, Destination: &c.socket, TakesFile: true, Usage: "`PATH` of the socket of npctl watch, or its URL"}}
}

// with calls do with a client for npctl watch, and adds a hint to its error.
func (c *daemonCommand) with(ctx context.Context, do func(context.Context, *client.Client) error) error {
	d, err := c.dial()
	if err != nil {
		return c.explain(err)
	}
	defer d.Close()
	return c.explain(do(ctx, d))
}

// dial returns a client for npctl watch. Only the first call reports that npctl watch is not running.
func (c *daemonCommand) dial() (*client.Client, error) {
	at := c.socket
	if at == "" {
		at, _ = c.lookupEnv("NPCTL_SOCKET")
	}
	o := client.Options{Socket: at, Agent: "npctl/" + version()}
	switch {
	case isURL(at):
		o.Socket, o.URL = "", at
		o.Token, _ = c.lookupEnv("NPCTL_TOKEN")
		o.CA, _ = c.lookupEnv("NPCTL_CA")
		o.Cert, _ = c.lookupEnv("NPCTL_CERT")
		o.Key, _ = c.lookupEnv("NPCTL_KEY")
	case at == "":
		state, err := c.findState()
		if err != nil {
			return nil, hint(fmt.Errorf("find the socket of npctl watch: %w", err), "name its socket with -socket or NPCTL_SOCKET, or the configuration with -config")
		}
		o.Socket = client.SocketPath(state.File, c.lookupEnv)
		if aside := client.SocketPath(state.Shadow().File, c.lookupEnv); !exists(o.Socket) && exists(aside) { // npctl watch -shadow
			o.Socket, state.Location = aside, state.Shadow()
		}
		if err := client.CheckSocket(o.Socket, state.File); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	default:
		if err := checkNamed(at); err != nil {
			return nil, err
		}
	}
	return client.New(o)
}

// checkNamed rejects a socket from -socket or NPCTL_SOCKET that another user may have created.
func checkNamed(socket string) error {
	if err := client.CheckNamedSocket(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return hint(fmt.Errorf("socket of npctl watch: %w", err), "npctl watch has its socket in a directory of its own, such as /var/lib/npctl")
	}
	return nil
}

// explain adds a hint to an error.
func (c *daemonCommand) explain(err error) error {
	var no *client.Error
	switch {
	case errors.As(err, &no) && no.Hint != "":
		return hint(err, c.translateHint(no.Hint))
	case errors.Is(err, client.ErrNoDaemon):
		return hint(err, "start it with npctl watch, or name its socket with -socket or NPCTL_SOCKET")
	case errors.Is(err, os.ErrPermission):
		return hint(err, "become the user of npctl watch, or permit your group: npctl watch -socket-mode=0660")
	default:
		return err
	}
}

// translateHint converts a hint for HTTP clients into one for the command line.
func (c *daemonCommand) translateHint(text string) string {
	return strings.NewReplacer("GET /v1/labels lists all labels", "npctl status shows all labels",
		"reload with allow_destroy", "run npctl reload -allow-destroy",
		"send it as Authorization: Bearer TOKEN", "set NPCTL_TOKEN").Replace(text)
}

// idOf parses an ID in one of the forms 17, 0000000017, node/17 or node.17.
func idOf(kind resources.Kind, text string) string {
	for _, prefix := range []string{string(kind) + "/", string(kind) + "."} {
		text = strings.TrimPrefix(text, prefix)
	}
	if len(text) > 0 && len(text) < idDigits && strings.Trim(text, "0123456789") == "" {
		text = strings.Repeat("0", idDigits-len(text)) + text
	}
	return text
}

// idDigits is the length of the IDs that the state assigns.
const idDigits = 10

// ids parses the arguments of a command as IDs. It returns an error if there are none.
func ids(cmd *cli.Command, kind resources.Kind) ([]string, error) {
	if cmd.NArg() == 0 {
		return nil, hint(fmt.Errorf("%s needs the id of a %s", cmd.FullName(), kind), fmt.Sprintf("npctl %s list shows them", kind))
	}
	list := make([]string, cmd.NArg())
	for i, text := range cmd.Args().Slice() {
		list[i] = idOf(kind, text)
	}
	return list, nil
}

// one parses the only argument of a command as an ID.
func one(cmd *cli.Command, kind resources.Kind) (string, error) {
	list, err := ids(cmd, kind)
	return strings.Join(list, ""), err
}
