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

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/watch"
	"github.com/npctl/npctl/watch/httpapi/wire"
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

func (t storeRoutes) table() []route {
	const at = "/" + wire.Version + "/store"
	kind := param{"kind", "string", "Kinds of records, separated by commas. Default: all."}
	return []route{
		{method: http.MethodGet, path: at, need: local, name: "storeHead", answer: wire.StoreHead{}, do: t.head},
		{method: http.MethodGet, path: at + "/records", need: local, name: "storeList", query: []param{kind}, do: t.list},
		{method: http.MethodGet, path: at + "/record", need: local, name: "storeGet", query: []param{kind, {"id", "string", ""}}, answer: wire.Entry{}, do: t.get},
		{method: http.MethodPost, path: at + "/commit", need: local, name: "storeCommit", body: wire.Commit{}, bodySize: commitSize, answer: wire.Committed{}, do: t.commit},
		{method: http.MethodGet, path: at + "/watch", need: local, name: "storeWatch", longPoll: true, do: t.watch},
		{method: http.MethodGet, path: at + "/work", need: local, name: "storeWork", answer: wire.Activity{}, do: t.activity},
		{method: http.MethodPost, path: at + "/wish", need: local, name: "storeWish", body: wire.BuildRequest{}, do: t.requestBuild},
		{method: http.MethodGet, path: at + "/locks", need: local, name: "storeLocks", answer: wire.Locks{}, do: t.listLocks},
		{method: http.MethodPost, path: at + "/locks", need: local, name: "storeLock", longPoll: true, body: wire.Lock{}, do: t.lock},
		{method: http.MethodDelete, path: at + "/locks", need: local, name: "storeUnlock", query: []param{{"id", "string", ""}, {"force", "boolean", ""}},
			answer: wire.Lock{}, do: t.release},
	}
}

func (t storeRoutes) store() state.Store { return t.daemon.Engine.Store }

func (t storeRoutes) head(c *call) (any, error) {
	head := wire.StoreHead{Format: wire.StoreFormat, Path: t.path, PID: os.Getpid(), Npctl: t.version}
	identified, ok := t.store().(state.Identified)
	if !ok {
		return nil, &apiError{status: http.StatusNotImplemented, code: wire.CodeUnsupported, detail: "the state has no installation ID"}
	}
	var err error
	head.Identity, err = identified.Identity(c.ctx())
	head.HashKey = []byte(head.Identity.HashKey)
	return head, err
}

func (t storeRoutes) get(c *call) (any, error) {
	entry, err := t.store().Get(c.ctx(), resources.Key{Kind: resources.Kind(c.values.Get("kind")), ID: c.values.Get("id")})
	if err != nil {
		return nil, err
	}
	return wireEntry(entry)
}

func wireEntry(e state.Entry) (wire.Entry, error) {
	if e.Record == nil {
		return wire.Entry{}, nil
	}
	text, err := json.Marshal(e.Record)
	key := e.Record.Key()
	return wire.Entry{Kind: key.Kind, ID: key.ID, Revision: uint64(e.Revision), Record: text}, err
}

// list sends one line for each record, and a final line with End set.
func (t storeRoutes) list(c *call) (any, error) {
	var kinds []resources.Kind
	for _, kind := range c.listParam("kind") {
		kinds = append(kinds, resources.Kind(kind))
	}
	entries, err := t.store().List(c.ctx(), kinds...)
	if err != nil {
		return nil, refused(err)
	}
	c.w.Header().Set("Content-Type", lineMedia)
	out := json.NewEncoder(&slow{c})
	for _, e := range entries {
		line, err := wireEntry(e)
		if err != nil {
			return nil, err
		}
		if err := out.Encode(line); err != nil {
			return nil, err
		}
	}
	return nil, out.Encode(wire.Entry{End: true})
}

// slow is a response without a total time limit. Each write resets the write deadline.
type slow struct{ *call }

func (s *slow) Write(p []byte) (int, error) {
	s.allowAnswer(answerTime)
	return s.w.Write(p)
}

func (t storeRoutes) commit(c *call) (any, error) {
	sent, err := body[wire.Commit](c)
	if err != nil {
		return nil, err
	}
	ops := make([]state.Op, len(sent.Ops))
	for i := range sent.Ops {
		if ops[i], err = opOf(&sent.Ops[i]); err != nil {
			return nil, fmt.Errorf("op %d: %w", i, err)
		}
	}
	answer := wire.Committed{Entries: make([]wire.Entry, len(ops))}
	if len(ops) == 0 {
		return answer, nil
	}
	var entries []state.Entry
	err = t.locks.whileHeld(sent.Locks, func() (err error) {
		entries, err = t.daemon.Runner().Commit(c.ctx(), ops...)
		return err
	})
	if err != nil {
		return nil, refused(err)
	}
	t.daemon.Journal.ImportEntries(entries)
	for i, e := range entries {
		if answer.Entries[i], err = wireEntry(e); err != nil {
			return nil, err
		}
	}
	return answer, nil
}

