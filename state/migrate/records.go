package migrate

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/npctl/npctl/internal/hints"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/location"
)

// migratedKinds lists the kinds that are private in a file and shared in ZooKeeper, in the order of writing: a record
// follows the records that it refers to.
var migratedKinds = []resources.Kind{resources.KindBuild, resources.KindUpload, resources.KindTrial, resources.KindNode}

// openRequests returns an error if a request is open. Requests do not move: they are short-lived, and the other store
// assigns other IDs.
func openRequests(entries []state.Entry, ours func(*resources.Request) bool) error {
	var open []string
	for _, e := range entries {
		if r, ok := e.Record.(*resources.Request); ok && r.State != resources.StateFailed && ours(r) {
			open = append(open, r.ID)
		}
	}
	if len(open) == 0 {
		return nil
	}
	return hints.Add(fmt.Errorf("%s still open, and requests do not move: %s", text.Count(len(open), "request is", "requests are"), someOf(open)),
		"start npctl watch again until they are fulfilled and taken, or cancel them with npctl request cancel")
}

// forZooKeeper converts a record for ZooKeeper, where users claim the nodes that they use. Users of npctl's own API
// cannot claim nodes, so a prefix of the requestor marks their nodes.
func forZooKeeper(record resources.Record) resources.Record {
	n, ok := record.(*resources.Node)
	if !ok || !n.State.IsInService() || strings.HasPrefix(n.Requestor, plan.OwnRequestor) {
		return record
	}
	moved := *n
	moved.Requestor = plan.OwnRequestor + n.Requestor
	return &moved
}

// forFile converts a record for a file, where only npctl assigns nodes. A node in use without the prefix in its
// requestor becomes used, because no process claims it.
func forFile(record resources.Record, uploads map[string]string) resources.Record {
	switch r := record.(type) {
	case *resources.Upload:
		moved := *r
		moved.ID = cmp.Or(uploads[r.ID], r.ID)
		return &moved
	case *resources.Trial:
		moved := *r
		moved.Upload = cmp.Or(uploads[r.Upload], r.Upload)
		return &moved
	case *resources.Node:
		moved := *r
		moved.Upload = cmp.Or(uploads[r.Upload], r.Upload)
		own := strings.HasPrefix(r.Requestor, plan.OwnRequestor)
		moved.Requestor = strings.TrimPrefix(r.Requestor, plan.OwnRequestor)
		switch r.State {
		case resources.StateInUse:
			if !own {
				moved.State = resources.StateUsed
			}
		case resources.StateInit, resources.StateBuilding, resources.StateReady:
			moved.Request = "" // requests do not move
		}
		return &moved
	default:
		return record
	}
}

// numberUploads assigns IDs in the format of a file to the uploads that Nodepool created. last is the highest ID in
// use.
func numberUploads(records []resources.Record, last uint64) (ids map[string]string, highest uint64) {
	ids = map[string]string{}
	for _, r := range records {
		if u, ok := r.(*resources.Upload); ok && strings.Contains(u.ID, "/") {
			last++
			ids[u.ID] = fmt.Sprintf("%010d", last)
		}
	}
	return ids, last
}

// sortCargo sorts records into the order of writing.
func sortCargo(records []resources.Record) {
	slices.SortStableFunc(records, func(a, b resources.Record) int {
		return cmp.Or(slices.Index(migratedKinds, a.Key().Kind)-slices.Index(migratedKinds, b.Key().Kind), strings.Compare(a.Key().ID, b.Key().ID))
	})
}

// comparison is the difference between the records to move and those at the target.
type comparison struct {
	write []resources.Record
	equal int
	// others are the keys of records at the target that have the ID of a moved record and describe another object.
	others []string
}

func compareCargo(cargo []resources.Record, there map[resources.Key]resources.Record) comparison {
	var c comparison
	for _, r := range cargo {
		other, found := there[r.Key()]
		switch {
		case found && equalRecords(r, other):
			c.equal++
		case found && !sameThing(r, other):
			c.others = append(c.others, r.Key().String())
		default:
			c.write = append(c.write, r)
		}
	}
	return c
}

