package migrate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/bolt"
)

func entriesOf(records ...resources.Record) (entries []state.Entry) {
	for i, r := range records {
		entries = append(entries, state.Entry{Record: r, Revision: state.Revision(i + 1)})
	}
	return entries
}

// keysOf lists records, with the state and the request of nodes.
func keysOf(records []resources.Record) (keys []string) {
	for _, r := range records {
		key := r.Key().String()
		if n, ok := r.(*resources.Node); ok {
			key = strings.TrimSpace(fmt.Sprintf("%s %s %s %s", key, n.State, n.Requestor, n.Request))
		}
		keys = append(keys, key)
	}
	return keys
}

func TestImportPlan(t *testing.T) {
	build := &resources.Build{ID: strings.Repeat("a", 32), Image: "debian"}
	upload := &resources.Upload{ID: "0000000001", Image: "debian", Build: build.ID, Provider: "cloud"}
	used := &resources.Node{ID: "0000000002", State: resources.StateInUse, Requestor: "ci", Provider: "cloud"}
	ready := &resources.Node{ID: "0000000001", State: resources.StateReady, Provider: "cloud"}
	ours := plan.OwnRequestor + "ci"
	open := &resources.Request{ID: "200-0000000001", State: resources.StatePending}
	failed := &resources.Request{ID: "200-0000000002", State: resources.StateFailed}
	paused := &resources.ImageRecord{Name: "debian", Paused: true}
	frozen := &resources.ProviderRecord{Name: "cloud", Frozen: true}
	others := []resources.Record{&resources.ImageRecord{Name: "fedora"}, &resources.ProviderRecord{Name: "rack"}}
	type want struct {
		records, private, paused, frozen []string
		requests                         int
		err                              string
	}
	for name, test := range map[string]struct {
		entries []state.Entry
		role    bolt.Role
		want    want
	}{
		"records are written after those that they refer to": {entriesOf(used, ready, upload, build), bolt.RoleState, want{
			records: []string{"build/" + build.ID, "upload/0000000001", "node/0000000001 ready", "node/0000000002 in-use " + ours}}},
		"private records and flags": {entriesOf(append(others, paused, frozen)...), bolt.RoleState, want{
			private: []string{"image/fedora", "provider/rack", "image/debian", "provider/cloud"}, paused: []string{"debian"}, frozen: []string{"cloud"}}},
		"failed requests do not move":         {entriesOf(failed), bolt.RoleState, want{requests: 1}},
		"an open request prevents it":         {entriesOf(open), bolt.RoleMigrating, want{requests: 1, err: "200-0000000001"}},
		"after the move requests are ignored": {entriesOf(open), bolt.RoleMigrated, want{requests: 1}},
		"an empty state":                      {nil, bolt.RoleState, want{}},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := planImport(test.entries, test.role)
			got := want{keysOf(p.records), keysOf(p.private), p.paused, p.frozen, p.requests, test.want.err}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(want{}), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
			if (err != nil) != (test.want.err != "") || err != nil && !strings.Contains(err.Error(), test.want.err) {
				t.Errorf("error %v, want %q", err, test.want.err)
			}
		})
	}
	if used.Requestor != "ci" {
		t.Error("the record of the file was changed")
	}
}

