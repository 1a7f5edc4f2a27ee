package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/watch/httpapi/client"
)

// askAll gets a list of records from npctl watch, or from the state if npctl watch is not running. of converts a record
// of the state into an element of the list and reports whether the list contains it.
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
	records, fileErr := c.recordsFromState(ctx, kind)
	if fileErr != nil {
		return nil, err // return the error that says that npctl watch is not running
	}
	list = []T{}
	for _, r := range records {
		if one, wanted := of(r); wanted {
			list = append(list, one)
		}
	}
	c.warnOffline()
	return list, nil
}

// askEach gets the records with these IDs from npctl watch, or from the state if npctl watch is not running.
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

// readEach reads the records with these IDs from the state. It returns none, the error of the client, if the state
// cannot be read.
func readEach[T any](ctx context.Context, c *daemonCommand, kind resources.Kind, ids []string, of func(resources.Record) (T, bool), none error) (found []T, err error) {
	records, err := c.recordsFromState(ctx, kind)
	if err != nil {
		return nil, none // return the error that says that npctl watch is not running
	}
	for _, id := range ids {
		i := slices.IndexFunc(records, func(r resources.Record) bool { return r.Key().ID == id })
		if i < 0 {
			return nil, fmt.Errorf("there is no %s %s", kind, id)
		}
		one, _ := of(records[i])
		found = append(found, one)
	}
	c.warnOffline()
	return found, nil
}

// warnOffline warns that npctl watch is not running and the output shows stored records.
func (c *daemonCommand) warnOffline() {
	if !c.json {
		c.ui.message("%s npctl watch is not running; showing stored records.", c.ui.style(styleWarning, "Warning:"))
	}
}
