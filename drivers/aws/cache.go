package aws

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// The validity of cached lists of names. A name that is missing is looked up again unless the list is younger than
// missingAge.
const (
	cacheAge   = 10 * time.Minute
	missingAge = 10 * time.Second
)

// cache keeps one list of the cloud. Concurrent callers share one fetch.
type cache[T any] struct {
	fetch  func(context.Context) ([]T, error)
	flight singleflight.Group

	mu      sync.Mutex
	items   []T       // guarded by mu
	fetched time.Time // guarded by mu; zero means never
}

// get returns the list, and fetches it again if it is older than age. The end of one caller's context does not
// fail the others: the decorator of calls limits their time.
func (c *cache[T]) get(ctx context.Context, age time.Duration) ([]T, error) {
	if items, ok := c.kept(age); ok {
		return items, nil
	}
	done := c.flight.DoChan("", func() (any, error) {
		if items, ok := c.kept(age); ok {
			return items, nil
		}
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchLimit)
		defer cancel()
		items, err := c.fetch(limited)
		if err == nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.items, c.fetched = items, time.Now()
		}
		return items, err
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

// fetchLimit ends a fetch that several callers share.
const fetchLimit = time.Minute

func (c *cache[T]) kept(age time.Duration) ([]T, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fetched.IsZero() || time.Since(c.fetched) > age {
		return nil, false
	}
	return c.items, true
}

// find returns the first item for which match is true, from a new list if the kept one has none.
func (c *cache[T]) find(ctx context.Context, match func(T) bool) (item T, all []T, found bool, err error) {
	for _, age := range []time.Duration{cacheAge, missingAge} {
		if all, err = c.get(ctx, age); err != nil {
			return item, nil, false, err
		}
		for _, i := range all {
			if match(i) {
				return i, all, true, nil
			}
		}
	}
	return item, all, false, nil
}
