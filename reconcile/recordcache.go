package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// commitTimeout bounds one commit. Results are written even after ctx is canceled: without its result, the effect of a
// step would have to be discovered again.
const commitTimeout = 30 * time.Second

// recordCache is the executor's copy of the store: the newest known revision of every record.
type recordCache struct {
	store  state.Store
	claims *claims

	mu        sync.Mutex // guards the maps
	revisions map[resources.Key]state.Revision
	records   map[resources.Key]resources.Record
	sorted    plan.Records             // the same records, as plans need them
	busy      map[resources.Key]string // records that a running step works on, and the ID of the step
	arrivals  deferredEvents

	changed chan struct{} // receives a value after records have changed
}

func newRecordCache(ctx context.Context, store state.Store) (*recordCache, error) {
	entries, err := store.List(ctx, resources.PlannedKinds()...)
	if err != nil {
		return nil, fmt.Errorf("read state: %w", err)
	}
	l := &recordCache{store: store, claims: newClaims(store), revisions: map[resources.Key]state.Revision{}, records: map[resources.Key]resources.Record{},
		busy: map[resources.Key]string{}, arrivals: deferredEvents{inFlight: map[uint64][]resources.Key{}}, changed: make(chan struct{}, 1)}
	for _, entry := range entries {
		l.setEntry(entry)
	}
	return l, nil
}

func (l *recordCache) setEntry(entry state.Entry) {
	key := entry.Record.Key()
	l.revisions[key] = entry.Revision
	l.records[key] = entry.Record
	l.sorted.Put(entry.Record, uint64(entry.Revision))
}

// deleteEntry removes a record from the cache. The caller holds mu.
func (l *recordCache) deleteEntry(key resources.Key) {
	delete(l.revisions, key)
	delete(l.records, key)
	l.sorted.Drop(key)
}

// setNewest stores an entry, or the newer revision that another process has written since and catchUp may have applied
// already.
func (l *recordCache) setNewest(ctx context.Context, entry state.Entry) {
	if l.claims.store != nil && stepOwns(entry.Record) {
		now, err := l.store.Get(ctx, entry.Record.Key()) // answered from the store's copy, which is no older than entry
		if errors.Is(err, state.ErrNotFound) {
			l.deleteEntry(entry.Record.Key())
			return
		}
		if err == nil && now.Revision > entry.Revision {
			entry = now
		}
	}
	l.setEntry(entry)
}

// refreshEntry stores an entry that did not come from a commit of the cache, if it is newer than the cached one.
func (l *recordCache) refreshEntry(ctx context.Context, entry state.Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.revisions[entry.Record.Key()] < entry.Revision {
		l.setNewest(ctx, entry)
		l.notify()
	}
}

// notify signals a change to the receiver of changed.
func (l *recordCache) notify() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// put writes records, all or none. The store assigns the IDs of new uploads and nodes.
func (l *recordCache) put(ctx context.Context, records ...resources.Record) error {
	return l.putFor(ctx, "", records...)
}

// replaceAll is like put and also removes the records in gone.
func (l *recordCache) replaceAll(ctx context.Context, gone []resources.Key, records ...resources.Record) error {
	ops := l.ops(records)
	l.mu.Lock()
	for _, key := range gone {
		ops = append(ops, state.Op{Key: key, Revision: l.revisions[key]})
	}
	l.mu.Unlock()
	_, err := l.commit(ctx, "", ops)
	return err
}

func (l *recordCache) ops(records []resources.Record) []state.Op {
	l.mu.Lock()
	defer l.mu.Unlock()
	ops := make([]state.Op, len(records))
	for i, r := range records {
		ops[i] = state.Op{Record: r, Revision: l.revisions[r.Key()], Force: isForced(r.Key().Kind)}
	}
	return ops
}

// isForced reports whether records of a kind are written whatever their revision: a template is named by its content, and the
// result of a launch must not fail because a person has rejected or promoted the build at the same time.
func isForced(kind resources.Kind) bool {
	return kind == resources.KindTemplate || kind == resources.KindTrial
}

// claim writes the record of a node that was read at that revision, and claims it for a step, unless the step has claimed
// it already.
func (l *recordCache) claim(ctx context.Context, step string, node *resources.Node, at state.Revision) error {
	op := state.Op{Record: node, Revision: at}
	if l.claims.store != nil {
		l.claims.mu.Lock()
		mine := l.claims.held[node.Key()]
		l.claims.mu.Unlock()
		if mine != nil && (mine.step != step || step == "") {
			return fmt.Errorf("another step of this process works on %s: %w", node.Key(), errChanged)
		}
		op.Claim = mine == nil
	}
	_, err := l.commit(ctx, step, []state.Op{op})
	return err
}

