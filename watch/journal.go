package watch

import (
	"cmp"
	"context"
	"fmt"
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

// Journal keeps the newest events. It survives a restart.
type Journal struct {
	runner  *reconcile.Runner
	onEvent func(resources.Event) // called with each event that a client caused; may be nil

	mu      sync.Mutex // guards the fields below
	events  []Numbered // oldest first
	unsaved []resources.Event
	pieces  []string       // IDs of records, oldest first
	page    page           // the newest of them, unless a client wrote it
	clients map[string]int // number of known events of each record that this daemon did not create, by ID
	next    uint64
	waiters map[chan struct{}]bool
}

// Numbered is an event with its number in the journal. Numbers ascend and restart with each daemon.
type Numbered struct {
	Number uint64
	resources.Event
}

func openJournal(ctx context.Context, runner *reconcile.Runner, store state.Store) (*Journal, error) {
	j := &Journal{runner: runner, next: 1, clients: map[string]int{}, waiters: map[chan struct{}]bool{}}
	entries, err := store.List(ctx, resources.KindJournal)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		piece := entry.Record.(*resources.Journal)
		j.pieces, j.page, j.clients[piece.ID] = append(j.pieces, piece.ID), pageOf(entry), len(piece.Events)
		for _, event := range piece.Events {
			j.events = append(j.events, Numbered{j.next, event})
			j.next++
		}
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
	j.unsaved = newest(append(j.unsaved, event))
	j.append(event)
}

// append publishes events and wakes the waiters. The caller holds mu.
func (j *Journal) append(events ...resources.Event) {
	for _, event := range events {
		j.events = append(j.events, Numbered{j.next, event})
		j.next++
	}
	if most := journalPiece * journalPieces; len(j.events) > most+journalSlack {
		j.events = slices.Delete(j.events, 0, len(j.events)-most)
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
		if subject == "" || e.Subject == subject || slices.Contains(e.Related, subject) {
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

// keep writes events journalEvery after the first of them. Without events it does not wake the process.
func (j *Journal) keep(ctx context.Context) {
	added, forget := j.Wait()
	defer forget()
	for sleep(ctx, journalEvery) {
		if j.flush(ctx) != nil {
			continue // the next attempt writes them too
		}
		select {
		case <-added:
		case <-ctx.Done():
			return
		}
	}
}

// flush writes the unsaved events and removes the oldest records beyond the limit.
func (j *Journal) flush(ctx context.Context) error {
	j.mu.Lock()
	events := j.unsaved
	j.unsaved = nil
	j.mu.Unlock()
	for len(events) > 0 {
		written, err := j.write(ctx, events)
		if err != nil {
			j.mu.Lock()
			j.unsaved = newest(append(events, j.unsaved...))
			j.mu.Unlock()
			return fmt.Errorf("write journal: %w", err)
		}
		events = events[written:]
	}
	return nil
}

// write writes as many events as fit into one record.
func (j *Journal) write(ctx context.Context, events []resources.Event) (written int, err error) {
	j.mu.Lock()
	before, ids := j.page, j.pieces
	j.mu.Unlock()
	w, err := before.commit(events, ids, func(ops ...state.Op) ([]state.Entry, error) { return j.runner.Commit(ctx, ops...) })
	if err != nil {
		return 0, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, id := range j.pieces[:w.dropped] {
		delete(j.clients, id)
	}
	j.pieces = j.pieces[w.dropped:]
	if w.made {
		j.pieces = append(j.pieces, w.page.id)
	}
	j.page = w.page
	return w.written, nil
}

// step records a step event.
func (j *Journal) step(event reconcile.Event) {
	if e, ok := journaled(event); ok {
		j.add(e)
	}
}

// journaled returns the journal event for a step event; ok is false when the journal does not record it.
func journaled(event reconcile.Event) (e resources.Event, ok bool) {
	s := &event.Step
	switch event.Kind {
	case reconcile.EventStart, reconcile.EventDone, reconcile.EventFailed:
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

// stepText describes a step event.
func stepText(event reconcile.Event) string {
	s := &event.Step
	done := event.Kind == reconcile.EventDone
	switch {
	case done && s.Action == plan.ActionServe:
		return reservedText(s)
	case done && s.Action == plan.ActionDecline:
		return declinedText(s)
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

// declinedText returns text such as "failed: its deadline has passed" or "declined: a pool cannot serve it (rack/main:
// no quota)".
func declinedText(s *plan.Step) string {
	if s.Reason == plan.ReasonDeclined {
		return "declined: " + s.Cause()
	}
	return "failed: " + s.Cause()
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
