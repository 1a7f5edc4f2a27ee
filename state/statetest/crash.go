package statetest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// The crash test of a store runs CrashWriter in a separate process, kills the process at any moment, and calls
// CrashCheck with its output. Both may be repeated on the same store.

// CrashWriter commits until ctx is done or a commit fails. It prints the number of each commit after Commit has
// returned. Every commit increments a number in two records and replaces a third record with a new one.
func CrashWriter(ctx context.Context, s state.Store, printed io.Writer) error {
	pair, extra, err := crashRecords(ctx, s)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		ops := []state.Op{{Record: Node(1)}}
		for _, entry := range extra {
			ops = append(ops, state.Op{Key: entry.Record.Key(), Revision: entry.Revision})
		}
		var number int64
		for _, entry := range pair {
			h := entry.Record.(*resources.History)
			h.Seconds[0]++
			number = int64(h.Seconds[0])
			ops = append(ops, state.Op{Record: h, Revision: entry.Revision})
		}
		entries, err := s.Commit(ctx, ops...)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(printed, number); err != nil {
			return err
		}
		extra, pair = entries[:1], entries[len(entries)-2:]
	}
	return ctx.Err()
}

// CrashCheck returns an error if a printed commit is missing, if a commit is incomplete, or if the store has more than
// one commit that was not printed. It returns the number of the last commit.
func CrashCheck(ctx context.Context, s state.Store, printed io.Reader) (int64, error) {
	var acknowledged int64
	for lines := bufio.NewScanner(printed); lines.Scan(); {
		number, err := strconv.ParseInt(lines.Text(), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("printed: %w", err)
		}
		acknowledged = number
	}
	pair, extra, err := crashRecords(ctx, s)
	if err != nil {
		return 0, err
	}
	one, two := int64(pair[0].Record.(*resources.History).Seconds[0]), int64(pair[1].Record.(*resources.History).Seconds[0])
	switch {
	case one != two:
		return 0, fmt.Errorf("half a commit: %d in one record, %d in the other", one, two)
	case acknowledged > 0 && one < acknowledged:
		return 0, fmt.Errorf("commit %d was acknowledged, the newest there is %d", acknowledged, one)
	case acknowledged > 0 && one > acknowledged+1:
		return 0, fmt.Errorf("commit %d was the last acknowledged, and there is %d", acknowledged, one)
	case one > 0 && len(extra) != 1:
		return 0, fmt.Errorf("half a commit: %d records where each commit leaves one", len(extra))
	}
	return one, nil
}

// crashRecords returns the two records with the number, which it creates if needed, and all other records.
func crashRecords(ctx context.Context, s state.Store) (pair, extra []state.Entry, err error) {
	for _, subject := range []string{"crash/one", "crash/two"} {
		entry, err := s.Get(ctx, resources.Key{Kind: resources.KindHistory, ID: subject})
		if errors.Is(err, state.ErrNotFound) {
			var entries []state.Entry
			entries, err = s.Commit(ctx, state.Op{Record: &resources.History{Subject: subject, Seconds: []float64{0}}})
			if err == nil {
				entry = entries[0]
			}
		}
		if err != nil {
			return nil, nil, err
		}
		pair = append(pair, entry)
	}
	extra, err = s.List(ctx, resources.KindNode)
	return pair, extra, err
}
