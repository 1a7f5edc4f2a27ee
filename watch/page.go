package watch

import (
	"context"
	"errors"
	"slices"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

const (
	journalPiece  = 200       // events per record
	journalSize   = 256 << 10 // approximate bytes of events per record; a record may have a megabyte
	journalPieces = 25        // records that the journal keeps
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
	p := page{id: piece.ID, revision: entry.Revision}
	for _, e := range piece.Events {
		p.add(e)
	}
	return p
}

// journalCommit is a commit that adds events to the journal.
type journalCommit struct {
	page    page // after the commit
	ops     []state.Op
	made    bool // the commit creates a record
	written int  // number of events
	dropped int  // number of records removed, the oldest ones
}

// write adds as many of the events as fit, and removes the oldest records beyond the limit. ids are the IDs of all
// journal records, oldest first.
func (p *page) write(events []resources.Event, ids []string) (w journalCommit) {
	if p.hasRoom(events[0]) {
		w.page = page{id: p.id, revision: p.revision, events: slices.Clip(p.events), size: p.size}
	}
	for w.written < len(events) && w.page.hasRoom(events[w.written]) {
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

// commit writes events. When another process has changed or removed the page, commit writes to a new page.
func (p *page) commit(ctx context.Context, events []resources.Event, ids []string, commit commitFunc) (journalCommit, error) {
	for w := p.write(events, ids); ; w = (&page{}).write(events, ids) {
		entries, err := commit(ctx, w.ops...)
		switch {
		case err == nil:
			w.made = w.page.id == ""
			w.page.id, w.page.revision = entries[0].Record.Key().ID, entries[0].Revision
			return w, nil
		case w.page.id == "" || !errors.Is(err, state.ErrConflict):
			return journalCommit{}, err
		}
	}
}

func (p *page) add(e resources.Event) { p.events, p.size = append(p.events, e), p.size+sizeOf(e) }

// hasRoom reports whether an event fits into the page.
func (p *page) hasRoom(e resources.Event) bool {
	return len(p.events) == 0 || len(p.events) < journalPiece && p.size+sizeOf(e) <= journalSize
}

func sizeOf(e resources.Event) int {
	size := len(e.Subject) + len(e.Code) + len(e.Text) + 100
	for _, subject := range e.Related {
		size += len(subject) + 3
	}
	return size
}

// newest drops the oldest unsaved events beyond the number that the journal keeps.
func newest(events []resources.Event) []resources.Event {
	return events[max(0, len(events)-journalPiece*journalPieces):]
}
