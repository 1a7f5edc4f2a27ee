package watch

import (
	"errors"
	"slices"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

const (
	journalPiece  = 200       // events in one record
	journalSize   = 256 << 10 // bytes of them, about; a record may have a megabyte
	journalPieces = 25        // records that are kept
)

// page is the record of the journal that is written to until it is full.
type page struct {
	id       string // empty: it is to be made
	revision state.Revision
	events   []resources.Event
	size     int
}

func pageOf(entry state.Entry) page {
	piece := entry.Record.(*resources.Journal)
	p := page{id: piece.ID, revision: entry.Revision}
	for _, e := range piece.Events {
		p.add(e)
	}
	return p
}

// writing is a commit that adds events to the journal.
type writing struct {
	page    page // as it is afterwards
	ops     []state.Op
	made    bool // it is a new record
	written int  // events
	dropped int  // records, the oldest
}

// write writes as many of the events as there is room for, and removes the oldest records beyond the number that is kept.
// ids are those of all there are, oldest first.
func (p *page) write(events []resources.Event, ids []string) (w writing) {
	if p.takes(events[0]) {
		w.page = page{id: p.id, revision: p.revision, events: slices.Clip(p.events), size: p.size}
	}
	for w.written < len(events) && w.page.takes(events[w.written]) {
		w.page.add(events[w.written])
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

// commit makes a writing of events. A page that somebody else has written to, or removed, is left for a new one.
func (p *page) commit(events []resources.Event, ids []string, do func(ops ...state.Op) ([]state.Entry, error)) (writing, error) {
	for w := p.write(events, ids); ; w = (&page{}).write(events, ids) {
		entries, err := do(w.ops...)
		switch {
		case err == nil:
			w.made = w.page.id == ""
			w.page.id, w.page.revision = entries[0].Record.Key().ID, entries[0].Revision
			return w, nil
		case w.page.id == "" || !errors.Is(err, state.ErrConflict):
			return writing{}, err
		}
	}
}

func (p *page) add(e resources.Event) { p.events, p.size = append(p.events, e), p.size+sizeOf(e) }

// takes reports whether there is room for an event.
func (p *page) takes(e resources.Event) bool {
	return len(p.events) == 0 || len(p.events) < journalPiece && p.size+sizeOf(e) <= journalSize
}

func sizeOf(e resources.Event) int {
	size := len(e.Subject) + len(e.Code) + len(e.Text) + 100
	for _, subject := range e.Related {
		size += len(subject) + 3
	}
	return size
}

// newest leaves out the oldest of events that wait to be written, when there are more than are kept at all.
func newest(events []resources.Event) []resources.Event {
	return events[max(0, len(events)-journalPiece*journalPieces):]
}
