package cloudkit

import (
	"maps"
	"sync"
)

// Table is a map that several goroutines use. Its zero value is an empty one.
type Table[K comparable, V any] struct {
	mu  sync.Mutex
	all map[K]V // guarded by mu
}

// Get returns the value of a key.
func (t *Table[K, V]) Get(key K) (V, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	value, ok := t.all[key]
	return value, ok
}

// Set stores the value of a key.
func (t *Table[K, V]) Set(key K, value V) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == nil {
		t.all = map[K]V{}
	}
	t.all[key] = value
}

// Delete removes a key.
func (t *Table[K, V]) Delete(key K) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.all, key)
}

// DeleteUnless removes the keys that keep does not accept.
func (t *Table[K, V]) DeleteUnless(keep func(K) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.all, func(key K, _ V) bool { return !keep(key) })
}

// Replace replaces all keys. The caller must not change all afterwards.
func (t *Table[K, V]) Replace(all map[K]V) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = all
}
