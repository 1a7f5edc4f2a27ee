//go:build integration

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/npctl/npctl/internal/terminal"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/bolt"
)

// movable is a directory with the configurations of a state in a file and of the same state in ZooKeeper, in a separate
// chroot.
type movable struct {
	dir, chroot string
	raw         *zk.Conn
}

func newMovable(t *testing.T, privateFile string) *movable {
	t.Helper()
	env := func(name string) string {
		value := os.Getenv("NPCTL_TEST_ZOOKEEPER" + name)
		if value == "" {
			t.Fatalf("NPCTL_TEST_ZOOKEEPER%s is not set: see test/zookeeper", name)
		}
		return value
	}
	m := &movable{dir: t.TempDir(), chroot: "/npctl-test-" + uuid.NewString()}
	var err error
	if m.raw, _, err = zk.Connect([]string{env("_PLAIN")}, 10*time.Second, zk.WithLogInfo(false)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.raw.Close)
	if _, err := m.raw.Create(m.chroot, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.remove(m.chroot) })
	hosts := `"` + strings.ReplaceAll(env(""), ",", `","`) + `"`
	m.write(t, "file.hcl", `npctl { 
  state "bolt" { path = "npctl.db" }
}
provider "static" "hall" {
  pool "main" {}
}`)
	m.write(t, "zookeeper.hcl", fmt.Sprintf(`npctl {
  state "zookeeper" {
    hosts           = [%s]
    chroot          = %q
    session_timeout = "2s"
    file            = %q
    tls {
      cert = %q
      key  = %q
      ca   = %q
    }
  }
}`, hosts, m.chroot, privateFile, env("_CERT"), env("_KEY"), env("_CA")))
	return m
}

func (m *movable) write(t *testing.T, name, text string) {
	t.Helper()
	testutil.WriteFile(t, filepath.Join(m.dir, name), text)
}

func (m *movable) remove(path string) {
	names, _, err := m.raw.Children(path)
	if err != nil {
		return
	}
	for _, name := range names {
		m.remove(path + "/" + name)
	}
	_ = m.raw.Delete(path, -1)
}

func (m *movable) app(config string) (*app, *bytes.Buffer) {
	var out bytes.Buffer
	a := newApp(terminal.Streams{In: strings.NewReader(""), Out: &out, Err: &out}, func(string) (string, bool) { return "", false })
	a.global.config = filepath.Join(m.dir, config)
	return a, &out
}

// migrate moves the state to the location in a configuration. after may interrupt the migration. It repeats the command when
// the short session ended because the machine was busy, as its error says; a migration resumes then.
func (m *movable) migrate(t *testing.T, config string, after func(string) error, with ...func(*migrateCommand)) (string, error) {
	t.Helper()
	a, out := m.app(config)
	c := &migrateCommand{app: a, after: after, lockTimeout: 10 * time.Second}
	if config == "zookeeper.hcl" {
		c.from = filepath.Join(m.dir, "npctl.db")
	} else {
		c.fromConfig = filepath.Join(m.dir, "zookeeper.hcl")
	}
	for _, f := range with {
		f(c)
	}
	err := c.run(t.Context(), nil)
	for range 3 {
		if err == nil || !strings.Contains(err.Error(), "the connection to ZooKeeper was lost") {
			break
		}
		t.Log(err)
		err = c.run(t.Context(), nil)
	}
	return out.String(), err
}

// open opens the state in the way of any command.
func (m *movable) open(t *testing.T, config string) (stateStore, error) {
	t.Helper()
	a, _ := m.app(config)
	place, err := a.findState()
	if err != nil {
		return nil, err
	}
	return place.open(t.Context(), writeState)
}

func (m *movable) records(t *testing.T, config string) (map[resources.Key]resources.Record, state.Identity) {
	t.Helper()
	s, err := m.open(t, config)
	testutil.Must(t, err)
	defer s.Close() //nolint:errcheck // read-only file
	entries, err := s.List(t.Context())
	testutil.Must(t, err)
	id, err := s.Identity(t.Context())
	testutil.Must(t, err)
	return byKey(entries), id
}

func never(string) error { return nil }

var errCut = errors.New("cut short")

// cutAt returns a function that interrupts a migration after n steps.
func cutAt(n int) (after func(string) error, at *string) {
	at = new(string)
	return func(what string) error {
		if n--; n < 0 {
			*at = what
			return errCut
		}
		return nil
	}, at
}