func (c comparison) refuse(to location.Location) error {
	if len(c.others) == 0 {
		return nil
	}
	return hints.Add(fmt.Errorf("%s has other records under the ids of %s: %s", to, text.Count(len(c.others), "one", "some"), someOf(c.others)),
		"wait until those are deleted, or use a separate chroot; nothing was moved")
}

// sameThing reports whether two records describe the same object, perhaps at different times.
func sameThing(a, b resources.Record) bool {
	switch a := a.(type) {
	case *resources.Node:
		b, ok := b.(*resources.Node)
		return ok && a.Provider == b.Provider && a.Pool == b.Pool && a.Created.Truncate(time.Millisecond).Equal(b.Created.Truncate(time.Millisecond))
	case *resources.Upload:
		b, ok := b.(*resources.Upload)
		return ok && a.Image == b.Image && a.Build == b.Build && a.Provider == b.Provider
	case *resources.Build:
		b, ok := b.(*resources.Build)
		return ok && a.Image == b.Image
	default:
		return false
	}
}

// equalRecords reports whether two records have equal fields. A missing field, null and an empty list are equal.
func equalRecords(a, b resources.Record) bool {
	one, err1 := plainRecord(a)
	other, err2 := plainRecord(b)
	return err1 == nil && err2 == nil && reflect.DeepEqual(one, other)
}

func plainRecord(r resources.Record) (map[string]any, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, err
	}
	for name, value := range fields {
		if list, ok := value.([]any); value == nil || ok && len(list) == 0 {
			delete(fields, name)
		}
	}
	return fields, nil
}

// verifyCargo returns an error that lists the records that differ from those written.
func verifyCargo(cargo []resources.Record, there map[resources.Key]resources.Record) error {
	var wrong []string
	for _, r := range cargo {
		if other, ok := there[r.Key()]; !ok || !equalRecords(r, other) {
			wrong = append(wrong, r.Key().String())
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return hints.Add(fmt.Errorf("read back, %s not what was written: %s", text.Count(len(wrong), "record is", "records are"), someOf(wrong)),
		"another process has changed them: stop it, and migrate again")
}

func byKey(entries []state.Entry) map[resources.Key]resources.Record {
	records := make(map[resources.Key]resources.Record, len(entries))
	for _, e := range entries {
		records[e.Record.Key()] = e.Record
	}
	return records
}

// batches splits records into batches, each written in one transaction.
func batches(records []resources.Record) (pieces [][]resources.Record) {
	const most, mostBytes = 100, 256 << 10
	var piece []resources.Record
	size := 0
	for _, r := range records {
		text, err := json.Marshal(r)
		if n := len(text); err == nil && len(piece) > 0 && (len(piece) == most || size+n > mostBytes) {
			pieces, piece, size = append(pieces, piece), nil, 0
		}
		piece, size = append(piece, r), size+len(text)
	}
	if len(piece) > 0 {
		pieces = append(pieces, piece)
	}
	return pieces
}

// someOf joins the first names of a list and counts the others.
func someOf(names []string) string {
	const shown = 5
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}

// inUseByOthers returns an error if another process claims one of the records.
func inUseByOthers(cargo []resources.Record, claimed map[resources.Key]bool) error {
	var used []string
	for _, r := range cargo {
		if claimed[r.Key()] {
			used = append(used, r.Key().String())
		}
	}
	if len(used) == 0 {
		return nil
	}
	return hints.Add(fmt.Errorf("%s in use by clients, which would lose them: %s", text.Count(len(used), "record is", "records are"), someOf(used)),
		"wait until they are returned, or disable the labels in Zuul first")
}

// servedByOthers returns an error if another process, such as a Nodepool launcher, serves one of the providers.
func servedByOthers(peers []resources.RegisteredPool, providers map[string]bool) error {
	for _, p := range peers {
		if providers[p.Provider] && !p.Own {
			return hints.Add(fmt.Errorf("provider %s is served by %s (pool %s)", p.Provider, p.Host, p.Pool), "stop that process first; the registration of a killed process ends with its session")
		}
	}
	return nil
}

var errNothing = errors.New("there is no state to move")
