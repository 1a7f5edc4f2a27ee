package drivers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/resources"
)

// CacheAge is how long drivers keep the lists that resolve names, such as flavors and networks, which operators change a
// few times a year.
const CacheAge = 10 * time.Minute

const (
	missingAge = 10 * time.Second // a name that is missing is looked up again unless the list is younger
	fetchLimit = time.Minute      // ends a fetch that several callers share
)

// Names keeps one list of a cloud, such as its flavors. Concurrent callers share one fetch.
type Names[T any] struct {
	Fetch func(context.Context) ([]T, error)

	flight singleflight.Group

	mu      sync.Mutex // guards the fields below
	items   []T
	fetched time.Time // zero means never
}

// Get returns the list, at most CacheAge old. The caller must not change it.
func (n *Names[T]) Get(ctx context.Context) ([]T, error) { return n.get(ctx, CacheAge) }

func (n *Names[T]) get(ctx context.Context, age time.Duration) ([]T, error) {
	if items, ok := n.kept(age); ok {
		return items, nil
	}
	done := n.flight.DoChan("", func() (any, error) {
		if items, ok := n.kept(age); ok {
			return items, nil
		}
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchLimit) // a cancelled caller must not fail the others
		defer cancel()
		items, err := n.Fetch(limited)
		if err != nil {
			return nil, err
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		n.items, n.fetched = items, time.Now()
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

func (n *Names[T]) kept(age time.Duration) ([]T, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.fetched.IsZero() || time.Since(n.fetched) > age {
		return nil, false
	}
	return n.items, true
}

// Drop forgets the list.
func (n *Names[T]) Drop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fetched = time.Time{}
}

// List is a list of names in a catalogue: a *Names.
type List interface {
	export(ctx context.Context) (json.RawMessage, error)
	load(list json.RawMessage) error
}

func (n *Names[T]) export(ctx context.Context) (json.RawMessage, error) {
	items, err := n.Get(ctx)
	if err != nil {
		return nil, err
	}
	return json.Marshal(items)
}

func (n *Names[T]) load(list json.RawMessage) error {
	if len(list) == 0 {
		n.Fetch = func(context.Context) ([]T, error) { return nil, ErrNotInCatalogue }
		return nil
	}
	var items []T
	if err := json.Unmarshal(list, &items); err != nil {
		return err
	}
	n.Fetch = func(context.Context) ([]T, error) { return items, nil }
	return nil
}

// ErrNotInCatalogue: the catalogue lacks a list that a name is looked up in.
var ErrNotInCatalogue = errors.New("not in the catalogue")

// Catalogue returns lists as a catalogue, by their kind. It omits lists that the cloud refuses, for example since it lacks the service.
func Catalogue(ctx context.Context, lists map[string]List) (resources.Catalogue, error) {
	names := resources.Catalogue{}
	for kind, list := range lists {
		content, err := list.export(ctx)
		switch {
		case errors.Is(err, ErrRejected):
		case err != nil:
			return nil, fmt.Errorf("%s: %w", kind, err)
		default:
			names[kind] = content
		}
	}
	return names, nil
}

// LoadCatalogue makes lists return the names of a catalogue, or ErrNotInCatalogue.
func LoadCatalogue(names resources.Catalogue, lists map[string]List) error {
	for kind, list := range lists {
		if err := list.load(names[kind]); err != nil {
			return fmt.Errorf("catalogue: %s: %w", kind, err)
		}
	}
	return nil
}

// Search applies choose to the list, and to a new list if it finds nothing. It also returns the list.
func Search[T, R any](ctx context.Context, n *Names[T], choose func([]T) (R, bool)) (chosen R, list []T, found bool, err error) {
	for _, age := range []time.Duration{CacheAge, missingAge} {
		if list, err = n.get(ctx, age); err != nil {
			return chosen, nil, false, err
		}
		if chosen, found = choose(list); found {
			return chosen, list, true, nil
		}
	}
	return chosen, list, false, nil
}

// FindAll returns the items of a list that the configuration names, in the order of the names; is compares an item with a name.
// The error joins an UnknownName for each name without an item, which suggests names of other items.
func FindAll[T any](ctx context.Context, n *Names[T], attribute, detail string, wanted []string, is func(T, string) bool, nameOf func(T) string) (found []T, err error) {
	var unknown []error
	for _, name := range wanted {
		one, all, ok, err := Search(ctx, n, func(all []T) (one T, ok bool) {
			if i := slices.IndexFunc(all, func(t T) bool { return is(t, name) }); i >= 0 {
				return all[i], true
			}
			return one, false
		})
		switch {
		case err != nil:
			return nil, err
		case !ok:
			unknown = append(unknown, &UnknownName{attribute, name, detail, Suggestions(name, NamesOf(all, nameOf))})
		default:
			found = append(found, one)
		}
	}
	return found, errors.Join(unknown...)
}

// CheckNames returns an UnknownName for each name that is not in a list.
func CheckNames(ctx context.Context, n *Names[string], attribute, detail string, wanted ...string) error {
	_, err := FindAll(ctx, n, attribute, detail, wanted, func(a, b string) bool { return a == b }, func(name string) string { return name })
	return err
}

// NamesOf returns the names of items.
func NamesOf[T any](items []T, nameOf func(T) string) []string {
	names := make([]string, len(items))
	for i, item := range items {
		names[i] = nameOf(item)
	}
	return names
}

// UnknownName is an error in a name of the configuration that only the cloud can detect.
type UnknownName struct {
	Attribute, Value, Detail string
	Near                     []string // similar names that exist
}

// Error implements error.
func (u *UnknownName) Error() string {
	message := u.Attribute + " " + text.Quote(u.Value) + ": " + u.Detail
	if len(u.Near) > 0 {
		message += "; did you mean " + strings.Join(u.Near, ", ") + "?"
	}
	return message
}

// Unwrap makes the error an ErrRejected.
func (u *UnknownName) Unwrap() error { return ErrRejected }

// NothingDone implements NothingDone.
func (u *UnknownName) NothingDone() bool { return true }

// ProblemsIn separates the errors of a lookup, which may be joined: unknown names are problems, all others are errors.
func ProblemsIn(err error) ([]resources.Problem, error) {
	if err == nil {
		return nil, nil
	}
	if several, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // the joined errors are separated one by one
		var problems []resources.Problem
		for _, e := range several.Unwrap() {
			found, err := ProblemsIn(e)
			if err != nil {
				return nil, err
			}
			problems = append(problems, found...)
		}
		return problems, nil
	}
	var one *UnknownName
	if !errors.As(err, &one) {
		return nil, err
	}
	return []resources.Problem{{Attribute: one.Attribute, Value: one.Value, Detail: one.Detail, Suggestions: one.Near}}, nil
}

// Suggestions returns at most five names that are similar to name, the most similar first: similar spellings, then names
// that contain name or are contained in it.
func Suggestions(name string, names []string) []string {
	const most = 5
	low := strings.ToLower(name)
	var around []string
	for _, n := range names {
		if other := strings.ToLower(n); low != "" && n != "" && (strings.Contains(other, low) || strings.Contains(low, other)) {
			around = append(around, n)
		}
	}
	slices.Sort(around)
	result := text.Near(name, names)
	for _, n := range around {
		if !slices.Contains(result, n) {
			result = append(result, n)
		}
	}
	return result[:min(len(result), most)]
}
