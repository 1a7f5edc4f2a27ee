package main

import (
	"context"
	"errors"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

const forceUnlockDescription = `Removes the lock of the state from its holder. Use this only if that process is certainly dead and its
machine cannot be reached: two applies at the same time would both change the clouds. npctl takes over
the lock of a process that died on this machine without this command. A live holder detects the loss
and stops.

If the state is in ZooKeeper, providers and images have locks there, which end with the session of
their process. This command removes those too, from any machine. A live npctl watch stops its work under
the lock and re-acquires it, unless a standby gets it first.

The message about the locked state and npctl show print the id.

Examples:
  npctl force-unlock 0f3c9f5e-6a3e-4b43-8a57-1c1c0f3dbe1a
  npctl force-unlock -force 0f3c9f5e-6a3e-4b43-8a57-1c1c0f3dbe1a

Exit codes: 0 unlocked, 1 error, or not approved.`

func newForceUnlockCommand(a *app) *cli.Command {
	force := false
	return &cli.Command{
		Name: "force-unlock", Category: categoryState, Usage: "take the lock of the state from a dead process", ArgsUsage: "LOCK_ID",
		Description: forceUnlockDescription,
		Flags:       []cli.Flag{&cli.BoolFlag{Name: "force", Destination: &force, Usage: "do not ask"}},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if cmd.NArg() == 0 {
				return hint(errors.New("npctl force-unlock needs the id of the lock"), "npctl show prints it")
			}
			return a.forceUnlock(ctx, cmd.Args().First(), force)
		},
	}
}

func (a *app) forceUnlock(ctx context.Context, id string, force bool) error {
	store, _, err := a.openFound(ctx, writeState)
	if err != nil {
		return err
	}
	defer store.Close() //nolint:errcheck // the lock may be released already
	if !force {
		holder, err := store.Holder(ctx, stateLock)
		if err != nil {
			return err
		}
		if holder != nil && holder.ID == id {
			a.ui.Message("The state is locked by %s for %s since %s (process %d on %s, npctl %s).", visibleLine(holder.UserHost), holder.Operation,
				holder.Since.Local().Format(time.DateTime), holder.PID, visibleLine(holder.Host), holder.Version)
		}
		if err := a.confirm(ctx, "Is the process that holds the lock certainly dead?", "add -force if that process is certainly dead"); err != nil {
			return err
		}
	}
	var holder state.Holder
	err = a.audited(ctx, store, resources.Audit{Operation: "force-unlock", Objects: []string{id}}, func() (err error) {
		holder, err = store.ForceUnlock(ctx, id)
		return err
	})
	if err != nil {
		return err
	}
	return a.ui.Print("Unlocked. It was held by %s for %s (process %d on %s).", visibleLine(holder.UserHost), holder.Operation, holder.PID, visibleLine(holder.Host))
}
