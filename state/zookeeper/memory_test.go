package zookeeper

import (
	"context"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/bolt"
	"github.com/npctl/npctl/state/statetest"
)

// memory is a tree of znodes in memory with the semantics of ZooKeeper that the store relies on. It runs the contract
// suites without a server; the same suites run with real servers in contract_test.go.
type memory struct {
	mu      sync.Mutex // held while events are sent, so that they precede later answers
	zxid    int64
	tree    memoryTree
	clients []*memoryClient
}

// memoryTree maps paths to znodes. A znode is never modified.
type memoryTree map[string]memoryZnode

type memoryZnode struct {
	data    []byte
	stat    zk.Stat // without Cversion
	created int32   // number of children ever created
}

func newMemory() *memory {
	return &memory{tree: memoryTree{"/": {}, testChroot: {}}}
}

const testChroot = "/zuul"

// memoryClient is a session.
type memoryClient struct {
	*memory
	id      int64
	session *session
}

// dial is for session.dialTo.
func (m *memory) dial(s *session) (client, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &memoryClient{memory: m, id: int64(len(m.clients) + 1), session: s}
	m.clients = append(m.clients, c)
	s.dial.heard.Store(time.Now().Add(time.Hour).UnixNano())
	go s.onEvent(zk.Event{Type: zk.EventSession, State: zk.StateHasSession})
	return c, nil
}

func (m *memory) get(at string) (memoryZnode, *zk.Stat, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	z, ok := m.tree[at]
	if !ok {
		return z, nil, zk.ErrNoNode
	}
	stat := z.stat
	stat.Cversion = 2*z.created - stat.NumChildren
	return z, &stat, nil
}

// change makes all changes or none, and sends the events.
func (m *memory) change(owner int64, ops ...any) ([]zk.MultiResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	tree, results, events := maps.Clone(m.tree), make([]zk.MultiResponse, len(ops)), []zk.Event{}
	for i, op := range ops {
		event, err := tree.apply(op, owner, m.zxid+1, &results[i])
		if err != nil {
			results[i].Error = err
			return results, nil
		}
		if event.Path != "" {
			events = append(events, event)
		}
	}
	m.tree = tree
	m.zxid++
	for _, c := range m.clients {
		for _, event := range events {
			for _, watched := range watchedDirs {
				if under(event.Path, testChroot+watched) {
					c.session.onEvent(event)
				}
			}
		}
	}
	return results, nil
}

func (t memoryTree) apply(op any, owner, zxid int64, result *zk.MultiResponse) (event zk.Event, err error) {
	switch op := op.(type) {
	case *zk.CreateRequest:
		result.String, err = t.create(op, owner, zxid)
		return zk.Event{Type: zk.EventNodeCreated, Path: result.String}, err
	case *zk.SetDataRequest:
		z, err := t.at(op.Path, op.Version)
		z.data, z.stat.Mzxid, z.stat.Mtime = op.Data, zxid, time.Now().UnixMilli()
		z.stat.Version++
		if err == nil {
			t[op.Path], result.Stat = z, &z.stat
		}
		return zk.Event{Type: zk.EventNodeDataChanged, Path: op.Path}, err
	case *zk.DeleteRequest:
		z, err := t.at(op.Path, op.Version)
		switch {
		case err != nil:
		case z.stat.NumChildren > 0:
			err = zk.ErrNotEmpty
		default:
			delete(t, op.Path)
			parent := t[path.Dir(op.Path)]
			parent.stat.NumChildren--
			t[path.Dir(op.Path)] = parent
		}
		return zk.Event{Type: zk.EventNodeDeleted, Path: op.Path}, err
	case *zk.CheckVersionRequest:
		_, err := t.at(op.Path, op.Version)
		return zk.Event{}, err
	}
	return zk.Event{}, zk.ErrUnknown
}

func (t memoryTree) at(at string, version int32) (memoryZnode, error) {
	z, ok := t[at]
	switch {
	case !ok:
		return z, zk.ErrNoNode
	case version >= 0 && version != z.stat.Version:
		return z, zk.ErrBadVersion
	}
	return z, nil
}

func (t memoryTree) create(op *zk.CreateRequest, owner, zxid int64) (string, error) {
	at, dir := op.Path, path.Dir(op.Path)
	parent, ok := t[dir]
	if !ok {
		return "", zk.ErrNoNode
	}
	if op.Flags&zk.FlagSequence != 0 {
		at += fmt.Sprintf("%010d", parent.created)
	}
	if _, exists := t[at]; exists {
		return "", zk.ErrNodeExists
	}
	parent.created++
	parent.stat.NumChildren++
	t[dir] = parent
	now := time.Now().UnixMilli()
	z := memoryZnode{data: op.Data, stat: zk.Stat{Czxid: zxid, Mzxid: zxid, Ctime: now, Mtime: now}}
	if op.Flags&zk.FlagEphemeral != 0 {
		z.stat.EphemeralOwner = owner
	}
	t[at] = z
	return at, nil
}

