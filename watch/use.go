package watch

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

const (
	useSample     = 15 * time.Second // between two samples
	useFlush      = 20               // samples between two writes: 5 minutes
	useGap        = time.Minute      // a longer interval is not counted: the process was stopped, or the clock has changed
	useRows       = 200              // groups of a record
	useForgotten  = 90 * 24          // hours before resources.UseKept of which the first write removes the records
	useNameLength = 100              // characters of each name in a group, so that a record has less than a megabyte
)

// useRecorder writes the record of use: at each sample the nodes of the newest pass count for the time since the previous one.
type useRecorder struct {
	store   state.Store
	log     *slog.Logger
	now     func() time.Time
	last    func() Pass
	led     func() map[string]bool // providers that this process leads
	request func(id string) (*resources.Request, error)
	cleaned time.Time // the records before it are removed; only write uses it

	mu      sync.Mutex // guards the fields below
	until   time.Time  // the time until here was counted
	unsaved useHours   // what no record has
}

// useHours is the use by hour.
type useHours map[time.Time]*useHour

type useHour struct {
	seconds int64
	rows    resources.UseTable
}

func (h useHours) at(t time.Time) *useHour {
	hour := t.UTC().Truncate(time.Hour)
	if h[hour] == nil {
		h[hour] = &useHour{rows: resources.UseTable{}}
	}
	return h[hour]
}

// add adds the nodes of a pass for an interval of whole seconds. A node counts from its creation on.
func (h useHours) add(from, until time.Time, pass *Pass, led map[string]bool, prices map[string]resources.Money) {
	for end := from; from.Before(until); from = end {
		if end = from.Truncate(time.Hour).Add(time.Hour); end.After(until) {
			end = until
		}
		hour, projects := h.at(from), map[string]string{} // by user data
		hour.seconds += int64(end.Sub(from) / time.Second)
		for _, n := range pass.Observed.Records.Nodes {
			since := from
			if n.Created.After(from) {
				since = n.Created
			}
			seconds := int64(end.Sub(since) / time.Second)
			if seconds <= 0 || !led[n.Provider] {
				continue
			}
			var a resources.UseAmounts
			a.AddNode(n.State, seconds)
			price, known := prices[n.ID]
			a.Cost = price.Times(seconds)
			if !known && (n.Static || n.ExternalID != "") {
				a.Unpriced = seconds
			}
			project, parsed := projects[n.UserData]
			if !parsed {
				project = projectOf(n)
				projects[n.UserData] = project
			}
			hour.rows.Add(useGroup(&pass.Desired, n.Labels, resources.Placement{Provider: n.Provider, Pool: n.Pool}, n.Tenant, project), a)
		}
	}
}

// addAll adds the use that others contains.
func (h useHours) addAll(others useHours) {
	for t, other := range others {
		hour := h.at(t)
		hour.seconds += other.seconds
		hour.rows.AddRows(other.rows.Rows(useRows))
	}
}

func useGroup(want *resources.Desired, labels []string, at resources.Placement, tenant, project string) resources.UseGroup {
	g := resources.UseGroup{Provider: useName(at.Provider), Pool: useName(at.Pool), Tenant: useName(tenant), Project: useName(project)}
	if len(labels) > 0 {
		g.Label = useName(labels[0])
	}
	if p, ok := want.Provider(at.Provider); ok {
		g.Currency = p.Currency
	}
	return g
}

// useName bounds a name, which clients may have chosen.
func useName(name string) string {
	if len(name) <= useNameLength && utf8.ValidString(name) {
		return name
	}
	return text.Shorten(strings.ToValidUTF8(name, "?"), useNameLength)
}

// projectOf returns the project that Zuul records in a node in use.
func projectOf(n *resources.Node) string {
	var data struct {
		Project string `json:"project_name"`
	}
	if n.UserData != "" {
		_ = json.Unmarshal([]byte(n.UserData), &data) // users may record anything else
	}
	return data.Project
}

