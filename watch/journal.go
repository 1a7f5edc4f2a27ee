package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

const (
	journalEvery = 2 * time.Second // between two writes
	journalSlack = 500             // events by which the list may exceed its limit before the oldest are dropped
)

// Journal keeps the newest events. It survives a restart. The daemon and a command that runs without it use one Journal
// each.
type Journal struct {
	commit  commitFunc
	onEvent func(resources.Event) // called with each event that a client caused; may be nil

	mu      sync.Mutex        // guards the fields below
	unsaved []resources.Event // that no journal record contains yet
	events  []Numbered        // oldest first
	pieces  []string          // IDs of records, oldest first
	page    page              // the record that receives the next events
	clients map[string]int    // number of known events of each record that this Journal did not create, by ID
	next    uint64
	waiters map[chan struct{}]bool
}

type commitFunc func(ctx context.Context, ops ...state.Op) ([]state.Entry, error)

// Numbered is an event with its number in the journal. Numbers ascend and restart with each daemon.
type Numbered struct {
	Number uint64
	resources.Event
}

// OpenJournal reads the journal for a command that runs without a daemon, such as npctl apply. Its events go to a new
// record.
func OpenJournal(ctx context.Context, store state.Store) (*Journal, error) {
	j, err := openJournal(ctx, store, store.Commit)
	if err != nil {
		return nil, err
	}
	j.page = page{}
	return j, nil
}

// openJournal reads the journal. Later events go to the newest record until that is full.
func openJournal(ctx context.Context, store state.Store, commit commitFunc) (*Journal, error) {
	entries, err := store.List(ctx, resources.KindJournal)
	if err != nil {
		return nil, err
	}
	j := &Journal{commit: commit, next: 1, clients: map[string]int{}, waiters: map[chan struct{}]bool{}}
	j.ImportEntries(entries)
	if len(entries) > 0 {
		j.page = pageOf(entries[len(entries)-1])
	}
	return j, nil
}

// Add records an event that a client caused.
func (j *Journal) Add(event resources.Event) {
	if j.onEvent != nil {
		j.onEvent(event)
	}
	j.add(event)
}

// add records an event.
func (j *Journal) add(event resources.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.unsaved = append(j.unsaved, event)
	j.unsaved = j.unsaved[max(0, len(j.unsaved)-journalMost):] // the journal keeps no more
	j.append(event)
}

// AddStep records a step event. It is for reconcile.Options.Report.
func (j *Journal) AddStep(event reconcile.Event) {
	if e, ok := journaled(event); ok {
		j.add(e)
	}
}

// append publishes events and wakes the waiters. The caller holds mu.
func (j *Journal) append(events ...resources.Event) {
	for _, event := range events {
		j.events = append(j.events, Numbered{j.next, event})
		j.next++
	}
	if len(j.events) > journalMost+journalSlack {
		j.events = slices.Delete(j.events, 0, len(j.events)-journalMost)
	}
	for waiter := range j.waiters {
		select {
		case waiter <- struct{}{}:
		default:
		}
	}
}

// ImportEntries adds the events of journal records that a client has written through the daemon's store.
func (j *Journal) ImportEntries(entries []state.Entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, e := range entries {
		piece, ok := e.Record.(*resources.Journal)
		if !ok {
			continue
		}
		known, again := j.clients[piece.ID]
		if !again {
			j.pieces = append(j.pieces, piece.ID)
		}
		j.append(piece.Events[min(known, len(piece.Events)):]...)
		j.clients[piece.ID] = len(piece.Events)
		j.page = page{} // later events follow the client's record
	}
}

// Since returns the events after a number, oldest first. With a subject, it returns only events about or related to it.
func (j *Journal) Since(number uint64, subject string) []Numbered {
	j.mu.Lock()
	defer j.mu.Unlock()
	i, _ := slices.BinarySearchFunc(j.events, number+1, func(e Numbered, n uint64) int { return cmp.Compare(e.Number, n) })
	var found []Numbered
	for _, e := range j.events[i:] {
		if e.Concerns(subject) {
			found = append(found, e)
		}
	}
	return found
}

// Newest returns the number of the newest event, or 0 when the journal is empty.
func (j *Journal) Newest() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.next - 1
}

// Wait returns a channel that receives a hint after new events until the caller calls forget.
func (j *Journal) Wait() (hints <-chan struct{}, forget func()) {
	waiter := make(chan struct{}, 1)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.waiters[waiter] = true
	return waiter, func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		delete(j.waiters, waiter)
	}
}

