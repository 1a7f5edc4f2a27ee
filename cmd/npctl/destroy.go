package main

import "github.com/urfave/cli/v3"

const destroyDescription = `Removes everything that npctl made for this configuration: nodes, uploaded images, image files,
and whatever else in the clouds carries its marks. The same as npctl apply -destroy. What
somebody else made is not touched, and prevent_destroy is honoured.

Examples:
  npctl destroy
  npctl plan -destroy                               (only look)
  npctl destroy -target=provider.vexxhost
  npctl destroy -target=provider.rax.pool.main  (the nodes of one pool)

Exit codes: 0 nothing is left, 1 error or something could not be removed, 130 interrupted.`

func (a *app) destroyCommand() *cli.Command {
	c := &applyCommand{app: a, operation: "destroy"}
	c.destroy = true
	return &cli.Command{
		Name: "destroy", Category: categoryMain, Usage: "remove everything that npctl made", Description: destroyDescription,
		Flags: c.applyFlags(), Action: c.run,
	}
}
