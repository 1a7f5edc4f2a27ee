package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/urfave/cli/v3"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/npctl/npctl/internal/startup"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/bolt"
)

const stateDescription = `Shows, and in emergencies changes, the records of the objects that npctl created.

Examples of addresses:
  node.0000000017                            one node
  diskimage.debian                           all builds of an image
  provider.vexxhost.image.debian             its uploads to a provider
  provider.vexxhost.pool.main.label.small    nodes by pool and label
An address includes all addresses below it.

The location of the state comes from -state, else from the state block of the configuration, else it is
npctl.db beside the configuration.`

// stateCommand implements npctl state and its subcommands.
type stateCommand struct {
	*app
	json, all, long, force, dryRun, autoApprove bool
	lockTimeout                                 time.Duration
}

func newStateCommand(a *app) *cli.Command {
	c := &stateCommand{app: a}
	asJSON := &cli.BoolFlag{Name: "json", Destination: &c.json, Usage: "print one JSON document (see docs/json.md)"}
	all := &cli.BoolFlag{Name: "all", Destination: &c.all, Usage: "internal records too: providers, templates, sightings, histories"}
	wait := lockTimeoutFlag(&c.lockTimeout)
	return &cli.Command{
		Name: "state", Category: categoryState, Usage: "show and change the state", Description: stateDescription,
		Commands: []*cli.Command{
			{Name: "list", Usage: "list addresses", ArgsUsage: "[ADDRESS]...", Description: stateListDescription, Metadata: takes(recordAddresses),
				Flags: []cli.Flag{asJSON, all, &cli.BoolFlag{Name: "long", Destination: &c.long, Usage: "show state, age and more beside each address"}}, Action: c.list},
			{Name: "show", Usage: "show the details of records", ArgsUsage: "ADDRESS...", Description: stateShowDescription, Metadata: takes(recordAddresses),
				Flags: []cli.Flag{asJSON}, Action: c.show},
			{Name: "rm", Usage: "forget records without deleting the objects", ArgsUsage: "ADDRESS...", Description: stateRmDescription, Metadata: takes(recordAddresses),
				Flags: []cli.Flag{wait, &cli.BoolFlag{Name: "dry-run", Destination: &c.dryRun, Usage: "only show the records to forget"},
					&cli.BoolFlag{Name: "auto-approve", Category: categoryRun, Destination: &c.autoApprove, Usage: "do not ask before records of other programs in ZooKeeper are forgotten"}}, Action: c.rm},
			{Name: "pull", Usage: "print the whole state as JSON", Description: statePullDescription, Action: c.pull},
			newStateMvCommand(c.app),
			newStateMigrateCommand(c.app),
			{Name: "push", Usage: "replace the whole state", ArgsUsage: "FILE|-", Description: statePushDescription, Metadata: takes(single(files)),
				Flags: []cli.Flag{wait, &cli.BoolFlag{Name: "force", Destination: &c.force, Usage: "accept a document of another installation, or an older one"}}, Action: c.push},
		},
	}
}

const stateListDescription = `Prints the address of every build, upload and node in the state, one per line, or only
of those at or below the given addresses.

Examples:
  npctl state list
  npctl state list -long provider.vexxhost
  npctl state list -json | jq -r '.records[].record.external_id'

Exit codes: 0, or 1 on an error or when no record has an address.`

func (c *stateCommand) list(ctx context.Context, cmd *cli.Command) error {
	entries, err := c.entries(ctx, cmd.Args().Slice(), c.all)
	if err != nil {
		return err
	}
	switch {
	case c.json:
		return c.printDocument(map[string]any{"records": recordLines(entries)})
	case c.long:
		return c.longList(entries)
	}
	out := make([]byte, 0, 32*len(entries))
	for _, e := range entries {
		out = append(append(out, visibleLine(recordAddress(e.Record))...), '\n')
	}
	return c.ui.Write(string(out))
}

func (c *stateCommand) longList(entries []state.Entry) error {
	rows := [][]string{{"ADDRESS", "STATE", "AGE", "WHERE", "CLOUD ID"}}
	now := time.Now()
	for _, e := range entries {
		cells := []string{recordAddress(e.Record), "", "", "", ""}
		switch r := e.Record.(type) {
		case *resources.Build:
			cells = []string{cells[0], string(r.State), age(r.Created, now), r.Host, ""}
		case *resources.Upload:
			cells = []string{cells[0], string(r.State), age(r.Created, now), r.Provider, r.ExternalID}
		case *resources.Node:
			cells = []string{cells[0], string(r.State), age(r.Created, now), r.Provider + "/" + r.Pool + " " + words(r.Labels), r.ExternalID}
		}
		rows = append(rows, cells)
	}
	return c.ui.WideTable(rows)
}

// entries reads the entries that the addresses select. The process ends soon after, so it collects little garbage:
// collection takes a quarter of the time of a list of thousands of nodes.
func (c *stateCommand) entries(ctx context.Context, addresses []string, all bool) ([]state.Entry, error) {
	startup.CollectLess(400)
	store, _, err := c.openFound(ctx, readState)
	if err != nil {
		return nil, err
	}
	defer store.Close() //nolint:errcheck // read-only file
	kinds := livingKinds
	if all {
		kinds = nil
	}
	entries, err := store.List(ctx, kinds...)
	if err != nil {
		return nil, err
	}
	if entries, err = choose(entries, addresses); err != nil {
		return nil, err
	}
	sortBuilds(entries)
	return entries, nil
}