// fleet returns records of all kinds and states.
func fleet() []resources.Record {
	at := time.Date(2026, 11, 20, 8, 30, 0, 123456789, time.UTC)
	build := strings.ReplaceAll(uuid.NewString(), "-", "")
	node := func(n int, in resources.State, change func(*resources.Node)) *resources.Node {
		r := &resources.Node{ID: fmt.Sprintf("%010d", n), State: in, StateTime: at, Created: at.Add(-time.Minute), Provider: "cloud", Pool: "main",
			Labels: []string{"small"}, Hash: "v1:1", ExternalID: fmt.Sprintf("server-%d", n), Image: "diskimage.debian", Upload: "0000000007",
			Login: resources.Login{Username: "debian", ConnectionPort: 2222}, Attributes: map[string]string{"rack": "7"}}
		if change != nil {
			change(r)
		}
		return r
	}
	all := []resources.Record{
		&resources.ProviderRecord{Name: "cloud", Driver: "sandbox", Config: []byte(`{}`), Frozen: true},
		&resources.ImageRecord{Name: "debian", Kind: resources.DiskImage, Paused: true, PauseReason: "it does not boot"},
		&resources.Template{Hash: "v1:1", Static: map[string]string{"flavor": "small"}},
		&resources.History{Subject: "build/debian", Seconds: []float64{3, 4}},
		&resources.Build{ID: build, Image: "debian", Kind: resources.DiskImage, State: resources.StateReady, StateTime: at, Created: at, Builder: "dib",
			Host: "here", HostID: "1", Hash: "v1:2", Files: []resources.ImageFile{{Format: "qcow2", Name: "debian.qcow2", Size: 5, SHA256: "x", MD5: "y"}}},
		&resources.Upload{ID: "0000000007", Image: "debian", Build: build, Provider: "cloud", State: resources.StateReady, StateTime: at, Created: at,
			Format: "qcow2", ExternalID: "image-7", Size: 5},
		&resources.Upload{ID: "0000000009", Image: "debian", Build: build, Provider: "cloud", State: resources.StateDeleting, StateTime: at, Created: at,
			Format: "qcow2", ExternalID: "image-9"},
		&resources.Trial{Upload: "0000000007", Build: build, Launched: at, Validated: at, Passed: 1},
		node(3, resources.StateBuilding, nil),
		node(4, resources.StateInUse, func(n *resources.Node) {
			n.Requestor, n.Request, n.Lease = "ci", "0000000002", &resources.Lease{Holder: "ci", Until: at.Add(time.Hour), Seconds: 60}
		}),
		node(5, resources.StateHold, func(n *resources.Node) { n.HoldUntil, n.Comment = at.Add(2*time.Hour), "look at it" }),
		node(6, resources.StateFailed, func(n *resources.Node) { n.Error = "no valid host" }),
		node(8, resources.StateDeleting, nil),
		&resources.Request{ID: "0000000002", State: resources.StateFailed, StateTime: at, Created: at, Labels: []string{"small"}, Priority: 200},
	}
	for n := 100; n < 210; n++ { // more than one batch
		all = append(all, node(n, resources.StateReady, nil))
	}
	return all
}

// fill creates the state file with the given records.
func (m *movable) fill(t *testing.T, records []resources.Record) state.Identity {
	t.Helper()
	file, err := bolt.Open(bolt.Options{Path: filepath.Join(m.dir, "npctl.db"), Version: "0.1.0"})
	testutil.Must(t, err)
	defer file.Close() //nolint:errcheck // all data is written already
	id, err := file.Identity(t.Context())
	testutil.Must(t, err)
	doc := bolt.NewDocument("0.1.0")
	doc.Lineage = id.Lineage
	for _, r := range records {
		testutil.Must(t, doc.Add(r))
	}
	doc.Sequences[resources.KindNode], doc.Sequences[resources.KindUpload] = 5000, 12
	testutil.Must(t, file.ReplaceAll(t.Context(), doc, bolt.RoleChange{}))
	return id
}

// expect returns the records to expect after a migration: all except requests.
func expect(records []resources.Record, change func(resources.Record) resources.Record) map[resources.Key]resources.Record {
	want := map[resources.Key]resources.Record{}
	for _, r := range records {
		if r.Key().Kind != resources.KindRequest {
			want[r.Key()] = change(r)
		}
	}
	return want
}

