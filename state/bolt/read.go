package bolt

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"

	"go.etcd.io/bbolt"
	"golang.org/x/sync/errgroup"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// Get implements state.Store.
func (s *Store) Get(ctx context.Context, key resources.Key) (state.Entry, error) {
	var value []byte
	err := s.view(ctx, func(tx *bbolt.Tx, _ *head) error {
		if bucket := kindBucket(tx, key.Kind); bucket != nil {
			value = slices.Clone(bucket.Get([]byte(key.ID)))
		}
		return nil
	})
	if err != nil {
		return state.Entry{}, err
	}
	if value == nil {
		return state.Entry{}, fmt.Errorf("%s: %w", key, state.ErrNotFound)
	}
	entry, err := sealed{key.Kind, key.ID, value}.entry()
	return entry, s.wrap("read", err)
}

// List implements state.Store. Kinds come in the order of resources.Kinds, whatever the order of the arguments.
func (s *Store) List(ctx context.Context, kinds ...resources.Kind) ([]state.Entry, error) {
	if err := knownKinds(kinds); err != nil {
		return nil, fmt.Errorf("list records: %w", err)
	}
	var values []sealed
	err := s.view(ctx, func(tx *bbolt.Tx, h *head) error {
		for _, kind := range resources.Kinds() {
			if len(kinds) > 0 && !slices.Contains(kinds, kind) {
				continue
			}
			before := len(values)
			if bucket := kindBucket(tx, kind); bucket != nil {
				values = collect(values, kind, bucket)
			}
			if got := len(values) - before; got != h.Counts[kind] {
				return damage("it has %d records of kind %s where %d were written", got, kind, h.Counts[kind])
			}
		}
		detach(values)
		return nil
	})
	if err != nil {
		return nil, err
	}
	entries, err := decodeAll(ctx, values)
	return entries, s.wrap("read", err)
}

func knownKinds(kinds []resources.Kind) error {
	for _, kind := range kinds {
		if resources.NewRecord(kind) == nil {
			return refuse("there is no kind of record called %q", kind)
		}
	}
	return nil
}

func kindBucket(tx *bbolt.Tx, kind resources.Kind) *bbolt.Bucket {
	records := tx.Bucket(recordsBucket)
	if records == nil || kind == "" {
		return nil
	}
	return records.Bucket([]byte(kind))
}

// collect appends the bucket's values, which point into the file still.
func collect(values []sealed, kind resources.Kind, bucket *bbolt.Bucket) []sealed {
	cursor := bucket.Cursor()
	for k, v := cursor.First(); k != nil; k, v = cursor.Next() {
		values = append(values, sealed{kind, string(k), v})
	}
	return values
}

// detach copies the values out of the file into one piece of memory, so that they outlive the transaction.
func detach(values []sealed) {
	size := 0
	for _, v := range values {
		size += len(v.value)
	}
	arena := make([]byte, 0, size)
	for i, v := range values {
		from := len(arena)
		arena = append(arena, v.value...)
		values[i].value = arena[from:len(arena):len(arena)]
	}
}

// decodeAll decodes on all processors, after the file was closed: decoding takes longer than reading.
func decodeAll(ctx context.Context, values []sealed) ([]state.Entry, error) {
	const chunk = 64
	entries := make([]state.Entry, len(values))
	var next atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range min(runtime.GOMAXPROCS(0), len(values)/chunk+1) {
		group.Go(func() error {
			for {
				from := int(next.Add(chunk)) - chunk
				if from >= len(values) {
					return nil
				}
				to := min(from+chunk, len(values))
				if err := errors.Join(ctx.Err(), decodeSome(entries[from:to], values[from:to])); err != nil {
					return err
				}
			}
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return entries, nil
}

func decodeSome(entries []state.Entry, values []sealed) error {
	for i, v := range values {
		entry, err := v.entry()
		if err != nil {
			return err
		}
		entries[i] = entry
	}
	return nil
}
