package reconcile

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// A shared store tells of what this process writes as well, and may do so before the commit has returned that wrote it. A
// node would be seen then that nobody here works on, as if it had been left behind, or a machine whose old record is gone
// and whose new one is not there yet. So what has come or gone while a commit was under way that may have done it is
// taken over only when that commit has returned, and has said whose it is.

// arrivals are what waits for commits to return. The ledger's mutex guards it.
type arrivals struct {
	last    uint64                     // number of the commit that was begun last
	open    map[uint64][]resources.Key // commits under way that make or remove records: what they remove
	waiting []arrival
}

// arrival is a record that has come, or one that is gone.
type arrival struct {
	after uint64 // the commit that was begun last when it came
	key   resources.Key
	entry state.Entry // without a record: it is gone
}

// begin takes down a commit, if it makes records that have no id yet or removes some. Others are told apart by their keys.
func (a *arrivals) begin(ops []state.Op) (number uint64) {
	var removed []resources.Key
	makes := false
	for _, op := range ops {
		switch {
		case op.Record == nil:
			removed = append(removed, op.Key)
		case op.Record.Key().ID == "":
			makes = true
		}
	}
	if !makes && len(removed) == 0 {
		return 0
	}
	a.last++
	a.open[a.last] = removed
	return a.last
}

// end returns what has waited for that commit alone.
func (a *arrivals) end(number uint64) (over []arrival) {
	if number == 0 {
		return nil
	}
	delete(a.open, number)
	oldest := a.last + 1
	for n := range maps.Keys(a.open) {
		oldest = min(oldest, n)
	}
	i := slices.IndexFunc(a.waiting, func(w arrival) bool { return w.after >= oldest })
	if i < 0 {
		i = len(a.waiting)
	}
	over, a.waiting = a.waiting[:i:i], a.waiting[i:]
	return over
}

// defers takes down what may be the doing of a commit under way, or comes after something of the same record that may be.
func (a *arrivals) defers(w arrival, known bool) bool {
	if len(a.open) == 0 && len(a.waiting) == 0 {
		return false
	}
	may := slices.ContainsFunc(a.waiting, func(before arrival) bool { return before.key == w.key })
	if w.entry.Record != nil {
		may = may || !known && made(w.key.Kind)
	} else {
		for _, removed := range a.open {
			may = may || slices.Contains(removed, w.key)
		}
	}
	if may {
		w.after = a.last
		a.waiting = append(a.waiting, w)
	}
	return may
}

// made says of which records the store makes the ids.
func made(kind resources.Kind) bool {
	return kind == resources.KindNode || kind == resources.KindUpload
}

// arrive takes over what has come or gone, and reports whether it was news. Of what this process writes at the same moment
// the newer revision counts. What is gone stays so: ids are not used again.
func (l *ledger) arrive(ctx context.Context, w arrival) bool {
	if w.entry.Record != nil {
		known := l.revisions[w.key]
		// the pause flag of an image changes without a new revision
		news := known < w.entry.Revision || known == w.entry.Revision && w.key.Kind == resources.KindImage
		if news {
			l.keep(w.entry)
		}
		return news
	}
	_, err := l.store.Get(ctx, w.key)
	if errors.Is(err, state.ErrNotFound) {
		l.lose(w.key)
	}
	return false
}

// catchUp takes over what has changed since it was called last, and returns the records that were newer.
func (l *ledger) catchUp(ctx context.Context) (news []resources.Record) {
	changed, gone := l.claims.store.Changes()
	l.mu.Lock()
	for _, entry := range changed {
		w := arrival{key: entry.Record.Key(), entry: entry}
		if _, known := l.revisions[w.key]; !l.arrivals.defers(w, known) && l.arrive(ctx, w) {
			news = append(news, entry.Record)
		}
	}
	for _, key := range gone {
		if w := (arrival{key: key}); !l.arrivals.defers(w, true) {
			l.arrive(ctx, w)
		}
	}
	l.hint() // also when only a claim, a registration or the connection has changed
	l.mu.Unlock()
	for _, key := range gone {
		if key.Kind == resources.KindRequest {
			l.claims.letGo(ctx, key) // it was cancelled, or its requestor has what it wanted
		}
	}
	return news
}
