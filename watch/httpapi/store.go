package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"

	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/watch"
)

// The routes of this file give another npctl on this machine access to the daemon's store. All writes go through the
// daemon, so that it knows of them.

// commitSize is the maximum size of a commit in bytes. A record may have one megabyte.
const commitSize = 64 << 20

const lineMedia = "application/jsonl"

// storeRoutes answers the calls that access the store.
type storeRoutes struct {
	daemon  *watch.Daemon
	locks   *locks
	path    string                                                     // of the state
	version string                                                     // of npctl
	unlock  func(ctx context.Context, id string) (state.Holder, error) // see Options.Unlock
	log     *slog.Logger
}

// storePath is the prefix of the paths of these operations, which exist only on the unix socket.
const storePath = "/" + wire.Version + "/store"

// addStore adds the operations of this file. They have a description of their own, which is not published.
func (s *Server) addStore() {
	a := s.newAPI()
	t := storeRoutes{s.daemon, s.locks, s.State, s.Version, s.Unlock, s.Log}
	add(a, local, "GET "+storePath, "storeHead", "", t.head)
	add(a, local, "GET "+storePath+"/records", "storeList", "", silent(t.list))
	add(a, local, "GET "+storePath+"/record", "storeGet", "", t.get)
	add(a, local, "POST "+storePath+"/commit", "storeCommit", "", t.commit, trusted)
	add(a, local, "GET "+storePath+"/watch", "storeWatch", "", silent(t.watch), longPoll)
	add(a, local, "GET "+storePath+"/work", "storeWork", "", t.activity)
	add(a, local, "POST "+storePath+"/wish", "storeWish", "", silent(t.requestBuild))
	add(a, local, "GET "+storePath+"/locks", "storeLocks", "", t.listLocks)
	add(a, local, "POST "+storePath+"/locks", "storeLock", "", silent(t.lock), longPoll, trusted)
	add(a, local, "DELETE "+storePath+"/locks", "storeUnlock", "", t.release)
}

func (t storeRoutes) store() state.Store { return t.daemon.Engine.Store }

func (t storeRoutes) head(ctx context.Context, _ *none) (wire.StoreHead, error) {
	head := wire.StoreHead{Format: wire.StoreFormat, Path: t.path, PID: os.Getpid(), Npctl: t.version,
		Configuration: t.daemon.Desired().Digests.Current()}
	identified, ok := t.store().(state.Identified)
	if !ok {
		return head, failure(http.StatusNotImplemented, wire.CodeUnsupported, "", "the state has no installation ID")
	}
	var err error
	head.Identity, err = identified.Identity(ctx)
	head.HashKey = []byte(head.Identity.HashKey)
	return head, err
}

func (t storeRoutes) get(ctx context.Context, in *struct {
	Kind string `query:"kind"`
	ID   string `query:"id"`
}) (wire.Entry, error) {
	entry, err := t.store().Get(ctx, resources.Key{Kind: resources.Kind(in.Kind), ID: in.ID})
	if err != nil {
		return wire.Entry{}, err
	}
	return wireEntry(entry)
}

func wireEntry(e state.Entry) (wire.Entry, error) {
	if e.Record == nil {
		return wire.Entry{}, nil
	}
	doc, err := json.Marshal(e.Record)
	key := e.Record.Key()
	return wire.Entry{Kind: key.Kind, ID: key.ID, Revision: uint64(e.Revision), Record: doc}, err
}

// list sends one line for each record, and a final line with End set.
func (t storeRoutes) list(ctx context.Context, in *struct {
	Kinds []resources.Kind `query:"kind" doc:"Default: all kinds of records."`
}) error {
	entries, err := t.store().List(ctx, in.Kinds...)
	if err != nil {
		return refused(err)
	}
	c := callOf(ctx)
	c.w.Header().Set("Content-Type", lineMedia)
	out := json.NewEncoder(&slow{c})
	for _, e := range entries {
		line, err := wireEntry(e)
		if err != nil {
			return err
		}
		if err := out.Encode(line); err != nil {
			return err
		}
	}
	return out.Encode(wire.Entry{End: true})
}

// slow is a response without a total time limit. Each write resets the write deadline.
type slow struct{ *call }

func (s *slow) Write(p []byte) (int, error) {
	s.allowAnswer(answerTime)
	return s.w.Write(p)
}

func (t storeRoutes) commit(ctx context.Context, in *struct{ Body wire.Commit }) (answer wire.Committed, err error) {
	ops := make([]state.Op, len(in.Body.Ops))
	for i := range in.Body.Ops {
		if ops[i], err = opOf(&in.Body.Ops[i]); err != nil {
			return answer, fmt.Errorf("op %d: %w", i, err)
		}
	}
	answer = wire.Committed{Entries: make([]wire.Entry, len(ops))}
	if len(ops) == 0 {
		return answer, nil
	}
	var entries []state.Entry
	err = t.locks.whileHeld(in.Body.Locks, func() (err error) {
		entries, err = t.daemon.Runner().Commit(ctx, ops...)
		return err
	})
	if err != nil {
		return answer, refused(err)
	}
	t.daemon.Journal.ImportEntries(entries)
	for i, e := range entries {
		if answer.Entries[i], err = wireEntry(e); err != nil {
			return answer, err
		}
	}
	return answer, nil
}

