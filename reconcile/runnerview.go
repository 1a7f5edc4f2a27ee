package reconcile

import (
	"fmt"
	"slices"
	"time"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// failingKept is how long the failure of a step is remembered after the step was last tried.
const failingKept = time.Hour

// instanceDeletion holds when a step started and completed the deletion of an instance.
type instanceDeletion struct{ began, ended time.Time }

// Lookup returns a copy of a record, as of the runner's newest commit, and its revision.
func Lookup[T any](r *Runner, kind resources.Kind, id string) (*T, state.Revision, error) {
	key := resources.Key{Kind: kind, ID: id}
	record, revision := find[T](r.cache, key)
	if record == nil {
		return nil, 0, fmt.Errorf("%s: %w", key, state.ErrNotFound)
	}
	return record, revision, nil
}

// OpenRequests returns the number of requests that have neither failed nor been taken.
func (r *Runner) OpenRequests() (open int) {
	r.cache.mu.Lock()
	defer r.cache.mu.Unlock()
	for _, request := range r.cache.sorted.Requests {
		if request.State != resources.StateFailed {
			open++
		}
	}
	return open
}

// ProviderRecords lists the records of providers. The caller must not change them.
func (r *Runner) ProviderRecords() []*resources.ProviderRecord {
	r.cache.mu.Lock()
	defer r.cache.mu.Unlock()
	return slices.Clone(r.cache.sorted.Providers)
}

// LastPostponed returns when a launch in the provider was last postponed because the provider did not respond. It is
// zero if the provider has responded to a launch since.
func (r *Runner) LastPostponed(provider string) (last time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f := r.launching[plan.ProviderAddress(provider)]; f != nil && f.Kind == resources.FaultUnavailable {
		last = f.Time
	}
	return last
}

// Busy reports whether a step works on a record.
func (r *Runner) Busy(key resources.Key) bool {
	r.cache.mu.Lock()
	defer r.cache.mu.Unlock()
	return r.cache.busy[key] != ""
}
