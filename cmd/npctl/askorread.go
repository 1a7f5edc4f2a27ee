package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/watch/httpapi/client"
)

// askAll asks npctl watch for a list of records, or reads the state when that does not run. Of a record in the state, of
// tells what the list has, if anything.
func askAll[T any](ctx context.Context, c *daemonCommand, kind resources.Kind, ask func(context.Context, *client.Client) ([]T, error),
	of func(resources.Record) (T, bool)) ([]T, error) {
	d, err := c.dial()
	if err != nil {
		return nil, err
	}
	defer d.Close()
	list, err := ask(ctx, d)
	if !errors.Is(err, client.ErrNoDaemon) || c.socket != "" {
		return append([]T{}, list...), err
	}
	records, fileErr := c.recordsWithout(ctx, kind)
	if fileErr != nil {
		return nil, err // that nothing runs is what has to be told
	}
	list = []T{}
	for _, r := range records {
		if one, wanted := of(r); wanted {
			list = append(list, one)
		}
	}
	c.tellWithout()
	return list, nil
}

// askEach asks npctl watch for the records with these ids, or reads the state when that does not run.
func askEach[T any](ctx context.Context, c *daemonCommand, kind resources.Kind, ids []string,
	ask func(context.Context, *client.Client, string) (T, error), of func(resources.Record) (T, bool)) (found []T, err error) {
	d, err := c.dial()
	if err != nil {
		return nil, err
	}
	defer d.Close()
	for _, id := range ids {
		one, err := ask(ctx, d, id)
		if errors.Is(err, client.ErrNoDaemon) && c.socket == "" {
			return readEach(ctx, c, kind, ids, of, err)
		}
		if err != nil {
			return nil, err
		}
		found = append(found, one)
	}
	return found, nil
}

// readEach looks into the state, when npctl watch does not run.
func readEach[T any](ctx context.Context, c *daemonCommand, kind resources.Kind, ids []string, of func(resources.Record) (T, bool), none error) (found []T, err error) {
	records, err := c.recordsWithout(ctx, kind)
	if err != nil {
		return nil, none // that nothing runs is what has to be told
	}
	for _, id := range ids {
		i := slices.IndexFunc(records, func(r resources.Record) bool { return r.Key().ID == id })
		if i < 0 {
			return nil, fmt.Errorf("there is no %s %s", kind, id)
		}
		one, _ := of(records[i])
		found = append(found, one)
	}
	c.tellWithout()
	return found, nil
}

// tellWithout says that what is shown is not the work of anybody right now.
func (c *daemonCommand) tellWithout() {
	if !c.json {
		c.ui.talk("%s npctl watch is not running, so nobody works on these.", c.ui.style(styleWarning, "Warning:"))
	}
}
