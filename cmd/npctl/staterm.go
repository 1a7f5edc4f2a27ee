package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

const stateRmDescription = `Forgets the records at or below the given addresses. It deletes nothing: servers and images stay
in the cloud, and the output lists them. They still have the ownership tags of npctl, so a later apply
deletes them as leaks; to keep an object, remove its tags (npctl_* metadata).

In ZooKeeper it also forgets the records of a provider that this npctl never had, such as one of Nodepool
that is in no configuration any more. It asks before, and refuses while another process has registered
the provider, holds its lock or uses one of the records; nothing is forgotten then.

Examples:
  npctl state rm -dry-run provider.gone
  npctl state rm -auto-approve provider.gone
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
	store, place, err := c.openFound(ctx, may)
	if err != nil {
		return err
	}
	forget := func() error {
		entries, err := store.List(ctx, resources.PlannedKinds()...)
		if err != nil {
			return err
		}
		chosen, err := choose(entries, cmd.Args().Slice())
		if err == nil && place.Shared != nil {
			err = c.checkShared(ctx, store, recordsOf(chosen), recordsOf(entries))
		}
		if err != nil {
			return err
		}
		if c.dryRun {
			return c.forget(ctx, store, chosen)
		}
		return c.audited(ctx, store, resources.Audit{Operation: "state rm", Objects: cmd.Args().Slice()}, func() error { return c.forget(ctx, store, chosen) })
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
		if err := c.ui.Print("%s %s%s", verb, visibleLine(recordAddress(e.Record)), visibleLine(staysBehind(e.Record))); err != nil {
			return err
		}
	}
	return nil
}

// checkShared returns an error if another process uses the provider of a chosen record of a shared state, or if the
// operator does not confirm that records of other programs are forgotten.
func (c *stateCommand) checkShared(ctx context.Context, store stateStore, chosen, all plan.Records) error {
	in := inspect.ForgetInput{Chosen: chosen, Recorded: all.Providers, Holders: map[string]string{}}
	switch s := store.(type) {
	case *sharedStore:
		in.Pools = s.RegisteredPools()
	case *daemonStore:
		work, err := s.Activity(ctx)
		if err != nil {
			return err
		}
		in.Pools = work.RegisteredPools
	}
	for _, provider := range in.Providers() {
		holder, err := store.Holder(ctx, state.ProviderLock(provider))
		if err != nil {
			return err
		}
		if holder != nil {
			in.Holders[provider] = holder.UserHost
		}
	}
	if reason := in.Refusal(); reason != "" {
		return hint(errors.New(reason+"; nothing was forgotten"), "remove the provider from the configuration of that process, or stop the process")
	}
	foreign := in.Foreign()
	if len(foreign) == 0 || c.dryRun || c.autoApprove {
		return nil
	}
	return c.confirm(ctx, visibleLine(fmt.Sprintf("%s in ZooKeeper of %s, which this npctl never had. Forget them? Nothing is deleted in a cloud.",
		text.Count(len(chosen.Nodes)+len(chosen.Uploads), "record", "records"), strings.Join(foreign, ", "))),
		"add -auto-approve; -dry-run shows the records")
}

func recordsOf(entries []state.Entry) (r plan.Records) {
	for _, e := range entries {
		r.Put(e.Record, uint64(e.Revision))
	}
	return r
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