// Keep writes events journalEvery after the first of them, until ctx is done. Without events it does not wake the
// process.
func (j *Journal) Keep(ctx context.Context) {
	added, forget := j.Wait()
	defer forget()
	for sleep(ctx, journalEvery) {
		if j.Flush(ctx) != nil {
			continue // the next attempt writes them too
		}
		select {
		case <-added:
		case <-ctx.Done():
			return
		}
	}
}

// Flush writes the unsaved events and removes the oldest records beyond the limit. After an error the rest stays
// unsaved. It must not run at the same time as Keep.
func (j *Journal) Flush(ctx context.Context) error {
	j.mu.Lock()
	events := j.unsaved
	j.unsaved = nil
	j.mu.Unlock()
	for len(events) > 0 {
		written, err := j.write(ctx, events)
		if err != nil {
			j.mu.Lock()
			events = append(events, j.unsaved...)
			j.unsaved = events[max(0, len(events)-journalMost):]
			j.mu.Unlock()
			return fmt.Errorf("write journal: %w", err)
		}
		events = events[written:]
	}
	return nil
}

// write writes as many events as fit into one record. When another process has changed or removed the page, it writes to
// a new page.
func (j *Journal) write(ctx context.Context, events []resources.Event) (written int, err error) {
	j.mu.Lock()
	before, ids := j.page, j.pieces
	j.mu.Unlock()
	w := before.write(events, ids)
	entries, err := j.commit(ctx, w.ops...)
	if w.page.id != "" && errors.Is(err, state.ErrConflict) {
		w = (&page{}).write(events, ids)
		entries, err = j.commit(ctx, w.ops...)
	}
	if err != nil {
		return 0, err
	}
	made := w.page.id == ""
	w.page.id, w.page.revision = entries[0].Record.Key().ID, entries[0].Revision
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, id := range j.pieces[:w.dropped] {
		delete(j.clients, id)
	}
	j.pieces = j.pieces[w.dropped:]
	if made {
		j.pieces = append(j.pieces, w.page.id)
	}
	j.page = w.page
	return w.written, nil
}

const (
	journalPiece  = 200       // events per record
	journalSize   = 256 << 10 // approximate bytes of events per record; a record may have a megabyte
	journalPieces = 25        // records that the journal keeps
	journalMost   = journalPiece * journalPieces
)

// page is the journal record that receives events until it is full.
type page struct {
	id       string // empty before the record exists
	revision state.Revision
	events   []resources.Event
	size     int
}

func pageOf(entry state.Entry) page {
	piece := entry.Record.(*resources.Journal)
	p := page{id: piece.ID, revision: entry.Revision, events: piece.Events}
	for _, e := range piece.Events {
		p.size += sizeOf(e)
	}
	return p
}

// journalCommit is a commit that adds events to the journal.
type journalCommit struct {
	page    page // after the commit
	ops     []state.Op
	written int // number of events
	dropped int // number of records removed, the oldest ones
}

// write adds as many of the events as fit, and removes the oldest records beyond the limit. ids are the IDs of all
// journal records, oldest first.
func (p *page) write(events []resources.Event, ids []string) (w journalCommit) {
	w.page = page{id: p.id, revision: p.revision, events: slices.Clip(p.events), size: p.size}
	if !w.page.add(events[0]) {
		w.page = page{}
		w.page.add(events[0])
	}
	for w.written = 1; w.written < len(events) && w.page.add(events[w.written]); {
		w.written++
	}
	kept := journalPieces
	if w.page.id == "" {
		kept--
	}
	w.dropped = max(0, len(ids)-kept)
	w.ops = []state.Op{{Record: &resources.Journal{ID: w.page.id, Events: w.page.events}, Revision: w.page.revision}}
	for _, id := range ids[:w.dropped] {
		w.ops = append(w.ops, state.Op{Key: resources.Key{Kind: resources.KindJournal, ID: id}, Force: true})
	}
	return w
}

// add adds an event if it fits into the page, and reports whether it does.
func (p *page) add(e resources.Event) bool {
	size := p.size + sizeOf(e)
	if len(p.events) > 0 && (len(p.events) >= journalPiece || size > journalSize) {
		return false
	}
	p.events, p.size = append(p.events, e), size
	return true
}

func sizeOf(e resources.Event) int {
	size := len(e.Subject) + len(e.Code) + len(e.Text) + 100
	for _, subject := range e.Related {
		size += len(subject) + 3
	}
	return size
}