// putFor writes records of a step. They are not planned for until the step ends. New builds and uploads are claimed in the
// same commit: the cleanup of another builder deletes a build or an upload in progress without a lock.
func (l *recordCache) putFor(ctx context.Context, step string, records ...resources.Record) error {
	ops := l.ops(records)
	for i := range ops {
		kind := ops[i].Record.Key().Kind
		ops[i].Claim = step != "" && ops[i].Revision == 0 && (kind == resources.KindBuild || kind == resources.KindUpload)
	}
	_, err := l.commit(ctx, step, ops)
	return err
}

// replace writes records that were read at the given revisions, all or none. If a client has changed one of them since,
// replace writes nothing and returns errChanged.
func (l *recordCache) replace(ctx context.Context, ops ...state.Op) error {
	_, err := l.commit(ctx, "", ops)
	if errors.Is(err, state.ErrConflict) && !errors.Is(err, errChanged) {
		return fmt.Errorf("%w: %w", errChanged, err)
	}
	return err
}

// moveUploads is like replace. renumbered has the index of the operation that gives a new ID to the upload with an ID; its
// nodes then refer to the new one.
func (l *recordCache) moveUploads(ctx context.Context, ops []state.Op, renumbered map[string]int) error {
	entries, err := l.commit(ctx, "", ops)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, record := range l.records {
		n, ok := record.(*resources.Node)
		if !ok {
			continue
		}
		if i, ok := renumbered[n.Upload]; ok {
			renamed := *n
			renamed.Upload = entries[i].Record.Key().ID
			l.setEntry(state.Entry{Record: &renamed, Revision: l.revisions[key]})
		}
	}
	return nil
}

// drop removes records, all or none. Missing records are not an error.
func (l *recordCache) drop(ctx context.Context, keys ...resources.Key) error {
	l.mu.Lock()
	var ops []state.Op
	for _, key := range keys {
		if revision, ok := l.revisions[key]; ok {
			ops = append(ops, state.Op{Key: key, Revision: revision, Force: isForced(key.Kind)})
		}
	}
	l.mu.Unlock()
	if len(ops) == 0 {
		return nil
	}
	_, err := l.commit(ctx, "", ops)
	return err
}

func (l *recordCache) commit(ctx context.Context, step string, ops []state.Op) ([]state.Entry, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	shared := l.claims.store != nil
	var number uint64
	if shared {
		number = l.begin(step, ops)
	}
	entries, err := l.store.Commit(ctx, ops...)
	if err != nil {
		l.end(ctx, number)
		err = fmt.Errorf("record the step: %w", err)
		if shared && errors.Is(err, state.ErrConflict) {
			l.refresh(ctx, ops)
			return nil, fmt.Errorf("%w: %w", errChanged, err)
		}
		return nil, err
	}
	if shared {
		l.claims.committed(ctx, step, ops, entries)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, op := range ops {
		if op.Record == nil {
			l.deleteEntry(op.Key)
			continue
		}
		l.setNewest(ctx, entries[i])
		if step != "" && stepOwns(op.Record) {
			l.busy[entries[i].Record.Key()] = step
		}
	}
	if shared {
		l.finishCommit(ctx, number)
	}
	l.notify()
	return entries, nil
}

// begin registers a commit to a shared store, which other processes may see before it returns, and marks the records that
// belong to the step as busy.
func (l *recordCache) begin(step string, ops []state.Op) (number uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, op := range ops {
		if step != "" && op.Record != nil && op.Record.Key().ID != "" && stepOwns(op.Record) {
			l.busy[op.Record.Key()] = step
		}
	}
	return l.arrivals.beginCommit(ops)
}

// end applies the events that waited for a commit, which has failed.
func (l *recordCache) end(ctx context.Context, number uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.finishCommit(ctx, number)
	l.notify()
}

// finishCommit applies the events that waited for a commit. The caller holds mu.
func (l *recordCache) finishCommit(ctx context.Context, number uint64) {
	for _, w := range l.arrivals.endCommit(number) {
		l.applyEvent(ctx, w)
	}
}

// refresh reads records again after a commit has failed because other processes have changed them.
func (l *recordCache) refresh(ctx context.Context, ops []state.Op) {
	for _, op := range ops {
		key := op.Key
		if op.Record != nil {
			key = op.Record.Key()
		}
		entry, err := l.store.Get(ctx, key)
		switch {
		case err == nil:
			l.refreshEntry(ctx, entry)
		case errors.Is(err, state.ErrNotFound):
			l.forget(key)
		}
	}
}

// forget removes a record from the cache.
func (l *recordCache) forget(key resources.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deleteEntry(key)
	l.notify()
}

// stepOwns reports whether only one step at a time works on the record.
func stepOwns(r resources.Record) bool {
	switch r.Key().Kind {
	case resources.KindNode, resources.KindBuild, resources.KindUpload, resources.KindRequest:
		return true
	default:
		return false
	}
}

// markBusy marks a record as in use by a step.
func (l *recordCache) markBusy(step string, key resources.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy[key] = step
}

// clearBusy removes the marks of a step on its records.
func (l *recordCache) clearBusy(step string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := len(l.busy)
	maps.DeleteFunc(l.busy, func(_ resources.Key, by string) bool { return by == step })
	if len(l.busy) != before {
		l.notify()
	}
}

// snapshot returns all records and the keys of the busy ones, as of one moment.
func (l *recordCache) snapshot() (plan.Records, map[resources.Key]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	busy := make(map[resources.Key]bool, len(l.busy))
	for key := range l.busy {
		busy[key] = true
	}
	return l.sorted.Clone(), busy
}

// isBusy reports whether a step works on a record.
func (l *recordCache) isBusy(key resources.Key) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.busy[key] != ""
}

