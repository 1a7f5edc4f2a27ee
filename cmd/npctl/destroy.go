package main

import "github.com/urfave/cli/v3"

const destroyDescription = `Removes everything that npctl created for this configuration: nodes, uploaded images, image files,
and all other objects in the clouds that have its ownership tags. The same as npctl apply -destroy.
It does not change other objects, and it honors prevent_destroy.

Examples:
  npctl destroy
  npctl plan -destroy                               (show only)
  npctl destroy -target=provider.vexxhost
  npctl destroy -target=provider.rax.pool.main  (the nodes of one pool)

Exit codes: 0 all objects are removed, 1 error or some objects are not removed, 130 interrupted.`

func newDestroyCommand(a *app) *cli.Command {
	c := &applyCommand{app: a, operation: "destroy"}
	c.destroy = true
	return &cli.Command{
		Name: "destroy", Category: categoryMain, Usage: "remove everything that npctl created", Description: destroyDescription, Metadata: events(nil),
		Flags: append(c.applyFlags(), c.ruleFlags()...), Action: c.run,
	}
}