// paths returns the paths of the znodes for which is returns true.
func (m *memory) paths(is func(at string, z memoryZnode) bool) (found []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for at, z := range m.tree {
		if is(at, z) {
			found = append(found, at)
		}
	}
	return found
}

func (m *memory) delete(paths []string) {
	for _, at := range paths {
		_, _ = m.change(0, &zk.DeleteRequest{Path: at, Version: -1}) // may be gone
	}
}

func (c *memoryClient) Get(at string) ([]byte, *zk.Stat, error) {
	z, stat, err := c.get(at)
	return z.data, stat, err
}

func (c *memoryClient) Exists(at string) (bool, *zk.Stat, error) {
	_, stat, err := c.get(at)
	return err == nil, stat, nil
}

func (c *memoryClient) Children(at string) ([]string, *zk.Stat, error) {
	_, stat, err := c.get(at)
	var names []string
	for _, kid := range c.paths(func(kid string, _ memoryZnode) bool { return path.Dir(kid) == at && kid != "/" }) {
		names = append(names, path.Base(kid))
	}
	return names, stat, err
}

func (c *memoryClient) Create(at string, data []byte, flags int32, acl []zk.ACL) (string, error) {
	results, err := c.change(c.id, &zk.CreateRequest{Path: at, Data: data, Flags: flags, Acl: acl})
	if err == nil {
		err = results[0].Error
	}
	return results[0].String, err
}

func (c *memoryClient) Multi(ops ...any) ([]zk.MultiResponse, error) { return c.change(c.id, ops...) }

func (c *memoryClient) Sync(at string) (string, error) { return at, nil }

func (c *memoryClient) Server() string { return "memory" }

// Close ends the session.
func (c *memoryClient) Close() {
	c.delete(c.paths(func(_ string, z memoryZnode) bool { return z.stat.EphemeralOwner == c.id }))
}

// open opens a store with the private file.
func (m *memory) open(t *testing.T, private string) *Store {
	t.Helper()
	file, err := bolt.Open(bolt.Options{Role: bolt.RolePrivate, Path: private})
	testutil.Must(t, err)
	opts := Options{Hosts: []string{"memory"}, Chroot: testChroot, Private: file, Host: "launch1.example"}
	testutil.Must(t, opts.complete())
	s, err := newStore(opts)
	testutil.Must(t, err)
	s.session.dialTo = m.dial
	_, err = s.open(t.Context(), opts.OpenTimeout)
	testutil.Must(t, err)
	t.Cleanup(func() {
		testutil.Must(t, s.Close())
		testutil.Must(t, file.Close())
	})
	return s
}

// syncedStore calls Sync before each read, as upToDate.
type syncedStore struct {
	*Store
	memory *memory
}

func (s syncedStore) Get(ctx context.Context, key resources.Key) (state.Entry, error) {
	if err := s.Sync(ctx); err != nil {
		return state.Entry{}, err
	}
	return s.Store.Get(ctx, key)
}

func (s syncedStore) List(ctx context.Context, kinds ...resources.Kind) ([]state.Entry, error) {
	if err := s.Sync(ctx); err != nil {
		return nil, err
	}
	return s.Store.List(ctx, kinds...)
}

func inMemory(t *testing.T) func(*testing.T) state.Store {
	m, private := newMemory(), filepath.Join(t.TempDir(), "private.db")
	return func(t *testing.T) state.Store { return syncedStore{m.open(t, private), m} }
}

func TestContractInMemory(t *testing.T) {
	t.Parallel()
	statetest.Run(t, statetest.Harness{New: inMemory, Steal: func(t *testing.T, s state.Store, _ string, lock state.Lock) {
		_, err := s.(syncedStore).ForceUnlock(t.Context(), lock.ID())
		testutil.Must(t, err)
	}})
}

func TestSharedContractInMemory(t *testing.T) {
	t.Parallel()
	statetest.Shared(t, statetest.Harness{New: inMemory, Steal: func(t *testing.T, s state.Store, key string, claim state.Lock) {
		m := s.(syncedStore).memory
		found := m.paths(func(at string, _ memoryZnode) bool { return strings.HasPrefix(path.Base(at), claim.ID()+lockMark) })
		if len(found) == 0 {
			t.Fatalf("no contender is the claim of %s", key)
		}
		m.delete(found)
	}})
}
