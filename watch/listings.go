package watch

import (
	"maps"
	"sync"

	"github.com/npctl/npctl/plan"
)

// listings holds the newest listing of each provider.
type listings struct {
	mu    sync.Mutex // guards views
	views map[string]plan.ProviderView
}

// of returns the newest listing of a provider, successful or not.
func (l *listings) of(provider string) (view plan.ProviderView, listed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	view, listed = l.views[provider]
	return view, listed
}

// set stores a listing and returns the previous one.
func (l *listings) set(provider string, view plan.ProviderView) (before plan.ProviderView) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before = l.views[provider]
	l.views[provider] = view
	return before
}

func (l *listings) remove(provider string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.views, provider)
}

// all returns a copy of the listings by provider.
func (l *listings) all() map[string]plan.ProviderView {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.views)
}