// sortBuilds sorts the builds of each image by time. Other records are in that order by their IDs, but the IDs of
// builds are random.
func sortBuilds(entries []state.Entry) {
	isBuild := func(e state.Entry) bool { return e.Record.Key().Kind == resources.KindBuild }
	first := slices.IndexFunc(entries, isBuild)
	if first < 0 {
		return
	}
	builds := entries[first:] // records of one kind are adjacent
	if end := slices.IndexFunc(builds, func(e state.Entry) bool { return !isBuild(e) }); end >= 0 {
		builds = builds[:end]
	}
	slices.SortStableFunc(builds, func(a, b state.Entry) int {
		one, other := a.Record.(*resources.Build), b.Record.(*resources.Build)
		return cmp.Or(cmp.Compare(one.Image, other.Image), one.Created.Compare(other.Created))
	})
}

const stateShowDescription = `Prints every attribute of the records at or below the given addresses.

Examples:
  npctl state show node.0000000017
  npctl state show -json provider.vexxhost.image.debian

Exit codes: 0, or 1 on an error or when no record has an address.`

func (c *stateCommand) show(ctx context.Context, cmd *cli.Command) error {
	if cmd.NArg() == 0 {
		return hint(errors.New("npctl state show needs an address"), "npctl state list shows the addresses, npctl show an overview")
	}
	entries, err := c.entries(ctx, cmd.Args().Slice(), true)
	if err != nil {
		return err
	}
	if c.json {
		return c.printDocument(map[string]any{"records": recordLines(entries)})
	}
	return c.printRecords(len(entries), func(i int) resources.Record { return entries[i].Record })
}

// recordText formats a record as a block of HCL.
func recordText(r resources.Record) (string, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return "", err
	}
	implied, err := ctyjson.ImpliedType(text)
	if err != nil {
		return "", err
	}
	value, err := ctyjson.Unmarshal(text, implied)
	if err != nil {
		return "", err
	}
	file := hclwrite.NewEmptyFile()
	body := file.Body().AppendNewBlock(string(r.Key().Kind), []string{r.Key().ID}).Body()
	for it := value.ElementIterator(); it.Next(); {
		name, v := it.Element()
		body.SetAttributeValue(name.AsString(), v)
	}
	return "# " + recordAddress(r) + "\n" + string(hclwrite.Format(file.Bytes())), nil
}

const statePullDescription = `Prints the whole state as one JSON document that npctl state push accepts: as a backup, to move it,
or to read it. A state contains no secrets.

Example:
  npctl state pull > backup.json

Exit codes: 0, or 1 on an error.`

func (c *stateCommand) pull(ctx context.Context, cmd *cli.Command) error {
	store, _, err := c.openFound(ctx, readState)
	if err != nil {
		return err
	}
	defer store.Close() //nolint:errcheck // read-only file
	return store.Export(ctx, c.ui.Out)
}

const statePushDescription = `Replaces the whole state by a document of npctl state pull, all or nothing. It refuses a document
of another installation, or one older than the state, unless -force is given: objects without a record
in it would count as leaked.

Examples:
  npctl state push backup.json
  ssh old npctl state pull | npctl state push -

Exit codes: 0, or 1 on an error; nothing is changed then.`

func (c *stateCommand) push(ctx context.Context, cmd *cli.Command) error {
	in := c.ui.In
	switch name := cmd.Args().First(); name {
	case "":
		return hint(errors.New("npctl state push needs a file"), "write - for standard input")
	case "-":
	default:
		file, err := os.Open(name)
		if err != nil {
			return err
		}
		defer file.Close() //nolint:errcheck // read-only file
		in = file
	}
	place, err := c.findState()
	if err != nil {
		return err
	}
	if place.Shared != nil {
		return hint(errors.New("other processes use the state in ZooKeeper, so it cannot be replaced as a whole"),
			"push into a file with -state=FILE; npctl state migrate moves a state")
	}
	store, err := place.open(ctx, writeState)
	if err != nil {
		return err
	}
	own, ok := store.(*bolt.Store)
	if !ok {
		return errors.Join(hint(errors.New("npctl watch uses this state and would overwrite the new records"),
			"stop npctl watch, push, and start it again"), store.Close())
	}
	return c.whileLocked(ctx, store, "state push", func() error {
		if err := own.Import(ctx, in, c.force); err != nil {
			return fmt.Errorf("state push %s: %w", cmd.Args().First(), err)
		}
		// Not before: a record of the replaced state would be gone, and the state newer than the document.
		if err := c.auditDone(ctx, store, resources.Audit{Operation: "state push", Objects: cmd.Args().Slice()}); err != nil {
			return err
		}
		identity, err := store.Identity(ctx)
		if err != nil {
			return err
		}
		return c.ui.Print("The state at %s is replaced (lineage %s, serial %d).", place, identity.Lineage, identity.Serial)
	})
}

// whileLocked runs do under the lock of the state and closes the store.
func (c *stateCommand) whileLocked(ctx context.Context, store stateStore, operation string, do func() error) error {
	lock, err := c.lock(ctx, store, operation, c.lockTimeout)
	if err != nil {
		return errors.Join(err, store.Close())
	}
	err = do()
	if unlockErr := lock.Unlock(ctx); unlockErr != nil {
		err = errors.Join(err, fmt.Errorf("unlock the state: %w", unlockErr))
	}
	return errors.Join(err, store.Close())
}
