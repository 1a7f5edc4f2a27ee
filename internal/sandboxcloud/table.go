package sandboxcloud

import (
	"encoding/json"
	"iter"
	"slices"
	"sort"
	"time"
)

// base is what everything in the cloud has.
type base struct {
	ID      string    `json:"id"`
	Project string    `json:"project"`
	Seq     uint64    `json:"seq"` // order of making; also the order of lists
	Created time.Time `json:"created"`
	Updated time.Time `json:"updated"`

	// The rest is how faults bend the view of an object.
	Appears time.Time `json:"appears,omitzero"` // a late effect: it is not there at all before
	Listed  time.Time `json:"listed,omitzero"`  // lists do not show it before
	Gone    bool      `json:"gone,omitempty"`   // deleted, but
	Lingers time.Time `json:"lingers,omitzero"` // lists show it until then
}

func (b *base) meta() *base { return b }

// exists reports whether a request for the object finds it.
func (b *base) exists(now time.Time) bool { return !b.Gone && !now.Before(b.Appears) }

// listed reports whether lists show the object.
func (b *base) listed(now time.Time) bool {
	if b.Gone {
		return now.Before(b.Lingers)
	}
	return !now.Before(b.Appears) && !now.Before(b.Listed)
}

type object interface{ meta() *base }

// table holds objects of one type in the order of their making.
type table[T object] struct {
	rows []T
	byID map[string]T
}

func (t *table[T]) add(row T) {
	if t.byID == nil {
		t.byID = map[string]T{}
	}
	t.rows = append(t.rows, row)
	t.byID[row.meta().ID] = row
}

// get finds an object that exists for the caller.
func (t *table[T]) get(id string, now time.Time) (T, bool) {
	row, ok := t.byID[id]
	if !ok || !row.meta().exists(now) {
		var none T
		return none, false
	}
	return row, true
}

// index is the place of a row by its sequence number.
func (t *table[T]) index(seq uint64) int {
	return sort.Search(len(t.rows), func(i int) bool { return t.rows[i].meta().Seq >= seq })
}

func (t *table[T]) remove(id string) {
	row, ok := t.byID[id]
	if !ok {
		return
	}
	delete(t.byID, id)
	i := t.index(row.meta().Seq)
	t.rows = slices.Delete(t.rows, i, i+1)
}

// oldestFirst iterates over what lists show.
func (t *table[T]) oldestFirst(now time.Time) iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, row := range t.rows {
			if row.meta().listed(now) && !yield(row) {
				return
			}
		}
	}
}

// newestFirst iterates over what lists show, as nova and glance do by default.
func (t *table[T]) newestFirst(now time.Time) iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, row := range slices.Backward(t.rows) {
			if row.meta().listed(now) && !yield(row) {
				return
			}
		}
	}
}

// MarshalJSON writes the rows.
func (t table[T]) MarshalJSON() ([]byte, error) {
	if t.rows == nil {
		return []byte("[]"), nil
	}
	return json.Marshal(t.rows)
}

// UnmarshalJSON reads rows and indexes them.
func (t *table[T]) UnmarshalJSON(text []byte) error {
	var rows []T
	if err := json.Unmarshal(text, &rows); err != nil {
		return err
	}
	t.byID = make(map[string]T, len(rows))
	t.rows = rows
	for _, row := range rows {
		t.byID[row.meta().ID] = row
	}
	return nil
}