// refused reports an error of the store that has no code of its own as a mistake of the client.
func refused(err error) error {
	if problem(err).Code != wire.CodeInternal {
		return err
	}
	return &apiError{status: http.StatusUnprocessableEntity, code: wire.CodeInvalid, detail: err.Error()}
}

func opOf(o *wire.Op) (state.Op, error) {
	op := state.Op{Key: o.Key, Revision: state.Revision(o.Revision), Force: o.Force}
	if len(o.Record) == 0 {
		return op, nil
	}
	record := resources.NewRecord(o.Kind)
	if record == nil {
		return op, invalid("unknown kind of record %s", quoted(string(o.Kind)))
	}
	if err := decode(o.Record, record); err != nil {
		return op, err
	}
	op.Record = record
	return op, nil
}

// watch sends a line after records change.
func (t storeRoutes) watch(c *call) (any, error) {
	ctx, stop := context.WithCancel(c.ctx())
	defer stop()
	hints, err := t.store().Watch(ctx)
	if err != nil {
		return nil, err
	}
	s := c.stream(lineMedia)
	if err := s.line(wire.Hint{}); err != nil {
		return nil, err
	}
	for !s.pause(hints, "{}\n") {
		if err := s.line(wire.Hint{Changed: true}); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// activity returns the running steps and, in a shared store, the activity of other processes.
func (t storeRoutes) activity(*call) (any, error) {
	_, busy := t.daemon.Runner().Records()
	work := wire.Activity{Busy: slices.AppendSeq([]resources.Key{}, maps.Keys(busy))}
	if store := t.daemon.Runner().Shared(); store != nil {
		work.Shared, work.RegisteredPools, work.Claimed = true, store.RegisteredPools(), slices.Collect(maps.Keys(store.Claimed()))
		work.Builders, work.RequestedBuilds = store.Builders(), store.RequestedBuilds()
	}
	return work, nil
}

// requestBuild records or withdraws a build request. It does nothing unless the store is shared, since only other
// processes leave build requests there.
func (t storeRoutes) requestBuild(c *call) (any, error) {
	sent, err := body[wire.BuildRequest](c)
	store := t.daemon.Runner().Shared()
	if err != nil || store == nil {
		return nil, err
	}
	return nil, store.RequestBuild(c.ctx(), sent.Image, sent.Wish)
}

func (t storeRoutes) listLocks(*call) (any, error) { return wire.Locks{Locks: t.locks.list()}, nil }

// lock holds a lock until the client disconnects.
func (t storeRoutes) lock(c *call) (any, error) {
	asked, err := body[wire.Lock](c)
	if err != nil {
		return nil, err
	}
	c.extendDeadline(suspendTimeout)
	one, err := t.locks.acquire(c.ctx(), asked.Name, asked.Holder)
	if err != nil {
		return nil, err
	}
	defer t.locks.release(one)
	if one.Name == stateLock {
		t.journalSuspension("parked", "no steps start while "+one.Holder.Operation+" by "+one.Holder.UserHost+" runs")
		defer func() { t.journalSuspension("resumed", one.Holder.Operation+" by "+one.Holder.UserHost+" has ended") }()
	}
	t.log.Debug("lock acquired by a client", "lock", one.Name, "operation", one.Holder.Operation, "who", one.Holder.UserHost, "pid", one.Holder.PID)
	s := c.stream(lineMedia)
	if err := s.line(wire.Hint{Locked: &one.Lock}); err != nil {
		return nil, err
	}
	if ended := s.pause(one.ended, "{}\n"); !ended {
		return nil, errors.New("unexpected hint for a lock") // one.ended is only closed, never sent to
	}
	select {
	case <-one.lost:
		t.log.Warn("lock of a client was force-released", "lock", one.Name, "operation", one.Holder.Operation, "who", one.Holder.UserHost)
		return nil, s.line(wire.Hint{Lost: true})
	case <-one.ended:
		t.log.Debug("lock released by a client", "lock", one.Name, "operation", one.Holder.Operation)
	default:
		t.log.Warn("lock released because its client disconnected", "lock", one.Name, "operation", one.Holder.Operation, "who", one.Holder.UserHost, "pid", one.Holder.PID)
	}
	return nil, nil
}

// journalSuspension adds an event to the journal when the daemon is suspended or resumed.
func (t storeRoutes) journalSuspension(code, text string) {
	t.daemon.Journal.Add(resources.Event{Time: t.daemon.Engine.Now(), Subject: "daemon", Code: code, Text: text})
}

func (t storeRoutes) release(c *call) (any, error) {
	id := c.values.Get("id")
	if c.boolParam("force") {
		holder, err := t.locks.forceRelease(id)
		if errors.Is(err, state.ErrNotFound) && t.unlock != nil { // a lock of another process
			holder, err = t.unlock(c.ctx(), id)
		}
		return wire.Lock{Holder: holder}, err
	}
	one := t.locks.find(id)
	if one == nil {
		return wire.Lock{}, nil // released before
	}
	t.locks.release(one)
	return one.Lock, nil
}
