package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/plan"
)

const unmanagedDescription = `Lists the servers, images, ports, floating IPs and volumes in the clouds that no record of this npctl has,
with their owner as far as tags tell: "leak" (this npctl, which deletes it after two sightings), "in-use"
(this npctl, which keeps it because another object uses it), "npctl" (another one), "nodepool", or "none".
It changes nothing. Images are those of the project, not public ones of the cloud. Ports, floating IPs and volumes appear only with tags of an npctl.

npctl import adopts a server or image of the list.

Examples:
  npctl unmanaged
  npctl unmanaged vexxhost
  npctl unmanaged -json | jq -r '.objects[] | select(.owner == "nodepool" and .type == "image") | .id'

Exit codes: 0, or 1 on an error, also if a provider could not be listed.`

// unmanagedCommand implements npctl unmanaged.
type unmanagedCommand struct {
	*app
	variableOptions
	json bool
}

func newUnmanagedCommand(a *app) *cli.Command {
	c := &unmanagedCommand{app: a}
	return &cli.Command{
		Name: "unmanaged", Category: categoryState, Usage: "list objects in the clouds without a record", ArgsUsage: "[PROVIDER]...", Description: unmanagedDescription, Metadata: takes(providerNames),
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "json", Category: categoryOutput, Destination: &c.json, Usage: "print one JSON document (see docs/json.md)"},
		}, c.flags()...),
		Action: c.run,
	}
}

// unmanagedDocument is the document that npctl unmanaged prints with -json.
type unmanagedDocument struct {
	Objects   []inspect.UnmanagedObject `json:"objects"`
	NotListed map[string]string         `json:"not_listed,omitempty"` // by provider: why it could not be listed
}

func (c *unmanagedCommand) run(ctx context.Context, cmd *cli.Command) error {
	s, err := c.loadSession(ctx, c.variableOptions, 0, readState)
	if err != nil {
		return err
	}
	defer s.close()
	s.engine.ListOthers = true
	seen, err := s.observe(ctx, true)
	if err != nil {
		return err
	}
	if err := selectProviders(&seen, cmd.Args().Slice()); err != nil {
		return err
	}
	doc := unmanagedDocument{append([]inspect.UnmanagedObject{}, inspect.Unmanaged(seen)...), map[string]string{}}
	for name, view := range seen.Providers {
		if why := cmp.Or(view.Err, view.OthersErr); why != "" {
			doc.NotListed[name] = why
		}
	}
	return c.print(doc)
}

// selectProviders removes the views of all providers but the named ones.
func selectProviders(seen *plan.Observed, names []string) error {
	for _, name := range names {
		if _, known := seen.Providers[name]; !known {
			return didYouMean(fmt.Errorf("there is no provider %q", name), name, slices.Sorted(maps.Keys(seen.Providers)), "npctl unmanaged lists all providers")
		}
	}
	if len(names) > 0 {
		maps.DeleteFunc(seen.Providers, func(name string, _ plan.ProviderView) bool { return !slices.Contains(names, name) })
	}
	return nil
}

func (c *unmanagedCommand) print(doc unmanagedDocument) error {
	rows := [][]string{{"PROVIDER", "TYPE", "ID", "NAME", "OWNER", "TAGS", "CREATED"}}
	for _, o := range doc.Objects {
		created := ""
		if o.Created != nil {
			created = o.Created.UTC().Format(time.RFC3339)
		}
		rows = append(rows, []string{o.Provider, o.Type, o.ID, o.Name, string(o.Owner), o.Tags, created})
	}
	var err error
	switch {
	case c.json:
		err = c.printDocument(doc)
	case len(rows) > 1:
		err = c.ui.WideTable(rows)
	case len(doc.NotListed) == 0:
		err = c.ui.Print("No unmanaged objects.")
	}
	if err != nil || len(doc.NotListed) == 0 {
		return err
	}
	if c.json {
		return exitCode(1)
	}
	var failures []error
	for _, name := range slices.Sorted(maps.Keys(doc.NotListed)) {
		failures = append(failures, fmt.Errorf("provider %s could not be listed: %s", name, doc.NotListed[name]))
	}
	return errors.Join(failures...)
}