func sameRecords(t *testing.T, what string, got, want map[resources.Key]resources.Record) {
	t.Helper()
	for key, r := range want {
		if other, ok := got[key]; !ok || !equalRecords(r, other) {
			t.Errorf("%s: %s is %+v, want %+v", what, key, other, r)
		}
	}
	for key := range got {
		if want[key] == nil {
			t.Errorf("%s: %s has come from nowhere", what, key)
		}
	}
}

func TestMigrationThereAndBack(t *testing.T) {
	t.Parallel()
	for name, private := range map[string]string{"one file": "npctl.db", "two files": "private.db"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMovable(t, private)
			all := fleet()
			made := m.fill(t, all)
			out, err := m.migrate(t, "zookeeper.hcl", never)
			testutil.Must(t, err)
			if !strings.Contains(out, "Moved 115 nodes, 2 uploads and 1 build") || !strings.Contains(out, "All 119 were read back") {
				t.Errorf("migrate says %s", out)
			}
			got, id := m.records(t, "zookeeper.hcl")
			sameRecords(t, "there", got, expect(all, forZooKeeper))
			if id.Lineage != made.Lineage || id.HashKey != made.HashKey {
				t.Errorf("the lineage there is %s, want %s, or the hash key is another", id.Lineage, made.Lineage)
			}
			if used := got[resources.Key{Kind: resources.KindNode, ID: "0000000004"}].(*resources.Node); used.Requestor != plan.OwnRequestor+"ci" {
				t.Errorf("a node in use is %q's there, so that its user is taken for gone", used.Requestor)
			}
			if there, _, err := m.raw.Exists(m.chroot + "/nodepool/images/debian/pause"); err != nil || !there {
				t.Errorf("the image is paused in ZooKeeper: %t, %v", there, err)
			}
			if there, _, err := m.raw.Exists(m.chroot + "/npctl/frozen/cloud"); err != nil || !there {
				t.Errorf("the provider is frozen in ZooKeeper: %t, %v", there, err)
			}
			m.freezeElsewhere(t, "hall", "theirs")
			if _, err := m.open(t, "file.hcl"); err == nil {
				t.Error("the file can be used as a state though that was moved")
			}
			m.newIDs(t)
			if out, err = m.migrate(t, "file.hcl", never); err != nil {
				t.Fatal(err)
			}
			want := expect(all, func(r resources.Record) resources.Record { return r })
			want[resources.Key{Kind: resources.KindNode, ID: "0000005001"}] = nil
			got, id = m.records(t, "file.hcl")
			fresh := got[resources.Key{Kind: resources.KindNode, ID: "0000005001"}]
			want[fresh.Key()] = fresh
			hall := resources.Key{Kind: resources.KindProvider, ID: "hall"}
			want[hall] = got[hall]
			if r, ok := got[hall].(*resources.ProviderRecord); !ok || !r.Frozen || r.Driver != "static" {
				t.Errorf("a provider that another process has frozen is %+v", got[hall])
			}
			if names, _, err := m.raw.Children(m.chroot + "/npctl/frozen"); err != nil || len(names) != 1 || names[0] != "theirs" {
				t.Errorf("frozen in ZooKeeper are %q, %v after everything has left", names, err)
			}
			sameRecords(t, "back", got, want)
			if id.Lineage != made.Lineage || id.HashKey != made.HashKey {
				t.Errorf("the lineage back here is %s, want %s, or the hash key is another", id.Lineage, made.Lineage)
			}
			if !strings.Contains(out, "Moved 116 nodes") {
				t.Errorf("migrate says %s", out)
			}
			if there, _, err := m.raw.Exists(m.chroot + "/nodepool/images/debian/pause"); err != nil || there {
				t.Errorf("the image is paused in ZooKeeper after everything has left: %t, %v", there, err)
			}
			for _, dir := range []string{"/nodepool/nodes", "/nodepool/images/debian/builds"} {
				if names, _, err := m.raw.Children(m.chroot + dir); err != nil || len(names) > 0 {
					t.Errorf("%s has %q, %v after everything has left", dir, names, err)
				}
			}
			if _, err := m.open(t, "zookeeper.hcl"); err == nil {
				t.Error("ZooKeeper can be used with a file that has become the state")
			}
		})
	}
}

