package openstack

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// How long lists of names are believed. Flavors and networks change by hand, a few times a year; a name that is not
// in a list is looked up anew unless the list is very young, so that what an operator has just made is found.
const (
	cacheAge   = 10 * time.Minute
	missingAge = 10 * time.Second
)

// cache keeps one list of the cloud. Callers that need it at the same time share one call.
type cache[T any] struct {
	fetch func(context.Context) ([]T, error)

	flight singleflight.Group

	mu      sync.Mutex
	items   []T       // guarded by mu
	fetched time.Time // guarded by mu; zero means never
}

// get returns the list, fetched anew when it is older than age.
func (c *cache[T]) get(ctx context.Context, age time.Duration) ([]T, error) {
	if items, ok := c.kept(age); ok {
		return items, nil
	}
	done := c.flight.DoChan("", func() (any, error) {
		if items, ok := c.kept(age); ok {
			return items, nil
		}
		// One caller's end must not fail the others; the transport bounds the call.
		items, err := c.fetch(context.WithoutCancel(ctx))
		if err != nil {
			return nil, err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.items, c.fetched = items, time.Now()
		return items, nil
	})
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case result := <-done:
		if result.Err != nil {
			return nil, result.Err
		}
		return result.Val.([]T), nil
	}
}

func (c *cache[T]) kept(age time.Duration) ([]T, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fetched.IsZero() || time.Since(c.fetched) > age {
		return nil, false
	}
	return c.items, true
}

func (c *cache[T]) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fetched = time.Time{}
}

// search applies a choice to the list, and to a fresh one when it finds nothing.
func search[T, R any](ctx context.Context, c *cache[T], choose func([]T) (R, bool)) (R, []T, bool, error) {
	var none R
	for _, age := range []time.Duration{cacheAge, missingAge} {
		items, err := c.get(ctx, age)
		if err != nil {
			return none, nil, false, err
		}
		if result, ok := choose(items); ok {
			return result, items, true, nil
		}
		if age == missingAge {
			return none, items, false, nil
		}
	}
	return none, nil, false, nil
}
