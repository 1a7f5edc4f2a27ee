package openstack

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// The validity of cached name lists. Operators change flavors and networks a few times a year. A name that is missing
// is looked up again unless the list is younger than missingAge, so that a new name is found.
const (
	cacheAge   = 10 * time.Minute
	missingAge = 10 * time.Second
)

// cache keeps one list of the cloud. Concurrent callers share one API call.
type cache[T any] struct {
	fetch func(context.Context) ([]T, error)

	flight singleflight.Group

	mu      sync.Mutex
	items   []T       // guarded by mu
	fetched time.Time // guarded by mu; zero means never
}

// get returns the list, and fetches it again if it is older than age.
func (c *cache[T]) get(ctx context.Context, age time.Duration) ([]T, error) {
	if items, ok := c.kept(age); ok {
		return items, nil
	}
	done := c.flight.DoChan("", func() (any, error) {
		if items, ok := c.kept(age); ok {
			return items, nil
		}
		// A cancelled caller must not fail the others; the transport limits the call.
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

// search applies choose to the list, and to a new list if it finds nothing.
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
