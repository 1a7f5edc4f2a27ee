//go:build integration

package zookeeper_test

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/bolt"
	"github.com/npctl/npctl/state/zookeeper"
	"github.com/npctl/npctl/test/zookeeper/lab"
)

// tree is a subtree of ZooKeeper for one test.
type tree struct {
	lab.Env
	chroot  string
	raw     *zk.Conn // a client without a chroot, like other programs
	private string   // file of the private store
}

func newTree(t testing.TB) *tree {
	t.Helper()
	env, err := lab.FromEnviron()
	testutil.Must(t, err)
	return newTreeIn(t, env)
}

// newTreeIn creates a tree in a ZooKeeper of the test's own.
func newTreeIn(t testing.TB, env lab.Env) *tree {
	t.Helper()
	tr := &tree{Env: env, chroot: "/npctl-test-" + uuid.NewString(), private: filepath.Join(t.TempDir(), "private.db")}
	tr.raw = tr.connect(t)
	testutil.Await(t, "the chroot is made", func() bool { // on a busy machine the library gives up before it is connected
		_, err := tr.raw.Create(tr.chroot, nil, 0, zk.WorldACL(zk.PermAll))
		if err != nil && !lab.IsLost(err) && !errors.Is(err, zk.ErrNodeExists) {
			t.Fatal(err)
		}
		return err == nil || errors.Is(err, zk.ErrNodeExists)
	})
	t.Cleanup(func() { tr.remove(t) })
	return tr
}

func (tr *tree) servers() []string { return strings.Split(tr.Hosts, ",") }

func (tr *tree) tls() zookeeper.TLS { return zookeeper.TLS{CA: tr.CA, Cert: tr.Cert, Key: tr.Key} }

// connect opens a session with the client library.
func (tr *tree) connect(t testing.TB) *zk.Conn {
	t.Helper()
	conn, err := zookeeper.Dial(tr.servers(), tr.tls())
	testutil.Must(t, err)
	t.Cleanup(conn.Close)
	return conn
}

// remove deletes the tree, many znodes per call.
func (tr *tree) remove(t testing.TB) {
	var deletes []any
	for _, path := range append(tr.all(t), "") {
		deletes = append(deletes, &zk.DeleteRequest{Path: tr.chroot + path, Version: -1})
	}
	for some := range slices.Chunk(deletes, 500) {
		_, _ = tr.raw.Multi(some...) // ephemeral znodes of a session that has just ended may disappear in the meantime
	}
}

