package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// commitTimeout bounds one commit. Results are written even while everything is being cancelled: a deed without its
// result would have to be found out again.
const commitTimeout = 30 * time.Second

// ledger is the executor's view of the store: the newest revision of every record it knows.
type ledger struct {
	store  state.Store
	claims *claims

	mu        sync.Mutex // guards the maps
	revisions map[resources.Key]state.Revision
	records   map[resources.Key]resources.Record
	sorted    plan.Records             // the same once more, as plans have them
	busy      map[resources.Key]string // records that a running step works on, and its id
	arrivals  arrivals

	changed chan struct{} // gets a hint after records have changed
}

func openLedger(ctx context.Context, store state.Store) (*ledger, error) {
	entries, err := store.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("read state: %w", err)
	}
	l := &ledger{store: store, claims: newClaims(store), revisions: map[resources.Key]state.Revision{}, records: map[resources.Key]resources.Record{},
		busy: map[resources.Key]string{}, arrivals: arrivals{open: map[uint64][]resources.Key{}}, changed: make(chan struct{}, 1)}
	for _, entry := range entries {
		l.keep(entry)
	}
	return l, nil
}

func (l *ledger) keep(entry state.Entry) {
	key := entry.Record.Key()
	l.revisions[key] = entry.Revision
	l.records[key] = entry.Record
	l.sorted.Put(entry.Record, uint64(entry.Revision))
}

// lose drops a record. The caller holds mu.
func (l *ledger) lose(key resources.Key) {
	delete(l.revisions, key)
	delete(l.records, key)
	l.sorted.Drop(key)
}

// keepNewest keeps an entry, or what others have made of it since, which catchUp may have taken over already.
func (l *ledger) keepNewest(ctx context.Context, entry state.Entry) {
	if l.claims.store != nil && owned(entry.Record) {
		now, err := l.store.Get(ctx, entry.Record.Key()) // answered from what the store knows, which is no older
		if errors.Is(err, state.ErrNotFound) {
			l.lose(entry.Record.Key())
			return
		}
		if err == nil && now.Revision > entry.Revision {
			entry = now
		}
	}
	l.keep(entry)
}

// know takes over an entry that was written without the ledger.
func (l *ledger) know(ctx context.Context, entry state.Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.revisions[entry.Record.Key()] < entry.Revision {
		l.keepNewest(ctx, entry)
		l.hint()
	}
}

// hint says that something has changed, to whoever listens.
func (l *ledger) hint() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// put writes records, all or none. New uploads and nodes get their ids.
func (l *ledger) put(ctx context.Context, records ...resources.Record) error {
	return l.putFor(ctx, "", records...)
}

// exchange is put in place of records that go.
func (l *ledger) exchange(ctx context.Context, gone []resources.Key, records ...resources.Record) error {
	ops := l.ops(records)
	l.mu.Lock()
	for _, key := range gone {
		ops = append(ops, state.Op{Key: key, Revision: l.revisions[key]})
	}
	l.mu.Unlock()
	_, err := l.commit(ctx, "", ops)
	return err
}

func (l *ledger) ops(records []resources.Record) []state.Op {
	l.mu.Lock()
	defer l.mu.Unlock()
	ops := make([]state.Op, len(records))
	for i, r := range records {
		_, same := r.(*resources.Template) // named by its content, so writing it twice changes nothing
		ops[i] = state.Op{Record: r, Revision: l.revisions[r.Key()], Force: same}
	}
	return ops
}

// claim writes the record of a node that was read at that revision, and claims it for a step.
func (l *ledger) claim(ctx context.Context, step string, node *resources.Node, at state.Revision) error {
	op, err := l.claims.claiming(step, state.Op{Record: node, Revision: at})
	if err != nil {
		return err
	}
	_, err = l.commit(ctx, step, []state.Op{op})
	return err
}

// putLast writes the record of a node and gives back the claim of it: the last that a step does with it.
func (l *ledger) putLast(ctx context.Context, node *resources.Node) error {
	op := l.ops([]resources.Record{node})[0]
	op.Release = l.claims.store != nil
	_, err := l.commit(ctx, "", []state.Op{op})
	return err
}

// putFor writes records of a step. Until the step is over nobody plans anything for them. New builds and uploads are claimed.
func (l *ledger) putFor(ctx context.Context, step string, records ...resources.Record) error {
	ops := l.ops(records)
	entries, err := l.commit(ctx, step, ops)
	if err != nil || step == "" || l.claims.store == nil {
		return err
	}
	for i, op := range ops {
		if op.Revision != 0 || !owned(op.Record) || op.Record.Key().Kind == resources.KindNode {
			continue
		}
		entry, err := l.claims.take(ctx, step, entries[i].Record.Key())
		if err != nil {
			return err
		}
		l.know(ctx, entry)
	}
	return nil
}