// freezeElsewhere freezes providers as another process, without a record in the private file.
func (m *movable) freezeElsewhere(t *testing.T, providers ...string) {
	t.Helper()
	s, err := m.open(t, "zookeeper.hcl")
	testutil.Must(t, err)
	for _, provider := range providers {
		if err := s.(state.Shared).FreezeProvider(t.Context(), provider, true); err != nil {
			t.Error(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// newIDs creates a node and checks that it gets an ID that was never assigned.
func (m *movable) newIDs(t *testing.T) {
	t.Helper()
	s, err := m.open(t, "zookeeper.hcl")
	testutil.Must(t, err)
	defer s.Close() //nolint:errcheck // all data is written already
	n := &resources.Node{State: resources.StateReady, Created: time.Now().UTC(), Provider: "cloud", Pool: "main", Labels: []string{"small"}}
	if _, err := s.Commit(t.Context(), state.Op{Record: n}); err != nil {
		t.Fatal(err)
	}
	if n.ID != "0000005001" {
		t.Errorf("a new node got the id %s, and up to 5000 were given before", n.ID)
	}
}

func TestInterruptedMigrationResumes(t *testing.T) {
	t.Parallel()
	for name, private := range map[string]string{"one file": "npctl.db", "two files": "private.db"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cuts := 0
			for done := false; !done; cuts++ {
				m := newMovable(t, private)
				all := fleet()
				m.fill(t, all)
				after, at := cutAt(cuts)
				_, err := m.migrate(t, "zookeeper.hcl", after)
				if done = err == nil; !done && !errors.Is(err, errCut) {
					t.Fatal(err)
				}
				if !done {
					m.nobodyGetsIn(t, "zookeeper.hcl", "into ZooKeeper, cut when "+*at)
					if _, err := m.migrate(t, "zookeeper.hcl", never); err != nil {
						t.Fatalf("into ZooKeeper, cut when %s: %v", *at, err)
					}
				}
				got, _ := m.records(t, "zookeeper.hcl")
				sameRecords(t, "into ZooKeeper, cut when "+*at, got, expect(all, forZooKeeper))
			}
			if cuts < 7 {
				t.Errorf("there were only %d places to cut", cuts)
			}
		})
	}
}

// nobodyGetsIn checks that a command cannot open an incomplete state.
func (m *movable) nobodyGetsIn(t *testing.T, config, when string) {
	t.Helper()
	if s, err := m.open(t, config); err == nil {
		t.Errorf("%s: a command has opened half a state", when)
		_ = s.Close()
	}
}

func TestInterruptedMigrationBackResumes(t *testing.T) {
	t.Parallel()
	for name, private := range map[string]string{"one file": "npctl.db", "two files": "private.db"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cuts := 0
			for done := false; !done; cuts++ {
				m := newMovable(t, private)
				all := fleet()
				m.fill(t, all)
				if _, err := m.migrate(t, "zookeeper.hcl", never); err != nil {
					t.Fatal(err)
				}
				after, at := cutAt(cuts)
				_, err := m.migrate(t, "file.hcl", after)
				if done = err == nil; !done && !errors.Is(err, errCut) {
					t.Fatal(err)
				}
				if !done {
					if _, err := m.migrate(t, "file.hcl", never); err != nil {
						t.Fatalf("back, cut when %s: %v", *at, err)
					}
				}
				got, _ := m.records(t, "file.hcl")
				sameRecords(t, "back, cut when "+*at, got, expect(all, func(r resources.Record) resources.Record { return r }))
				if names, _, err := m.raw.Children(m.chroot + "/nodepool/nodes"); err != nil || len(names) > 0 {
					t.Errorf("back, cut when %s: ZooKeeper still has %d nodes, %v", *at, len(names), err)
				}
			}
			if cuts < 5 {
				t.Errorf("there were only %d places to cut", cuts)
			}
		})
	}
}

