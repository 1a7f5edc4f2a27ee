//go:build integration

package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/npctl/npctl/test/zookeeper/lab"
)

// connection is an independent client: it reads znodes as they are, and plays other programs that write them.
type connection struct{ conn *zk.Conn }

func connect(e lab.Env) (*connection, error) {
	conn, err := lab.Connect(e)
	return &connection{conn}, err
}

// tree is the part of ZooKeeper below a chroot.
type tree struct {
	t      *testing.T
	conn   *zk.Conn
	chroot string
	aside  bool // another goroutine than that of the test uses it
}

// znode is a znode as ZooKeeper returns it.
type znode struct {
	text string
	stat *zk.Stat
	doc  map[string]any // numbers as json.Number; nil when the data is not a JSON object
}

func (z *znode) is(key string, value any) bool {
	return z != nil && fmt.Sprint(z.doc[key]) == fmt.Sprint(value)
}

func (z *znode) list(key string) (list []string) {
	if z != nil {
		elements, _ := z.doc[key].([]any)
		for _, v := range elements {
			list = append(list, fmt.Sprint(v))
		}
	}
	return list
}

// get returns a znode, or nil when it does not exist.
func (r *tree) get(path string) *znode {
	r.t.Helper()
	data, stat, err := r.conn.Get(r.chroot + path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if r.must(err, path); err != nil {
		return nil
	}
	z := &znode{text: string(data), stat: stat}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	_ = decoder.Decode(&z.doc)
	return z
}

func (r *tree) children(path string) []string {
	r.t.Helper()
	names, _, err := r.conn.Children(r.chroot + path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	r.must(err, path)
	return names
}

// create creates a znode and its parents, with the flags of the client, and returns its path.
func (r *tree) create(path, text string, flags int32) string {
	r.t.Helper()
	for i := 1; i < len(path); i++ {
		if path[i] == '/' {
			_, err := r.conn.Create(r.chroot+path[:i], nil, 0, zk.WorldACL(zk.PermAll))
			if !errors.Is(err, zk.ErrNodeExists) {
				r.must(err, path[:i])
			}
		}
	}
	made, err := r.conn.Create(r.chroot+path, []byte(text), flags, zk.WorldACL(zk.PermAll))
	r.must(err, path)
	return strings.TrimPrefix(made, r.chroot)
}

func (r *tree) set(path, text string) {
	r.t.Helper()
	_, err := r.conn.Set(r.chroot+path, []byte(text), -1)
	r.must(err, path)
}

// remove deletes a znode and everything below it, if it exists.
func (r *tree) remove(path string) {
	r.t.Helper()
	for _, name := range r.children(path) {
		r.remove(path + "/" + name)
	}
	if err := r.conn.Delete(r.chroot+path, -1); !errors.Is(err, zk.ErrNoNode) {
		r.must(err, path)
	}
}

// must ends the test on an error. Outside the goroutine of the test it only reports the error.
func (r *tree) must(err error, path string) {
	r.t.Helper()
	switch {
	case err == nil:
	case r.aside:
		r.t.Errorf("%s%s: %v", r.chroot, path, err)
	default:
		r.t.Fatalf("%s%s: %v", r.chroot, path, err)
	}
}

// Paths in ZooKeeper.
const (
	requests     = "/nodepool/requests"
	requestLocks = "/nodepool/requests-lock"
	nodes        = "/nodepool/nodes"
	pools        = "/nodepool/components/pool"
)

func (r *tree) request(id string) *znode { r.t.Helper(); return r.get(requests + "/" + id) }
func (r *tree) node(id string) *znode    { r.t.Helper(); return r.get(nodes + "/" + id) }

// locked reports whether a client has the lock of a node, or waits for it.
func (r *tree) locked(id string) bool {
	r.t.Helper()
	return len(r.children(nodes+"/"+id+"/lock")) > 0
}

// census counts nodes by state.
func (r *tree) census() string {
	r.t.Helper()
	counts := map[string]int{}
	for _, id := range r.children(nodes) {
		if z := r.node(id); z != nil {
			counts[fmt.Sprint(z.doc["state"])]++
		}
	}
	return fmt.Sprint(counts)
}