// journaled returns the journal event for a step event; ok is false when the journal does not record it.
func journaled(event reconcile.Event) (e resources.Event, ok bool) {
	s := &event.Step
	switch event.Kind {
	case reconcile.EventStart, reconcile.EventDone, reconcile.EventFailed:
	case reconcile.EventRetry:
		return returned(event), event.Return != ""
	default:
		return e, false
	}
	if event.Kind == reconcile.EventStart && s.Thing == plan.ThingRequest {
		return e, false // its end follows immediately
	}
	e = resources.Event{Time: event.Time, Code: string(s.Action) + "-" + string(event.Kind), Subject: subjectOf(s, event.ID), EventID: s.EventID}
	e.Related = relatedTo(s, e.Subject)
	e.Text = stepText(event)
	return e, true
}

// returned is the event of a launch that boots from an older build in its next attempt.
func returned(event reconcile.Event) resources.Event {
	s := &event.Step
	e := resources.Event{Time: event.Time, Code: "image-returned", Subject: "image/" + s.Image, EventID: s.EventID}
	e.Related = relatedTo(s, e.Subject)
	e.Text = fmt.Sprintf("nodes in %s boot from the older build %s, because launches in a row from the newest one failed: %s", s.Provider, event.Return, plan.FirstLine(event.Err.Error()))
	return e
}

// stepText describes a step event.
func stepText(event reconcile.Event) string {
	s := &event.Step
	done := event.Kind == reconcile.EventDone
	switch {
	case done && s.Kind == plan.KindServe:
		return reservedText(s)
	case done && s.Kind == plan.KindDecline:
		result := "failed: "
		if s.Reason == plan.ReasonDeclined {
			result = "declined: "
		}
		return result + s.Cause()
	case done:
		return fmt.Sprintf("%s %s done in %s", s.Action, s.Address, event.Took.Round(time.Millisecond))
	case event.Kind == reconcile.EventFailed:
		return fmt.Sprintf("%s %s failed: %v", s.Action, s.Address, event.Err)
	}
	text := fmt.Sprintf("%s %s: %s", s.Action, s.Address, s.Reason.Text())
	for _, f := range s.Evidence {
		text += fmt.Sprintf(", %s: %s", f.Name, f.Value)
	}
	return text
}

// reservedText returns text such as "reserved in rack/main: node 0000000001, 1 node launching".
func reservedText(s *plan.Step) string {
	var parts []string
	launching := 0
	for _, id := range s.Nodes {
		if id == "" {
			launching++
		} else {
			parts = append(parts, "node "+id)
		}
	}
	if launching > 0 {
		parts = append(parts, text.Count(launching, "node launching", "nodes launching"))
	}
	return "reserved in " + s.Provider + "/" + s.Pool + ": " + strings.Join(parts, ", ")
}

// subjectOf returns the record or block that a step is about.
func subjectOf(s *plan.Step, id string) string {
	switch {
	case s.Thing == plan.ThingRequest:
		return "request/" + s.Request
	case s.Thing == plan.ThingNode && s.Record.ID != "":
		return s.Record.String()
	case s.Thing == plan.ThingNode && id != "":
		return "node/" + id
	case s.Image != "" && s.Thing != plan.ThingNode:
		return "image/" + s.Image
	case s.Label != "":
		return "label/" + s.Label
	case s.Provider != "":
		return "provider/" + s.Provider
	default:
		return string(s.Address)
	}
}

// relatedTo returns the other records and blocks that a step refers to.
func relatedTo(s *plan.Step, subject string) []string {
	related := []string{}
	add := func(kind, name string) {
		if subject2 := kind + "/" + name; name != "" && subject2 != subject && !slices.Contains(related, subject2) {
			related = append(related, subject2)
		}
	}
	add("request", s.Request)
	add("image", s.Image)
	add("provider", s.Provider)
	for label := range strings.SplitSeq(s.Label, ",") {
		add("label", label)
	}
	for _, id := range s.Nodes {
		add("node", id)
	}
	return related
}

// eventLogger returns a function that logs events caused by clients. The executor logs steps.
func eventLogger(log *slog.Logger) func(resources.Event) {
	return func(e resources.Event) {
		attrs := []slog.Attr{slog.String("what", e.Text)}
		at := map[string]int{}
		for _, subject := range append([]string{e.Subject}, e.Related...) {
			kind, name, _ := strings.Cut(subject, "/")
			if i, twice := at[kind]; twice {
				attrs[i] = slog.String(kind, attrs[i].Value.String()+","+name)
				continue
			}
			at[kind] = len(attrs)
			attrs = append(attrs, slog.String(kind, name))
		}
		if e.EventID != "" {
			attrs = append(attrs, slog.String("event_id", e.EventID))
		}
		kind, _, _ := strings.Cut(e.Subject, "/")
		log.LogAttrs(context.Background(), slog.LevelInfo, kind+" "+e.Code, attrs...)
	}
}