func TestExportPlan(t *testing.T) {
	node := func(n int, provider string, s resources.State, requestor string) *resources.Node {
		return &resources.Node{ID: fmt.Sprintf("%010d", n), Provider: provider, State: s, Requestor: requestor, Request: "200-0000000001"}
	}
	build := func(id, image string) *resources.Build { return &resources.Build{ID: id, Image: image} }
	upload := func(id, image, build, provider string) *resources.Upload {
		return &resources.Upload{ID: id, Image: image, Build: build, Provider: provider}
	}
	const foreign = "debian/0000000007/cloud/0000000001" // an ID of Nodepool's
	elsewhere := state.Entry{Record: &resources.ImageRecord{Name: "fedora", Paused: true}}
	type want struct {
		records, private, unrecorded, unpause, unfreeze []string
		remove                                          []string // operations, commits separated by |
		left                                            int
		lastUpload                                      uint64
		err                                             string
	}
	for name, test := range map[string]struct {
		entries []state.Entry
		claimed resources.Record
		frozen  []string
		want    want
	}{
		"only records of the providers move": {entries: entriesOf(node(1, "cloud", resources.StateReady, ""), node(2, "other", resources.StateReady, "")),
			want: want{records: []string{"node/0000000001 ready"}, remove: []string{"node/0000000001"}, left: 1, lastUpload: 4}},
		"nodes in use by others become used": {entries: entriesOf(node(1, "cloud", resources.StateInUse, "zuul"), node(2, "cloud", resources.StateInUse, plan.OwnRequestor+"ci")),
			want: want{records: []string{"node/0000000001 used zuul 200-0000000001", "node/0000000002 in-use ci 200-0000000001"},
				remove: []string{"node/0000000001", "node/0000000002"}, lastUpload: 4}},
		"nodes are removed before uploads and builds": {entries: entriesOf(build("b1", "debian"), upload("0000000003", "debian", "b1", "cloud"), node(1, "cloud", resources.StateUsed, "")),
			want: want{records: []string{"build/b1", "upload/0000000003", "node/0000000001 used  200-0000000001"},
				remove: []string{"node/0000000001", "|", "upload/0000000003", "|", "build/b1"}, lastUpload: 4}},
		"uploads of Nodepool get IDs of the file": {entries: entriesOf(build("b1", "debian"), upload(foreign, "debian", "b1", "cloud")),
			want: want{records: []string{"build/b1", "upload/0000000005"}, remove: []string{"upload/" + foreign, "|", "build/b1"}, lastUpload: 5}},
		"trials move with their uploads": {entries: entriesOf(upload(foreign, "debian", "b1", "cloud"), upload("0000000003", "debian", "b1", "other"),
			&resources.Trial{Upload: foreign}, &resources.Trial{Upload: "0000000003"}),
			want: want{records: []string{"upload/0000000005", "trial/0000000005"}, remove: []string{"trial/" + foreign, "|", "upload/" + foreign}, left: 2, lastUpload: 5}},
		"a build with uploads elsewhere is copied": {entries: entriesOf(build("b1", "debian"), upload("0000000003", "debian", "b1", "cloud"), upload("0000000004", "debian", "b1", "other")),
			want: want{records: []string{"build/b1", "upload/0000000003"}, remove: []string{"upload/0000000003"}, left: 1, lastUpload: 4}},
		"a build of another image stays": {entries: entriesOf(build("b1", "suse"), build("b2", "debian")),
			want: want{records: []string{"build/b2"}, remove: []string{"build/b2"}, left: 1, lastUpload: 4}},
		"an image stays paused while it has builds in ZooKeeper": {
			entries: append(entriesOf(build("b1", "suse"), build("b2", "debian"), &resources.ImageRecord{Name: "suse", Paused: true},
				&resources.ImageRecord{Name: "debian", Paused: true}, &resources.ImageRecord{Name: "arch"}), elsewhere),
			want: want{records: []string{"build/b2"}, private: []string{"image/suse", "image/debian", "image/arch"}, unpause: []string{"debian"},
				remove: []string{"build/b2"}, left: 1, lastUpload: 4}},
		"freeze flags move": {entries: entriesOf(&resources.ProviderRecord{Name: "rack", Frozen: true}), frozen: []string{"cloud", "other", "rack"},
			want: want{private: []string{"provider/rack"}, unrecorded: []string{"cloud"}, unfreeze: []string{"cloud", "rack"}, lastUpload: 4}},
		"an open request of npctl prevents it": {entries: entriesOf(&resources.Request{ID: "200-0000000003", State: resources.StateRequested, Requestor: plan.OwnRequestor + "ci"}),
			want: want{err: "200-0000000003"}},
		"a request of Zuul does not": {entries: entriesOf(&resources.Request{ID: "200-0000000003", State: resources.StateRequested, Requestor: "zuul"}), want: want{lastUpload: 4}},
		"a claimed record prevents it": {entries: entriesOf(node(1, "cloud", resources.StateInUse, "zuul")), claimed: node(1, "cloud", resources.StateInUse, "zuul"),
			want: want{err: "node/0000000001"}},
		"a claimed record of another provider does not": {entries: entriesOf(node(1, "other", resources.StateInUse, "zuul")), claimed: node(1, "other", resources.StateInUse, "zuul"),
			want: want{left: 1, lastUpload: 4}},
	} {
		t.Run(name, func(t *testing.T) {
			in := exportInput{entries: test.entries, frozen: test.frozen, providers: map[string]bool{"cloud": true, "rack": true},
				desired: resources.Desired{Images: []resources.Image{{Name: "debian"}}, Providers: []resources.Provider{{Name: "cloud"}, {Name: "rack"}}},
				claimed: map[resources.Key]bool{}, sequences: map[resources.Kind]uint64{resources.KindUpload: 4}}
			if test.claimed != nil {
				in.claimed[test.claimed.Key()] = true
			}
			p, err := planExport(in)
			got := want{records: keysOf(p.records), private: keysOf(p.private), unpause: p.unpause, unfreeze: p.unfreeze, left: p.left,
				lastUpload: p.sequences[resources.KindUpload], err: test.want.err}
			for _, provider := range p.unrecorded {
				got.unrecorded = append(got.unrecorded, provider.Name)
			}
			for i, ops := range p.remove {
				if i > 0 {
					got.remove = append(got.remove, "|")
				}
				for _, op := range ops {
					got.remove = append(got.remove, op.Key.String())
				}
			}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(want{}), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
			if (err != nil) != (test.want.err != "") || err != nil && !strings.Contains(err.Error(), test.want.err) {
				t.Errorf("error %v, want %q", err, test.want.err)
			}
		})
	}
}

