package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/internal/host"

	"github.com/npctl/npctl/drivers/sandbox/sandboxcloud"
)

const sandboxDescription = `Serves the simulated OpenStack of npctl (identity, image, compute, network and block storage)
on a loopback address until ^C, for any OpenStack client: the openstack command, SDKs, or npctl
itself with the openstack driver. It starts no real machines: servers are rows in a table.

It prints a clouds.yaml with two entries: "sandbox" is the project of npctl, and
"sandbox-other" is a foreign project.

With -file the sandbox keeps the cloud in a file, which a sandbox provider of an npctl
configuration may use at the same time: .npctl/providers/NAME/sandbox.json beside its state.

Examples:
  npctl sandbox
  npctl sandbox -listen=127.0.0.1:15000 -write-clouds=clouds.yaml &
  openstack --os-cloud=sandbox server list
  npctl sandbox -image=debian-12 -image=ubuntu-24.04
  npctl sandbox -build-time=20s -faults=faults.json

Exit codes: 0 after ^C, 1 on an error.`

// sandboxCommand implements npctl sandbox.
type sandboxCommand struct {
	*app
	listen, file, clouds, faults string
	images                       []string
	buildTime, deleteTime        time.Duration
}

func newSandboxCommand(a *app) *cli.Command {
	c := &sandboxCommand{app: a}
	return &cli.Command{
		Name: "sandbox", Category: categoryOther, Usage: "serve a simulated OpenStack on a loopback address", Description: sandboxDescription,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "listen", Destination: &c.listen, Value: "127.0.0.1:0", Usage: "loopback `ADDRESS` and port to serve on; port 0 selects a free port"},
			&cli.StringFlag{Name: "file", Destination: &c.file, TakesFile: true, Usage: "keep the cloud in `FILE`; without it the cloud is lost at the end"},
			&cli.StringFlag{Name: "write-clouds", Destination: &c.clouds, TakesFile: true, Usage: "write the clouds.yaml to `FILE` instead of stdout"},
			&cli.StringFlag{Name: "faults", Destination: &c.faults, TakesFile: true, Usage: "inject the faults of the JSON `FILE`, which may change while it serves"},
			&cli.StringSliceFlag{Name: "image", Destination: &c.images, Usage: "offer a public image with this `NAME`, such as debian-12; may be given several times"},
			&cli.DurationFlag{Name: "build-time", Destination: &c.buildTime, Usage: "`DURATION` that servers take to start, such as 20s"},
			&cli.DurationFlag{Name: "delete-time", Destination: &c.deleteTime, Usage: "`DURATION` that servers take to be deleted"},
		},
		Action: c.run,
	}
}

func (c *sandboxCommand) run(ctx context.Context, cmd *cli.Command) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.listen)
	if err != nil {
		return hint(fmt.Errorf("serve sandbox: %w", err), "choose another address with -listen=127.0.0.1:PORT")
	}
	defer listener.Close() //nolint:errcheck // closed by the server already
	options := sandboxcloud.Options{File: c.file, FaultFile: c.faults, Log: c.log, BuildTime: c.buildTime, DeleteTime: c.deleteTime}
	for _, name := range c.images {
		options.Images = append(options.Images, sandboxcloud.PublicImage{Name: name})
	}
	cloud, err := sandboxcloud.Open(options)
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- sandboxcloud.Serve(ctx, listener, cloud) }()
	err = c.announce(sandboxcloud.AuthURL(listener.Addr()))
	if err == nil {
		err = <-served
	}
	return errors.Join(err, cloud.Close())
}

// announce prints how to connect to the cloud, or writes it to the file of -clouds.
func (c *sandboxCommand) announce(url string) error {
	yaml := sandboxcloud.CloudsYAML(url)
	if c.clouds != "" {
		if err := host.ReplaceFile(c.clouds, []byte(yaml), 0o600); err != nil {
			return fmt.Errorf("write %s: %w", c.clouds, err)
		}
		c.ui.message("Serving an OpenStack at %s until ^C. Use it with: OS_CLIENT_CONFIG_FILE=%s openstack --os-cloud=sandbox server list", url, c.clouds)
		return nil
	}
	if c.ui.outFile == os.Stdout && c.ui.outTerm() {
		c.ui.message("Serving an OpenStack at %s until ^C. Save this as clouds.yaml, then: openstack --os-cloud=sandbox server list\n", url)
	}
	return c.ui.print("%s", yaml)
}
