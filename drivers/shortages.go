package drivers

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/npctl/npctl/resources"
)

// Shortages remembers what had no capacity lately: the types of instances of an offer with several of them, for a driver, and
// the zones of an offer. The next instance tries these last, and does not skip them: capacity may return at any time. The zero
// value is usable.
type Shortages struct {
	mu    sync.Mutex
	since map[shortage]time.Time // guarded by mu
}

// shortage is a lack of capacity of a type of instances or a zone. Its scope is the zone and market of a type, or the offer of a
// zone: elsewhere the same name may have capacity.
type shortage struct{ scope, name string }

// ShortageTime is how long a shortage counts.
const ShortageTime = 5 * time.Minute

// Add notes that name has no capacity in the scope now.
func (s *Shortages) Add(scope, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.since == nil {
		s.since = map[shortage]time.Time{}
	}
	s.since[shortage{scope, strings.ToLower(name)}] = time.Now()
}

// Remove notes that name has capacity in the scope.
func (s *Shortages) Remove(scope, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.since, shortage{scope, strings.ToLower(name)})
}

// Order returns the names in their order, with those that have no capacity in the scope at the end.
func (s *Shortages) Order(scope string, names []string) []string {
	return inOrder(s, scope, names, func(name string) string { return name })
}

func inOrder[T any](s *Shortages, scope string, all []T, nameOf func(T) string) []T {
	s.mu.Lock()
	defer s.mu.Unlock()
	isShort := func(one T) int {
		if time.Since(s.since[shortage{scope, strings.ToLower(nameOf(one))}]) < ShortageTime {
			return 1
		}
		return 0
	}
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b T) int { return isShort(a) - isShort(b) })
	return all
}

// CreateFirst is Cloud.Create for an offer with several types of instances in order of preference. It calls create with one
// type after the other while the cloud has no capacity or quota for them: the quota of one type says nothing about another. If
// none succeeds, the error is that of a type without capacity, since another zone may have some, or else that of the last one.
func CreateFirst[T any](s *Shortages, scope string, types []T, nameOf func(T) string, create func(T) (resources.Instance, error)) (resources.Instance, error) {
	result := Rejectf("the offer has no type of instances")
	var tried []string
	for _, one := range inOrder(s, scope, types, nameOf) {
		made, err := create(one)
		if err == nil {
			s.Remove(scope, nameOf(one))
			return made, nil
		}
		tried = append(tried, nameOf(one))
		isShort := errors.Is(err, ErrCapacity)
		if isShort {
			s.Add(scope, nameOf(one))
		}
		if !isShort && !errors.Is(err, ErrQuota) {
			result = err
			break
		}
		if isShort || !errors.Is(result, ErrCapacity) {
			result = err
		}
	}
	if len(tried) > 1 {
		result = fmt.Errorf("%w (tried %s)", result, strings.Join(tried, ", "))
	}
	return resources.Instance{}, result
}