// replace writes records that were read at those revisions, all or none. When a client has changed one meanwhile, nothing
// is written and the error is errChanged.
func (l *ledger) replace(ctx context.Context, ops ...state.Op) error {
	_, err := l.commit(ctx, "", ops)
	if errors.Is(err, state.ErrConflict) && !errors.Is(err, errChanged) {
		return fmt.Errorf("%w: %w", errChanged, err)
	}
	return err
}

// drop removes records, all or none. Records that are not there are no error.
func (l *ledger) drop(ctx context.Context, keys ...resources.Key) error {
	l.mu.Lock()
	var ops []state.Op
	for _, key := range keys {
		if revision, ok := l.revisions[key]; ok {
			// templates are written without looking at the revision, so ours may not be the newest
			ops = append(ops, state.Op{Key: key, Revision: revision, Force: key.Kind == resources.KindTemplate})
		}
	}
	l.mu.Unlock()
	if len(ops) == 0 {
		return nil
	}
	_, err := l.commit(ctx, "", ops)
	return err
}

func (l *ledger) commit(ctx context.Context, step string, ops []state.Op) ([]state.Entry, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	number := l.begin(step, ops)
	entries, err := l.store.Commit(ctx, ops...)
	if err != nil {
		l.end(ctx, number)
		err = fmt.Errorf("record the step: %w", err)
		if l.claims.store != nil && errors.Is(err, state.ErrConflict) {
			l.refresh(ctx, ops)
			return nil, fmt.Errorf("%w: %w", errChanged, err)
		}
		return nil, err
	}
	if l.claims.store != nil {
		l.claims.committed(ctx, step, ops, entries)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, op := range ops {
		if op.Record == nil {
			l.lose(op.Key)
			continue
		}
		l.keepNewest(ctx, entries[i])
		if step != "" && owned(op.Record) {
			l.busy[entries[i].Record.Key()] = step
		}
	}
	l.settle(ctx, number)
	l.hint()
	return entries, nil
}

// begin takes down a commit that others may see before it returns, and which records the step is the only one to work on.
func (l *ledger) begin(step string, ops []state.Op) (number uint64) {
	if l.claims.store == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, op := range ops {
		if step != "" && op.Record != nil && op.Record.Key().ID != "" && owned(op.Record) {
			l.busy[op.Record.Key()] = step
		}
	}
	return l.arrivals.begin(ops)
}

// end takes over what has waited for a commit, which has failed.
func (l *ledger) end(ctx context.Context, number uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settle(ctx, number)
	l.hint()
}

func (l *ledger) settle(ctx context.Context, number uint64) {
	for _, w := range l.arrivals.end(number) {
		l.arrive(ctx, w)
	}
}

// owned says of which records a step is the only one to work on.
func owned(r resources.Record) bool {
	switch r.Key().Kind {
	case resources.KindNode, resources.KindBuild, resources.KindUpload, resources.KindRequest:
		return true
	default:
		return false
	}
}

// hold marks a record as being worked on by a step.
func (l *ledger) hold(step string, key resources.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy[key] = step
}

// release ends a step's work on its records.
func (l *ledger) release(step string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := len(l.busy)
	maps.DeleteFunc(l.busy, func(_ resources.Key, by string) bool { return by == step })
	if len(l.busy) != before {
		l.hint()
	}
}

// snapshot returns all records and which of them are being worked on, as of one moment.
func (l *ledger) snapshot() (plan.Records, map[resources.Key]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	busy := make(map[resources.Key]bool, len(l.busy))
	for key := range l.busy {
		busy[key] = true
	}
	return l.sorted.Clone(), busy
}

// get returns a copy of a record of type T that may be changed and put.
func get[T any](l *ledger, key resources.Key) (*T, bool) {
	record, _ := find[T](l, key)
	return record, record != nil
}

// find is get with the revision of the record; nil when there is no such record.
func find[T any](l *ledger, key resources.Key) (*T, state.Revision) {
	l.mu.Lock()
	defer l.mu.Unlock()
	record, ok := any(l.records[key]).(*T)
	if !ok || record == nil {
		return nil, 0
	}
	c := *record
	return &c, l.revisions[key]
}

// all returns copies of every record of type T.
func all[T any](l *ledger) []*T {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []*T
	for _, r := range l.records {
		if record, ok := any(r).(*T); ok {
			c := *record
			found = append(found, &c)
		}
	}
	return found
}
