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
	var entry state.Entry
	err := s.view(ctx, func(tx *bbolt.Tx, _ *head) (err error) {
		if bucket := kindBucket(tx, key.Kind); bucket != nil {
			if value := bucket.Get([]byte(key.ID)); value != nil {
				entry, err = rawRecord{[]byte(key.Kind), []byte(key.ID), value}.entry()
			}
		}
		return err
	})
	if err == nil && entry.Record == nil {
		err = fmt.Errorf("%s: %w", key, state.ErrNotFound)
	}
	return entry, err
}

// List implements state.Store. The entries are in the order of resources.Kinds, regardless of the arguments.
func (s *Store) List(ctx context.Context, kinds ...resources.Kind) ([]state.Entry, error) {
	if err := state.CheckKinds(kinds); err != nil {
		return nil, err
	}
	var entries []state.Entry
	err := s.view(ctx, func(tx *bbolt.Tx, h *head) error {
		var values []rawRecord
		for _, kind := range resources.Kinds() {
			if len(kinds) > 0 && !slices.Contains(kinds, kind) {
				continue
			}
			before := len(values)
			if bucket := kindBucket(tx, kind); bucket != nil {
				values = collect(values, []byte(kind), bucket)
			}
			if err := h.checkCount(kind, len(values)-before); err != nil {
				return err
			}
		}
		var err error
		entries, err = s.decodeAll(ctx, values)
		return err
	})
	return entries, err
}

// checkCount returns an error if records were lost. npctl would treat the instance of a lost node record as a leak.
func (h *head) checkCount(kind resources.Kind, got int) error {
	if want := h.Counts[kind]; got != want {
		return damage("it has %d records of kind %s, and %d were written", got, kind, want)
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

// collect appends the records of the bucket.
func collect(values []rawRecord, kind []byte, bucket *bbolt.Bucket) []rawRecord {
	cursor := bucket.Cursor()
	for k, v := cursor.First(); k != nil; k, v = cursor.Next() {
		values = append(values, rawRecord{kind, k, v})
	}
	return values
}

// decodeAll decodes records on all processors, directly from the file. During these milliseconds for thousands of
// records other processes can read but not write. A copy of the records costs the time that it saves.
func (s *Store) decodeAll(ctx context.Context, values []rawRecord) ([]state.Entry, error) {
	const chunk = 64
	entries := make([]state.Entry, len(values))
	var next atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	work := func() error {
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
	}
	for range min(runtime.GOMAXPROCS(0), len(values)/chunk+1) {
		group.Go(func() error { return s.file.recoverPanic(work) })
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return entries, nil
}

func decodeSome(entries []state.Entry, values []rawRecord) error {
	for i, v := range values {
		entry, err := v.entry()
		if err != nil {
			return err
		}
		entries[i] = entry
	}
	return nil
}
