package reconcile

import (
	"context"
	"time"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// twicePause is the time between two listings that both have to lack a thing before it counts as gone.
const twicePause = 3 * time.Second

// twice lists, and lists once more after a while when something is lacking that has to be there: a cloud's list may lag
// behind, or leave out what a part of the cloud did not answer for. What only one of both lacks is there.
func twice[T any](ctx context.Context, list func() ([]T, error), id func(T) string, expected map[string]bool) ([]T, error) {
	first, err := list()
	if err != nil || !lacks(first, id, expected) {
		return first, err
	}
	select {
	case <-time.After(twicePause):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	both, err := list()
	if err != nil {
		return nil, err
	}
	shown := make(map[string]bool, len(both))
	for _, thing := range both {
		shown[id(thing)] = true
	}
	for _, thing := range first {
		if expected[id(thing)] && !shown[id(thing)] {
			both = append(both, thing)
		}
	}
	return both, nil
}

// lacks reports whether a list is without something that is expected in it.
func lacks[T any](list []T, id func(T) string, expected map[string]bool) bool {
	found := 0
	for _, thing := range list {
		if expected[id(thing)] {
			found++
		}
	}
	return found < len(expected)
}

// expected is what a provider has to list, by the cloud's ids.
type expected struct{ servers, images map[string]bool }

// expect notes what records say of each provider.
func expect(records func(yield func(resources.Record) bool)) map[string]expected {
	all := map[string]expected{}
	of := func(provider string) expected {
		if _, known := all[provider]; !known {
			all[provider] = expected{servers: map[string]bool{}, images: map[string]bool{}}
		}
		return all[provider]
	}
	for record := range records {
		switch r := record.(type) {
		case *resources.Node:
			served := r.State == resources.StateReady || r.State == resources.StateInUse || r.State == resources.StateHold
			if served && !r.Static && r.ExternalID != "" {
				of(r.Provider).servers[r.ExternalID] = true
			}
		case *resources.Upload:
			if r.State == resources.StateReady && !r.Unmarked && r.ExternalID != "" {
				of(r.Provider).images[r.ExternalID] = true
			}
		}
	}
	return all
}

// expect is what the ledger's records say.
func (l *ledger) expect() map[string]expected {
	l.mu.Lock()
	defer l.mu.Unlock()
	return expect(func(yield func(resources.Record) bool) {
		for _, r := range l.records {
			if !yield(r) {
				return
			}
		}
	})
}

func recordsOf(entries []state.Entry) func(yield func(resources.Record) bool) {
	return func(yield func(resources.Record) bool) {
		for _, entry := range entries {
			if !yield(entry.Record) {
				return
			}
		}
	}
}
