package main

import (
	"cmp"
	"context"
	"errors"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/watch/httpapi/client"
)

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