func TestMigrationRefusesRecordsOfOtherProcesses(t *testing.T) {
	t.Parallel()
	m := newMovable(t, "npctl.db")
	m.fill(t, fleet())
	for _, dir := range []string{"/nodepool", "/nodepool/nodes"} {
		if _, err := m.raw.Create(m.chroot+dir, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
	}
	theirs := `{"state": "ready", "state_time": 1795204849.5, "created_time": 1795204800.5, "provider": "theirs", "pool": "main", "type": ["x"]}`
	if _, err := m.raw.Create(m.chroot+"/nodepool/nodes/0000000005", []byte(theirs), 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	if _, err := m.migrate(t, "zookeeper.hcl", never); err == nil || !strings.Contains(err.Error(), "node/0000000005") {
		t.Errorf("a node of another's under the same id: %v", err)
	}
	if _, _, err := m.raw.Get(m.chroot + "/nodepool/nodes/0000000004"); !errors.Is(err, zk.ErrNoNode) {
		t.Errorf("something was written though the move was refused: %v", err)
	}
	got, _ := m.records(t, "file.hcl") // the file is still the state
	if len(got) != len(fleet()) {
		t.Errorf("the file has %d records, want %d", len(got), len(fleet()))
	}
	if data, _, err := m.raw.Get(m.chroot + "/nodepool/nodes/0000000005"); err != nil || string(data) != theirs {
		t.Errorf("their node is %s, %v", data, err)
	}
}

func TestMigrationRefusesOpenRequestsAndServedProviders(t *testing.T) {
	t.Parallel()
	m := newMovable(t, "npctl.db")
	all := fleet()
	request := all[slices.IndexFunc(all, func(r resources.Record) bool { return r.Key().Kind == resources.KindRequest })].(*resources.Request)
	request.State = resources.StatePending
	m.fill(t, all)
	if _, err := m.migrate(t, "zookeeper.hcl", never); err == nil || !strings.Contains(err.Error(), "1 request is still open") {
		t.Errorf("with an open request: %v", err)
	}
	request.State = resources.StateFailed
	m.fill(t, all)
	if _, err := m.migrate(t, "zookeeper.hcl", never); err != nil {
		t.Fatal(err)
	}
	s, err := m.open(t, "zookeeper.hcl")
	testutil.Must(t, err)
	defer s.Close() //nolint:errcheck // only releases locks
	short := func(c *migrateCommand) { c.lockTimeout = 100 * time.Millisecond }
	for _, name := range []string{state.ProviderLock("cloud"), state.ImageLock("debian"), state.ImagesLock} {
		lock, err := s.Lock(t.Context(), name, state.Holder{Operation: "watch"})
		testutil.Must(t, err)
		if _, err := m.migrate(t, "file.hcl", never, short); !errors.Is(err, state.ErrLocked) || !strings.Contains(err.Error(), name) {
			t.Errorf("while another process has the lock %s: %v", name, err)
		}
		testutil.Must(t, lock.Unlock(context.Background()))
	}
	claim, _, err := s.(state.Shared).Claim(t.Context(), resources.Key{Kind: resources.KindNode, ID: "0000000100"})
	testutil.Must(t, err)
	if _, err := m.migrate(t, "file.hcl", never); err == nil || !strings.Contains(err.Error(), "in use by clients") || !strings.Contains(err.Error(), "node/0000000100") {
		t.Errorf("with a node that somebody has: %v", err)
	}
	testutil.Must(t, claim.Unlock(context.Background()))
	if _, err := m.migrate(t, "file.hcl", never); err != nil {
		t.Error(err)
	}
}

func TestMigrationSkipsRecordsOfOtherProcesses(t *testing.T) {
	t.Parallel()
	m := newMovable(t, "npctl.db")
	all := fleet()
	m.fill(t, all)
	if _, err := m.migrate(t, "zookeeper.hcl", never); err != nil {
		t.Fatal(err)
	}
	theirs := `{"state": "in-use", "state_time": 1795204849.5, "created_time": 1795204800.5, "provider": "theirs", "pool": "main", "type": ["x"]}`
	at, err := m.raw.Create(m.chroot+"/nodepool/nodes/", []byte(theirs), zk.FlagSequence, zk.WorldACL(zk.PermAll))
	testutil.Must(t, err)
	out, err := m.migrate(t, "file.hcl", never)
	testutil.Must(t, err)
	if !strings.Contains(out, "1 record is left where they are") {
		t.Errorf("migrate says %s", out)
	}
	if data, _, err := m.raw.Get(at); err != nil || string(data) != theirs {
		t.Errorf("their node is %s, %v", data, err)
	}
	got, _ := m.records(t, "file.hcl")
	sameRecords(t, "back", got, expect(all, func(r resources.Record) resources.Record { return r }))
}

func TestMigrationGivesUploadsOfNodepoolIDsOfTheFile(t *testing.T) {
	t.Parallel()
	m := newMovable(t, "npctl.db")
	m.fill(t, fleet()[:2])
	if _, err := m.migrate(t, "zookeeper.hcl", never); err != nil {
		t.Fatal(err)
	}
	build := strings.Repeat("ab", 16)
	at := ""
	for _, part := range []string{"/nodepool/images/debian", "/builds", "/" + build, "/providers", "/cloud", "/images", "/0000000001"} {
		at += part
		data := ""
		switch {
		case strings.HasSuffix(part, build):
			data = `{"state": "ready", "state_time": 1795204849.5, "builder": "nb01", "builder_id": "2", "formats": "qcow2"}`
		case part == "/0000000001":
			data = `{"state": "ready", "state_time": 1795204849.5, "external_id": "image-x", "external_name": "debian-1", "format": "qcow2"}`
		}
		if _, err := m.raw.Create(m.chroot+at, []byte(data), 0, zk.WorldACL(zk.PermAll)); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			t.Fatal(err)
		}
	}
	node := fmt.Sprintf(`{"state": "ready", "state_time": 1795204849.5, "created_time": 1795204800.5, "provider": "cloud", "pool": "main", "type": ["x"], "image_id": %q}`, at)
	if _, err := m.raw.Create(m.chroot+"/nodepool/nodes/", []byte(node), zk.FlagSequence, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	if _, err := m.migrate(t, "file.hcl", never); err != nil {
		t.Fatal(err)
	}
	got, _ := m.records(t, "file.hcl")
	upload, ok := got[resources.Key{Kind: resources.KindUpload, ID: "0000000013"}].(*resources.Upload)
	if !ok || upload.ExternalID != "image-x" || upload.Build != build {
		t.Errorf("the upload is %+v", upload)
	}
	n, ok := got[resources.Key{Kind: resources.KindNode, ID: "0000005001"}].(*resources.Node)
	if !ok {
		t.Fatal("the node has not come along")
	}
	if diff := cmp.Diff("0000000013", n.Upload); diff != "" {
		t.Errorf("the node's upload: %s", diff)
	}
}

func TestMigrationCanBeAbandoned(t *testing.T) {
	t.Parallel()
	m := newMovable(t, "npctl.db")
	all := fleet()
	m.fill(t, all)
	after, _ := cutAt(2)
	if _, err := m.migrate(t, "zookeeper.hcl", after); !errors.Is(err, errCut) {
		t.Fatal(err)
	}
	m.nobodyGetsIn(t, "file.hcl", "while the state moves")
	if _, err := m.migrate(t, "file.hcl", never, func(c *migrateCommand) { c.fromConfig, c.abandon = "", true }); err != nil {
		t.Fatal(err)
	}
	s, err := m.open(t, "file.hcl") // the file can be used again
	testutil.Must(t, err)
	gone := resources.Key{Kind: resources.KindNode, ID: "0000000100"}
	if _, err := s.Commit(t.Context(), state.Op{Key: gone, Force: true}); err != nil {
		t.Fatal(err)
	}
	held := resources.Key{Kind: resources.KindNode, ID: "0000000005"}
	e, err := s.Get(t.Context(), held)
	testutil.Must(t, err)
	e.Record.(*resources.Node).Comment = "changed meanwhile"
	if _, err := s.Commit(t.Context(), state.Op{Record: e.Record, Revision: e.Revision}); err != nil {
		t.Fatal(err)
	}
	testutil.Must(t, s.Close())
	if _, err := m.migrate(t, "zookeeper.hcl", never); err != nil {
		t.Fatal(err)
	}
	got, _ := m.records(t, "zookeeper.hcl")
	if n := got[held].(*resources.Node); n.Comment != "changed meanwhile" {
		t.Errorf("an older copy has stayed: %+v", n)
	}
}

func byKey(entries []state.Entry) map[resources.Key]resources.Record {
	records := make(map[resources.Key]resources.Record, len(entries))
	for _, e := range entries {
		records[e.Record.Key()] = e.Record
	}
	return records
}

// forZooKeeper returns a record of a file in its form for ZooKeeper, where a prefix marks the nodes of npctl's own API.
func forZooKeeper(record resources.Record) resources.Record {
	if n, ok := record.(*resources.Node); ok && (n.State == resources.StateInUse || n.State == resources.StateHold) {
		moved := *n
		moved.Requestor = plan.OwnRequestor + strings.TrimPrefix(n.Requestor, plan.OwnRequestor)
		return &moved
	}
	return record
}

// equalRecords reports whether two records have equal fields. A missing field, null and an empty list are equal.
func equalRecords(a, b resources.Record) bool {
	fields := func(r resources.Record) map[string]any {
		var all map[string]any
		if text, err := json.Marshal(r); err != nil || json.Unmarshal(text, &all) != nil {
			return map[string]any{"": r}
		}
		maps.DeleteFunc(all, func(_ string, value any) bool {
			list, ok := value.([]any)
			return value == nil || ok && len(list) == 0
		})
		return all
	}
	return reflect.DeepEqual(fields(a), fields(b))
}
