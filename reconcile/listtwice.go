package reconcile

import (
	"context"
	"time"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// secondListingDelay is the time between two listings that must both lack an object before it counts as gone.
const secondListingDelay = 3 * time.Second

// listTwice lists, and lists a second time if an expected object is missing: a cloud's listing may lag behind, or omit
// the part of the cloud that did not respond. An object in either listing exists.
func listTwice[T any](ctx context.Context, list func() ([]T, error), id func(T) string, expected map[string]bool) ([]T, error) {
	first, err := list()
	if err != nil || !isMissingAny(first, id, expected) {
		return first, err
	}
	select {
	case <-time.After(secondListingDelay):
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

// isMissingAny reports whether a list lacks an expected object.
func isMissingAny[T any](list []T, id func(T) string, expected map[string]bool) bool {
	found := 0
	for _, thing := range list {
		if expected[id(thing)] {
			found++
		}
	}
	return found < len(expected)
}

// expectedIDs holds the cloud IDs that a listing of a provider must contain.
type expectedIDs struct{ servers, images map[string]bool }

// expect returns the expected IDs of each provider according to the records.
func expect(records func(yield func(resources.Record) bool)) map[string]expectedIDs {
	all := map[string]expectedIDs{}
	of := func(provider string) expectedIDs {
		if _, known := all[provider]; !known {
			all[provider] = expectedIDs{servers: map[string]bool{}, images: map[string]bool{}}
		}
		return all[provider]
	}
	for record := range records {
		switch r := record.(type) {
		case *resources.Node:
			served := r.State == resources.StateReady || r.State.IsInService()
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

// expect returns the expected IDs according to the records of the cache.
func (l *recordCache) expect() map[string]expectedIDs {
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
