package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/watch/httpapi/client"
)

// fetch returns what online gets from npctl watch. If npctl watch is not running, fetch returns what offline makes of the
// state that read returns, and warns of that. If read fails, it returns the error that npctl watch is not running.
func fetch[S, T any](ctx context.Context, c *daemonCommand, online func(context.Context, *client.Client) (T, error),
	read func(context.Context) (S, error), offline func(S) (T, error)) (result T, err error) {
	d, err := c.dial()
	if err != nil {
		return result, c.explain(err)
	}
	defer d.Close()
	result, err = online(ctx, d)
	if !errors.Is(err, client.ErrNoDaemon) || c.socket != "" {
		return result, c.explain(err)
	}
	stored, readErr := read(ctx)
	if readErr != nil {
		return result, c.explain(err)
	}
	if !c.json {
		c.ui.Warning("Warning:", "npctl watch is not running; showing stored records.")
	}
	return offline(stored)
}

// stored returns a function that reads records of these kinds from the state.
func (c *daemonCommand) stored(kinds ...resources.Kind) func(context.Context) (*inspect.Fleet, error) {
	return func(ctx context.Context) (w *inspect.Fleet, err error) {
		w = &inspect.Fleet{}
		w.Observed.Records, err = c.storedRecords(ctx, kinds...)
		return w, err
	}
}

// all describes the records that matches selects.
func all[R, T any](records []*R, matches func(*R) bool, view func(*R) T) []T {
	list := []T{}
	for _, r := range records {
		if matches(r) {
			list = append(list, view(r))
		}
	}
	return list
}

// byIDs describes the records with these IDs.
func byIDs[R any, P interface {
	*R
	resources.Record
}, T any](ids []string, records []*R, view func(*R) T) ([]T, error) {
	return each(ids, func(id string) (none T, err error) {
		i := slices.IndexFunc(records, func(r *R) bool { return P(r).Key().ID == id })
		if i < 0 {
			return none, fmt.Errorf("there is no %s %s", P(new(R)).Key().Kind, id)
		}
		return view(records[i]), nil
	})
}

// each calls do with each element of a list and returns the results.
func each[K, T any](list []K, do func(K) (T, error)) ([]T, error) {
	results := make([]T, len(list))
	for i, one := range list {
		var err error
		if results[i], err = do(one); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// storedFleet reads the configuration and the state, which must exist, for views of the whole fleet.
func (c *daemonCommand) storedFleet(ctx context.Context) (w imageState, err error) {
	place, err := c.findState()
	if err == nil && place.IsEmpty() {
		err = state.ErrNotFound
	}
	if err == nil {
		w, err = c.loadState(ctx, variableOptions{}, withJournal)
	}
	if err != nil {
		return w, err
	}
	w.Observed.Frozen = map[string]bool{}
	for _, p := range w.Observed.Records.Providers {
		w.Observed.Frozen[p.Name] = p.Frozen
	}
	return w, nil
}
