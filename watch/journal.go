package watch

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

const journalEvery = 2 * time.Second // between two writings

// Journal remembers the newest of what has happened, also over a restart.
type Journal struct {
	runner *reconcile.Runner
	tell   func(resources.Event) // is told what clients did; may be nil

	mu      sync.Mutex // guards what follows
	events  []Numbered // oldest first
	unsaved []resources.Event
	pieces  []string       // ids of records, oldest first
	page    page           // the newest of them, unless that is a client's
	clients map[string]int // how many events are known of records that clients have written, by id
	next    uint64
	waiters map[chan struct{}]bool
}

// Numbered is an event with its place in the journal; numbers grow, and begin anew with each daemon.
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

// Add notes something that a client did.
func (j *Journal) Add(event resources.Event) {
	if j.tell != nil {
		j.tell(event)
	}
	j.add(event)
}

// add notes something that happened.
func (j *Journal) add(event resources.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.unsaved = newest(append(j.unsaved, event))
	j.append(event)
}

// append makes events known. The caller holds mu.
func (j *Journal) append(events ...resources.Event) {
	for _, event := range events {
		j.events = append(j.events, Numbered{j.next, event})
		j.next++
	}
	if most := journalPiece * journalPieces; len(j.events) > 2*most {
		j.events = slices.Clone(j.events[len(j.events)-most:])
	}
	for waiter := range j.waiters {
		select {
		case waiter <- struct{}{}:
		default:
		}
	}
}

// Written is told of records that somebody has written through the daemon's store: what is in the journal there is in this
// one too.
func (j *Journal) Written(entries []state.Entry) {
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
		j.page = page{} // what comes now stands behind it
	}
}

// Since returns the events after a number, oldest first, those about the subject when it is not empty.
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

// Wait returns a channel that gets a hint after new events, until forget is called.
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

// keep writes events down from time to time.
func (j *Journal) keep(ctx context.Context) {
	for sleep(ctx, journalEvery) {
		_ = j.flush(ctx) // the next try has them too
	}
}

// flush writes what is not written yet, and drops what is too old.
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

// write writes as many events as one record has room for.
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

// step notes what became of a step.
func (j *Journal) step(event reconcile.Event) {
	if e, ok := journaled(event); ok {
		j.add(e)
	}
}

// journaled is what the journal has of what became of a step, if anything.
func journaled(event reconcile.Event) (e resources.Event, ok bool) {
	s := &event.Step
	switch event.Kind {
	case reconcile.EventStart, reconcile.EventDone, reconcile.EventFailed:
	default:
		return e, false
	}
	if event.Kind == reconcile.EventStart && s.Thing == plan.ThingRequest {
		return e, false // its end follows at once
	}
	e = resources.Event{Time: event.Time, Code: string(s.Action) + "-" + string(event.Kind), Subject: subjectOf(s, event.ID), EventID: s.EventID}
	e.Related = relatedTo(s, e.Subject)
	e.Text = stepText(event)
	return e, true
}

// stepText says what became of a step.
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

// reservedText is such as "reserved in rack/main: node 0000000001, 1 node launching".
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
	switch launching {
	case 0:
	case 1:
		parts = append(parts, "1 node launching")
	default:
		parts = append(parts, fmt.Sprintf("%d nodes launching", launching))
	}
	return "reserved in " + s.Provider + "/" + s.Pool + ": " + strings.Join(parts, ", ")
}

// declinedText is such as "failed: its deadline has passed", or "declined: a pool cannot serve it (rack/main: no quota)".
func declinedText(s *plan.Step) string {
	if s.Reason == plan.ReasonDeclined {
		return "declined: " + s.Cause()
	}
	return "failed: " + s.Cause()
}

// subjectOf is the record, or block, that a step is about.
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

// relatedTo lists what else a step has to do with.
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