// note counts the request that a step has answered.
func (u *useRecorder) note(event reconcile.Event) {
	if event.Kind != reconcile.EventDone || event.Step.Thing != plan.ThingRequest {
		return
	}
	r, err := u.request(event.Step.Request)
	if err != nil || !r.IsDone() {
		return // canceled, or not answered yet
	}
	var a resources.UseAmounts
	switch {
	case r.State == resources.StateFulfilled:
		a.AddWait(r.Ready.Sub(r.Created))
	case r.Ready.IsZero():
		a.Failed = 1
	default:
		return // it was fulfilled and never taken
	}
	pass := u.last()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.unsaved.at(event.Time).rows.Add(useGroup(&pass.Desired, r.Labels, r.Placement, r.Tenant, ""), a)
}

// sample counts the time since the previous sample.
func (u *useRecorder) sample() {
	pass, now := u.last(), u.now().Truncate(time.Second)
	led := u.led()
	counts := len(led) > 0 && now.Sub(pass.Observed.Now) <= useGap
	var prices map[string]resources.Money
	if counts {
		prices = plan.NodePrices(pass.Desired, pass.Observed)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	from := u.until
	if u.until = now; counts && now.Sub(from) <= useGap {
		u.unsaved.add(from, now, &pass, led, prices)
	}
}

// keep samples and writes until ctx is done. write calls flush unless the daemon must not write.
func (u *useRecorder) keep(ctx context.Context, write func(flush func() error) error) {
	u.sample() // the time counts from now on
	for samples := 1; sleep(ctx, useSample); samples++ {
		u.sample()
		if samples%useFlush != 0 {
			continue
		}
		if err := write(func() error { return u.flush(ctx) }); err != nil && ctx.Err() == nil {
			u.log.Warn("the record of use could not be written", "error", err)
		}
	}
}

// finish counts the time until now, and writes all.
func (u *useRecorder) finish(ctx context.Context) error {
	if u == nil {
		return nil
	}
	u.sample()
	return u.flush(ctx)
}

// flush writes what is unsaved. After an error it stays unsaved.
func (u *useRecorder) flush(ctx context.Context) error {
	u.mu.Lock()
	unsaved := u.unsaved
	u.unsaved = useHours{}
	u.mu.Unlock()
	if len(unsaved) == 0 {
		return nil
	}
	err := u.write(ctx, unsaved)
	if err != nil {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.unsaved.addAll(unsaved)
	}
	return err
}

// write adds use to the records of its hours, and removes the records that are too old. Only this process writes them. A list of
// all records may be large, so write names the old ones by their time.
func (u *useRecorder) write(ctx context.Context, use useHours) error {
	var ops []state.Op
	var newest time.Time
	for at, hour := range use {
		record, rows := &resources.Use{Hour: at, Seconds: hour.seconds}, resources.UseTable{}
		entry, err := u.store.Get(ctx, record.Key())
		if err != nil && !errors.Is(err, state.ErrNotFound) {
			return err
		}
		if before, ok := entry.Record.(*resources.Use); ok {
			record.Seconds += before.Seconds
			rows.AddRows(before.Rows)
		}
		rows.AddRows(hour.rows.Rows(len(hour.rows)))
		record.Rows = rows.Rows(useRows)
		ops = append(ops, state.Op{Record: record, Revision: entry.Revision})
		if at.After(newest) {
			newest = at
		}
	}
	oldest := newest.Add(-resources.UseKept)
	if u.cleaned.IsZero() {
		u.cleaned = oldest.Add(-useForgotten * time.Hour)
	}
	for at := u.cleaned; at.Before(oldest); at = at.Add(time.Hour) {
		ops = append(ops, state.Op{Key: (&resources.Use{Hour: at}).Key(), Force: true})
	}
	if _, err := u.store.Commit(ctx, ops...); err != nil {
		return err
	}
	if oldest.After(u.cleaned) {
		u.cleaned = oldest
	}
	return nil
}
