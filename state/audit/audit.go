// Package audit writes the records of operations that change the fleet, its records or the configuration in force.
package audit

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// Commit writes to the store, as state.Store.Commit does.
type Commit func(ctx context.Context, ops ...state.Op) ([]state.Entry, error)

// Limits of one record.
const (
	maxWords = 50  // objects and overrides; the last one says how many there are beside them
	maxText  = 500 // characters of each of them, and of an error or a summary
)

// endTimeout is the time for writing the result of an operation that was interrupted.
const endTimeout = 10 * time.Second

// Operation is an operation that has begun.
type Operation struct {
	commit   Commit
	record   resources.Audit
	revision state.Revision
}

// Begin writes the record of an operation, before its first effect. Without the record, the operation must not take place.
func Begin(ctx context.Context, commit Commit, record resources.Audit) (*Operation, error) {
	record.Objects, record.Overrides = limited(record.Objects), limited(record.Overrides)
	o := &Operation{commit: commit, record: record}
	return o, o.write(ctx)
}

// Plan adds the digests of the configuration and of the plan, and a summary of the plan. They are written by End.
func (o *Operation) Plan(configuration resources.Hash, plan, summary string) {
	o.record.Configuration, o.record.Plan, o.record.Summary = configuration, plan, summary
}

// End adds the result of the operation, also if ctx is done.
func (o *Operation) End(ctx context.Context, now time.Time, result resources.AuditResult, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	o.record.Result, o.record.Seconds = result, now.Sub(o.record.Time).Seconds()
	if err != nil {
		o.record.Error, _, _ = strings.Cut(err.Error(), "\n")
	}
	return o.write(ctx)
}

func (o *Operation) write(ctx context.Context) error {
	record := o.record
	record.Actor, record.Summary, record.Error = text.Shorten(record.Actor, maxText), text.Shorten(record.Summary, maxText), text.Shorten(record.Error, maxText)
	entries, err := o.commit(ctx, state.Op{Record: &record, Revision: o.revision})
	if err != nil {
		return fmt.Errorf("write the audit record: %w", err)
	}
	o.record.ID, o.revision = entries[0].Record.Key().ID, entries[0].Revision
	return nil
}

// List returns the records after the one with an ID, oldest first.
func List(ctx context.Context, store state.Store, after string) ([]*resources.Audit, error) {
	entries, err := store.List(ctx, resources.KindAudit)
	var found []*resources.Audit
	for _, e := range entries {
		if r := e.Record.(*resources.Audit); r.ID > after {
			found = append(found, r)
		}
	}
	return found, err
}

// limited shortens words, and a list of too many.
func limited(words []string) (some []string) {
	for i, word := range words {
		if i == maxWords {
			return append(some, fmt.Sprintf("and %d more", len(words)-maxWords))
		}
		some = append(some, text.Shorten(word, maxText))
	}
	return some
}