// open opens a store as another process.
func (tr *tree) open(t testing.TB, with ...func(*zookeeper.Options)) *zookeeper.Store {
	t.Helper()
	private, err := bolt.Open(bolt.Options{Role: bolt.RolePrivate, Path: tr.private, Version: "0.1.0"})
	testutil.Must(t, err)
	secure := tr.tls()
	opts := zookeeper.Options{Hosts: tr.servers(), Chroot: tr.chroot, TLS: &secure, Private: private, Version: "0.1.0",
		Host: "launch1.example", SessionTimeout: 20 * time.Second,
		Log: slog.New(slog.NewTextHandler(testLog{t}, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	for _, f := range with {
		f(&opts)
	}
	s, err := zookeeper.Open(t.Context(), opts)
	testutil.Must(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if err := private.Close(); err != nil {
			t.Errorf("close private store: %v", err)
		}
	})
	return s
}

// session sets the session timeout.
func session(d time.Duration) func(*zookeeper.Options) {
	return func(o *zookeeper.Options) { o.SessionTimeout = d }
}

// through connects through a proxy.
func through(p *lab.Proxy) func(*zookeeper.Options) {
	return func(o *zookeeper.Options) { o.Hosts = []string{p.Address()} }
}

// silent suppresses the log of faults that the test itself causes.
func silent(o *zookeeper.Options) { o.Log = nil }

// testLog writes the log to the output of its test.
type testLog struct{ t testing.TB }

func (l testLog) Write(p []byte) (int, error) {
	if l.t.Context().Err() == nil {
		l.t.Log(strings.TrimSpace(string(p)))
	}
	return len(p), nil
}

func (tr *tree) create(t testing.TB, path, data string) string {
	t.Helper()
	made, err := tr.raw.Create(tr.chroot+path, []byte(data), 0, zk.WorldACL(zk.PermAll))
	if err != nil {
		t.Fatalf("create %s: %v", path, err)
	}
	return strings.TrimPrefix(made, tr.chroot)
}

func (tr *tree) createSequence(t testing.TB, path, data string) string {
	t.Helper()
	made, err := tr.raw.Create(tr.chroot+path, []byte(data), zk.FlagSequence, zk.WorldACL(zk.PermAll))
	if err != nil {
		t.Fatalf("create %s: %v", path, err)
	}
	return strings.TrimPrefix(made, tr.chroot)
}

// readAgain repeats a read while the connection of the test is lost, which happens on a busy machine.
func readAgain[T any](read func() (T, *zk.Stat, error)) (result T, err error) {
	for range 20 {
		if result, _, err = read(); !lab.IsLost(err) {
			break
		}
		time.Sleep(500 * time.Millisecond)
	}
	return result, err
}

func (tr *tree) data(t testing.TB, path string) string {
	t.Helper()
	data, err := readAgain(func() ([]byte, *zk.Stat, error) { return tr.raw.Get(tr.chroot + path) })
	if err != nil {
		t.Fatalf("get %s: %v", path, err)
	}
	return string(data)
}

func (tr *tree) set(t testing.TB, path, data string) {
	t.Helper()
	if _, err := tr.raw.Set(tr.chroot+path, []byte(data), -1); err != nil {
		t.Fatalf("set %s: %v", path, err)
	}
}

func (tr *tree) delete(t testing.TB, path string) {
	t.Helper()
	if err := tr.raw.Delete(tr.chroot+path, -1); err != nil {
		t.Fatalf("delete %s: %v", path, err)
	}
}

func (tr *tree) children(t testing.TB, path string) []string {
	t.Helper()
	names, err := readAgain(func() ([]string, *zk.Stat, error) { return tr.raw.Children(tr.chroot + path) })
	if err != nil {
		t.Fatalf("list %s: %v", path, err)
	}
	return names
}

func (tr *tree) there(t testing.TB, path string) bool {
	t.Helper()
	there, err := readAgain(func() (bool, *zk.Stat, error) { return tr.raw.Exists(tr.chroot + path) })
	if err != nil {
		t.Fatalf("look for %s: %v", path, err)
	}
	return there
}

// deleteContender deletes the contender with that prefix from its lock directory, as the end of its session would.
func (tr *tree) deleteContender(t testing.TB, prefix string) (found bool) {
	t.Helper()
	for _, path := range tr.all(t) {
		if strings.HasPrefix(path[strings.LastIndexByte(path, '/')+1:], prefix+"__lock__") {
			tr.delete(t, path)
			found = true
		}
	}
	return found
}

// all lists every znode, descendants before their parents.
func (tr *tree) all(t testing.TB) []string {
	t.Helper()
	var all []string
	for level := []string{""}; len(level) > 0; {
		below := make([][]string, len(level))
		var group errgroup.Group
		group.SetLimit(64)
		for i, path := range level {
			group.Go(func() error {
				names, _, err := tr.raw.Children(tr.chroot + path)
				for range 60 { // a restarted server accepts the connection after a while
					if !lab.IsLost(err) {
						break
					}
					time.Sleep(500 * time.Millisecond)
					names, _, err = tr.raw.Children(tr.chroot + path)
				}
				for _, name := range names {
					below[i] = append(below[i], path+"/"+name)
				}
				if errors.Is(err, zk.ErrNoNode) {
					return nil
				}
				return err
			})
		}
		testutil.Must(t, group.Wait())
		level = slices.Concat(below...)
		all = append(all, level...)
	}
	slices.Reverse(all)
	return all
}

// one commits one operation and returns its entry.
func one(t testing.TB, s state.Store, op state.Op) state.Entry {
	t.Helper()
	entries, err := s.Commit(t.Context(), op)
	testutil.Must(t, err)
	return entries[0]
}

func request(labels ...string) *resources.Request {
	now := time.Now()
	return &resources.Request{State: resources.StateRequested, StateTime: now, Created: now, Labels: labels, Priority: 200,
		RelativePriority: 3, Requestor: "zuul", Data: []byte(`{"n": 340282366920938463463374607431768211455}`)}
}

func node(in resources.State) *resources.Node {
	now := time.Now()
	return &resources.Node{State: in, StateTime: now, Created: now, Provider: "cloud", Pool: "main", Labels: []string{"debian"}}
}

func key(kind resources.Kind, id string) resources.Key { return resources.Key{Kind: kind, ID: id} }

func contenderName(n int) string {
	return fmt.Sprintf("%s__lock__%010d", strings.ReplaceAll(uuid.NewString(), "-", ""), n)
}