// nodesOf returns the nodes that are reserved for a request, with ready in place of the record with the same ID. The caller must not
// change them.
func (l *recordCache) nodesOf(r *resources.Request, ready *resources.Node) (nodes []*resources.Node) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.sorted.Nodes {
		if n.ID == ready.ID {
			n = ready
		}
		if plan.Owns(r, n) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// get returns a copy of a record of type T. The caller may change it and pass it to put.
func get[T any](l *recordCache, key resources.Key) (*T, bool) {
	record, _ := find[T](l, key)
	return record, record != nil
}

// find is like get and also returns the revision of the record. It returns nil if there is no such record.
func find[T any](l *recordCache, key resources.Key) (*T, state.Revision) {
	l.mu.Lock()
	defer l.mu.Unlock()
	record, ok := any(l.records[key]).(*T)
	if !ok || record == nil {
		return nil, 0
	}
	c := *record
	return &c, l.revisions[key]
}

// record returns a record of any type with its revision, or nil. The caller must not change it.
func (l *recordCache) record(key resources.Key) (resources.Record, state.Revision) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.records[key], l.revisions[key]
}

// all returns copies of every record of type T.
func all[T any](l *recordCache) []*T {
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

// provider returns the record of a provider, or nil.
func (l *recordCache) provider(name string) *resources.ProviderRecord {
	record, _ := get[resources.ProviderRecord](l, resources.Key{Kind: resources.KindProvider, ID: name})
	return record
}

// template returns the record that explains a hash, or nil if it exists already. Only images have files.
func (l *recordCache) template(hash resources.Hash, static, files map[string]string) []resources.Record {
	t := &resources.Template{Hash: hash, Static: static, Files: files}
	old, known := get[resources.Template](l, t.Key())
	if hash == "" || known && (old.Files != nil || files == nil) {
		return nil
	}
	return []resources.Record{t}
}

// clearRecordBusy ends a step's work on one of its records. The next plan may contain other steps for it.
func (l *recordCache) clearRecordBusy(ctx context.Context, key resources.Key) {
	l.claims.release(ctx, key)
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.busy, key)
	l.notify()
}

// changeImage applies a change to the record of an image until no other process has changed it in between. Other
// processes may change it at the same time, for example npctl image pause.
func (l *recordCache) changeImage(ctx context.Context, name string, kind resources.ImageKind, change func(*resources.ImageRecord)) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	key := resources.Key{Kind: resources.KindImage, ID: name}
	for {
		record, revision := &resources.ImageRecord{Name: name, Kind: kind}, state.Revision(0)
		entry, err := l.store.Get(ctx, key)
		if err == nil {
			record, revision = entry.Record.(*resources.ImageRecord), entry.Revision
		} else if !errors.Is(err, state.ErrNotFound) {
			return fmt.Errorf("read state: %w", err)
		}
		before := cloneImage(record)
		change(record)
		if revision != 0 && reflect.DeepEqual(before, record) {
			l.refreshEntry(ctx, entry)
			return nil
		}
		entries, err := l.store.Commit(ctx, state.Op{Record: record, Revision: revision})
		if err == nil {
			l.refreshEntry(ctx, entries[0])
			return nil
		}
		if !errors.Is(err, state.ErrConflict) {
			return fmt.Errorf("update the record of the image: %w", err)
		}
	}
}

func cloneImage(r *resources.ImageRecord) *resources.ImageRecord {
	c := *r
	c.MissingVersions = slices.Clone(r.MissingVersions)
	if r.Failure != nil {
		f := *r.Failure
		c.Failure = &f
	}
	if r.Uploads != nil {
		c.Uploads = make(map[string]*resources.Failure, len(r.Uploads))
		for provider, f := range r.Uploads {
			one := *f
			c.Uploads[provider] = &one
		}
	}
	return &c
}
