package emulator

import (
	"encoding/json"
	"iter"
	"slices"
	"sort"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// base holds the fields of all objects in the cloud.
type base struct {
	ID      string    `json:"id"`
	Project string    `json:"project"`
	Seq     uint64    `json:"seq"` // order of creation; also the order of lists
	Created time.Time `json:"created"`
	Updated time.Time `json:"updated"`

	// The other fields are the effects of faults on the visibility of an object.
	ListedFrom  time.Time `json:"appears,omitzero"` // a late effect: it does not exist before
	Listed      time.Time `json:"listed,omitzero"`  // lists omit it before
	Gone        bool      `json:"gone,omitempty"`   // deleted
	ListedUntil time.Time `json:"lingers,omitzero"` // lists include it until then
}

func (b *base) meta() *base { return b }

// exists reports whether a request for the object finds it.
func (b *base) exists(now time.Time) bool { return !b.Gone && !now.Before(b.ListedFrom) }

// listed reports whether lists show the object.
func (b *base) listed(now time.Time) bool {
	if b.Gone {
		return now.Before(b.ListedUntil)
	}
	return !now.Before(b.ListedFrom) && !now.Before(b.Listed)
}

type object interface{ meta() *base }

// table holds objects of one type in the order of creation.
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

// get returns an object if it exists for the caller.
func (t *table[T]) get(id string, now time.Time) (T, bool) {
	row, ok := t.byID[id]
	if !ok || !row.meta().exists(now) {
		var none T
		return none, false
	}
	return row, true
}

// index returns the position of a row by its sequence number.
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

// oldestFirst iterates over the objects that lists include.
func (t *table[T]) oldestFirst(now time.Time) iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, row := range t.rows {
			if row.meta().listed(now) && !yield(row) {
				return
			}
		}
	}
}

// newestFirst iterates over the objects that lists include, in the default order of nova and glance.
func (t *table[T]) newestFirst(now time.Time) iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, row := range slices.Backward(t.rows) {
			if row.meta().listed(now) && !yield(row) {
				return
			}
		}
	}
}

// MarshalJSONTo writes the rows into the encoder of the state: MarshalJSON would create a separate text and copy it.
func (t table[T]) MarshalJSONTo(enc *jsontext.Encoder) error {
	if t.rows == nil {
		return enc.WriteValue(jsontext.Value("[]"))
	}
	return jsonv2.MarshalEncode(enc, t.rows)
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