// refused reports an error of the store that has no code of its own as a mistake of the client.
func refused(err error) error {
	if problemOf(err).Code != wire.CodeInternal {
		return err
	}
	return failure(http.StatusUnprocessableEntity, wire.CodeInvalid, "", "%s", err)
}

func opOf(o *wire.Op) (state.Op, error) {
	op := state.Op{Key: o.Key, Revision: state.Revision(o.Revision), Force: o.Force}
	if len(o.Record) == 0 {
		return op, nil
	}
	record := resources.NewRecord(o.Kind)
	if record == nil {
		return op, invalid("", "unknown kind of record %s", text.Quote(string(o.Kind)))
	}
	if err := decode(o.Record, record); err != nil {
		return op, invalid("", "the record is invalid: %s", err)
	}
	op.Record = record
	return op, nil
}

// watch sends a line after records change.
func (t storeRoutes) watch(ctx context.Context, _ *none) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	hints, err := t.store().Watch(ctx)
	if err != nil {
		return err
	}
	s := callOf(ctx).stream(lineMedia)
	if err := s.line(wire.Hint{}); err != nil {
		return err
	}
	for !s.pause(hints, "{}\n") {
		if err := s.line(wire.Hint{Changed: true}); err != nil {
			return err
		}
	}
	return nil
}

// activity returns the running steps and, in a shared store, the activity of other processes.
func (t storeRoutes) activity(context.Context, *none) (wire.Activity, error) {
	_, busy := t.daemon.Runner().Records()
	work := wire.Activity{Busy: slices.AppendSeq([]resources.Key{}, maps.Keys(busy))}
	if store := t.daemon.Runner().Shared(); store != nil {
		work.Shared, work.RegisteredPools, work.Claimed = true, store.RegisteredPools(), slices.Collect(maps.Keys(store.Claimed()))
		work.Builders, work.NodepoolBuilders, work.RequestedBuilds = store.Builders(), store.NodepoolBuilders(), store.RequestedBuilds()
	}
	return work, nil
}

// requestBuild records or withdraws a build request. It does nothing unless the store is shared, since only other
// processes leave build requests there.
func (t storeRoutes) requestBuild(ctx context.Context, in *struct{ Body wire.BuildRequest }) error {
	store := t.daemon.Runner().Shared()
	if store == nil {
		return nil
	}
	return store.RequestBuild(ctx, in.Body.Image, in.Body.Wish)
}

func (t storeRoutes) listLocks(context.Context, *none) (wire.Locks, error) {
	return wire.Locks{Locks: t.locks.list()}, nil
}

// lock holds a lock until the client disconnects.
func (t storeRoutes) lock(ctx context.Context, in *struct{ Body wire.Lock }) error {
	c := callOf(ctx)
	c.allowAnswer(suspendTimeout + answerTime)
	one, err := t.locks.acquire(ctx, in.Body.Name, in.Body.Holder)
	if err != nil {
		return err
	}
	defer t.locks.release(one)
	if one.Name == stateLock {
		t.journalSuspension("parked", "no steps start while "+one.Holder.Operation+" by "+one.Holder.UserHost+" runs")
		defer func() { t.journalSuspension("resumed", one.Holder.Operation+" by "+one.Holder.UserHost+" has ended") }()
	}
	t.log.Debug("lock acquired by a client", "lock", one.Name, "operation", one.Holder.Operation, "who", one.Holder.UserHost, "pid", one.Holder.PID)
	s := c.stream(lineMedia)
	if err := s.line(wire.Hint{Locked: &one.Lock}); err != nil {
		return err
	}
	if ended := s.pause(one.ended, "{}\n"); !ended {
		return errors.New("unexpected hint for a lock") // one.ended is only closed, never sent to
	}
	select {
	case <-one.lost:
		t.log.Warn("lock of a client was force-released", "lock", one.Name, "operation", one.Holder.Operation, "who", one.Holder.UserHost)
		return s.line(wire.Hint{Lost: true})
	case <-one.ended:
		t.log.Debug("lock released by a client", "lock", one.Name, "operation", one.Holder.Operation)
	default:
		t.log.Warn("lock released because its client disconnected", "lock", one.Name, "operation", one.Holder.Operation, "who", one.Holder.UserHost, "pid", one.Holder.PID)
	}
	return nil
}

// journalSuspension adds an event to the journal when the daemon is suspended or resumed.
func (t storeRoutes) journalSuspension(code, what string) {
	t.daemon.Journal.Add(resources.Event{Time: t.daemon.Engine.Now(), Subject: "daemon", Code: code, Text: what})
}

func (t storeRoutes) release(ctx context.Context, in *struct {
	ID    string `query:"id"`
	Force bool   `query:"force"`
}) (wire.Lock, error) {
	if in.Force {
		holder, err := t.locks.forceRelease(in.ID)
		if errors.Is(err, state.ErrNotFound) && t.unlock != nil { // a lock of another process
			holder, err = t.unlock(ctx, in.ID)
		}
		return wire.Lock{Holder: holder}, err
	}
	one := t.locks.find(in.ID)
	if one == nil {
		return wire.Lock{}, nil // released before
	}
	t.locks.release(one)
	return one.Lock, nil
}
