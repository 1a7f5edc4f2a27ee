package main

import (
	"context"
	"errors"
	"time"

	"github.com/urfave/cli/v3"
)

const forceUnlockDescription = `Takes the lock of the state from whoever holds it. Only do this when that process is surely dead,
on a machine that cannot be asked: two applies at a time would both change the clouds. The lock of a
process that died on this machine is taken over without this. A holder that lives learns of it
and stops.

Where the state is in ZooKeeper, providers and images have locks there, which go with the session of
a process that dies. This takes those away too, from any machine. A live npctl watch stops its work under
the lock and re-acquires it, unless a standby gets it first.

The id is in the message that says the state is locked, and in npctl show.

Examples:
  npctl force-unlock 0f3c9f5e-6a3e-4b43-8a57-1c1c0f3dbe1a
  npctl force-unlock -force 0f3c9f5e-6a3e-4b43-8a57-1c1c0f3dbe1a

Exit codes: 0 unlocked, 1 error, or not approved.`

func (a *app) forceUnlockCommand() *cli.Command {
	force := false
	return &cli.Command{
		Name: "force-unlock", Category: categoryState, Usage: "take the lock of the state from a dead process", ArgsUsage: "LOCK_ID",
		Description: forceUnlockDescription,
		Flags:       []cli.Flag{&cli.BoolFlag{Name: "force", Destination: &force, Usage: "do not ask"}},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if err := arguments(cmd, 1); err != nil {
				return err
			}
			if cmd.NArg() == 0 {
				return hint(errors.New("npctl force-unlock needs the id of the lock"), "npctl show tells it")
			}
			return a.forceUnlock(ctx, cmd.Args().First(), force)
		},
	}
}

func (a *app) forceUnlock(ctx context.Context, id string, force bool) error {
	place, err := a.findState()
	if err != nil {
		return err
	}
	store, err := a.openExisting(ctx, place, false)
	if err != nil {
		return err
	}
	defer store.Close() //nolint:errcheck // the lock is gone, or it is not
	if !force {
		holder, err := store.Holder(ctx, stateLock)
		if err != nil {
			return err
		}
		if holder != nil && holder.ID == id {
			a.ui.message("The state is locked by %s for %s since %s (process %d on %s, npctl %s).", visibleLine(holder.UserHost), holder.Operation,
				holder.Since.Local().Format(time.DateTime), holder.PID, visibleLine(holder.Host), holder.Version)
		}
		if err := a.approveUnlock(ctx); err != nil {
			return err
		}
	}
	holder, err := store.ForceUnlock(ctx, id)
	if err != nil {
		return err
	}
	return a.ui.print("Unlocked. It was held by %s for %s (process %d on %s).", visibleLine(holder.UserHost), holder.Operation, holder.PID, visibleLine(holder.Host))
}

func (a *app) approveUnlock(ctx context.Context) error {
	answer, err := a.ui.ask(ctx, "Is the process that holds the lock surely dead?\n  Only 'yes' will be accepted: ")
	switch {
	case errors.Is(err, errNoTerminal):
		return hint(errors.New("stdin is not a terminal: cannot ask for approval, so nothing was done"), "give -force if that process is surely dead")
	case err != nil:
		return err
	case answer != "yes":
		a.ui.message("Not approved, so nothing was done.")
		return exitCode(1)
	}
	return nil
}