func TestRemovalsAreInBatches(t *testing.T) {
	var records []resources.Record
	for i := range 2*removeAtOnce + 1 {
		records = append(records, &resources.Node{ID: fmt.Sprintf("%010d", i), Provider: "cloud", State: resources.StateReady})
	}
	p, err := planExport(exportInput{entries: entriesOf(records...), providers: map[string]bool{"cloud": true}, sequences: map[resources.Kind]uint64{}})
	if err != nil || len(p.remove) != 3 || len(p.remove[0]) != removeAtOnce || len(p.remove[2]) != 1 {
		t.Errorf("%d commits: %v", len(p.remove), err)
	}
}

func TestLocksOfAMigration(t *testing.T) {
	entries := entriesOf(&resources.Build{ID: "b", Image: "suse"}, &resources.Upload{ID: "u", Image: "arch"})
	desired := resources.Desired{Images: []resources.Image{{Name: "debian"}}}
	got := lockNames(entries, desired, map[string]bool{"rack": true, "cloud": true})
	all := strings.Join(got, " ")
	for _, name := range []string{"arch", "debian", "suse", "cloud", "rack"} {
		if !strings.Contains(all, name) {
			t.Errorf("no lock of %s in %q", name, all)
		}
	}
	if len(got) != 6 {
		t.Errorf("%d locks, want 6: %q", len(got), all)
	}
}

func TestComparisonBeforeAnImport(t *testing.T) {
	mine := &resources.Node{ID: "0000000001", Provider: "cloud", State: resources.StateReady}
	changed, foreign := *mine, *mine
	changed.Comment, foreign.Provider = "x", "other"
	for name, test := range map[string]struct {
		there           resources.Record
		write, equal, n int
	}{
		"absent":               {nil, 1, 0, 0},
		"equal":                {mine, 0, 1, 0},
		"an earlier version":   {&changed, 1, 0, 0},
		"another one's record": {&foreign, 0, 0, 1},
	} {
		there := map[resources.Key]resources.Record{}
		if test.there != nil {
			there[mine.Key()] = test.there
		}
		c := compareCargo([]resources.Record{mine}, there)
		if len(c.write) != test.write || c.equal != test.equal || len(c.others) != test.n {
			t.Errorf("%s: %d to write, %d equal, %d of others", name, len(c.write), c.equal, len(c.others))
		}
		if err := verifyCargo([]resources.Record{mine}, there); (err == nil) != (test.equal == 1) {
			t.Errorf("%s: verified: %v", name, err)
		}
	}
}
