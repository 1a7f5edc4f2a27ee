package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

const stateRmDescription = `Forgets the records at or below the given addresses. It deletes nothing: servers and images stay
in the cloud, and the output lists them. They still have the ownership tags of npctl, so a later apply
deletes them as leaks; to keep an object, remove its tags (npctl_* metadata).

Examples:
  npctl state rm -dry-run provider.gone
  npctl state rm node.0000000017

Exit codes: 0, or 1 on an error or when no record has an address; nothing is forgotten then.`

func (c *stateCommand) rm(ctx context.Context, cmd *cli.Command) error {
	if cmd.NArg() == 0 {
		return hint(errors.New("npctl state rm needs an address"), "npctl state list shows the addresses")
	}
	may := writeState
	if c.dryRun {
		may = readState
	}
	store, _, err := c.openFound(ctx, may)
	if err != nil {
		return err
	}
	forget := func() error {
		entries, err := store.List(ctx)
		if err != nil {
			return err
		}
		if entries, err = choose(entries, cmd.Args().Slice()); err != nil {
			return err
		}
		return c.forget(ctx, store, entries)
	}
	if c.dryRun {
		return errors.Join(forget(), store.Close())
	}
	return c.whileLocked(ctx, store, "state rm", forget)
}

func (c *stateCommand) forget(ctx context.Context, store state.Store, entries []state.Entry) error {
	ops := make([]state.Op, len(entries))
	for i, e := range entries {
		ops[i] = state.Op{Key: e.Record.Key(), Revision: e.Revision}
	}
	verb := "Would forget"
	if !c.dryRun {
		if _, err := store.Commit(ctx, ops...); err != nil {
			return err
		}
		verb = "Forgot"
	}
	for _, e := range entries {
		if err := c.ui.print("%s %s%s", verb, visibleLine(recordAddress(e.Record)), visibleLine(staysBehind(e.Record))); err != nil {
			return err
		}
	}
	return nil
}

// staysBehind returns the objects that remain after their record is removed.
func staysBehind(r resources.Record) string {
	switch r := r.(type) {
	case *resources.Node:
		if r.ExternalID != "" && !r.Static {
			return fmt.Sprintf("; server %s stays in provider %s", r.ExternalID, r.Provider)
		}
	case *resources.Upload:
		if r.ExternalID != "" {
			return fmt.Sprintf("; image %s stays in provider %s", r.ExternalID, r.Provider)
		}
	case *resources.Build:
		if len(r.Files) > 0 {
			return "; its " + text.Count(len(r.Files), "file stays", "files stay") + " in the images directory"
		}
	}
	return ""
}
