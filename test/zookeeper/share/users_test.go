//go:build integration

package share

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/google/uuid"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/test/zookeeper/lab"
)

const (
	requestsRoot = "/nodepool/requests"
	locksRoot    = "/nodepool/requests-lock"
	nodesRoot    = "/nodepool/nodes"
	poolsRoot    = "/nodepool/components/pool"
	requestor    = "0123456789abcdef0123456789abcdef"
)

// zuul is a session that survives faults of ZooKeeper and makes requests as Zuul does. It repeats calls until they are
// answered, so each of its calls may take effect twice.
type zuul struct {
	t    *testing.T
	conn *zk.Conn
}

func newZuul(t *testing.T, e lab.Env) *zuul {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(e.Cert, e.Key)
	testutil.Must(t, err)
	pem, err := os.ReadFile(e.CA)
	testutil.Must(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	config := &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots, ServerName: "localhost", MinVersion: tls.VersionTLS12}
	dial := func(network, address string, _ time.Duration) (net.Conn, error) {
		return tls.DialWithDialer(&net.Dialer{Timeout: 5 * time.Second}, network, address, config)
	}
	conn, _, err := zk.Connect(strings.Split(e.Hosts, ","), time.Minute, zk.WithDialer(dial), zk.WithLogInfo(false),
		zk.WithLogger(quiet{}))
	testutil.Must(t, err)
	t.Cleanup(conn.Close)
	return &zuul{t: t, conn: conn}
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

// again repeats a call until it is answered. It reports whether an earlier call may have taken effect.
func again(ctx context.Context, call func() error) (maybe bool, err error) {
	for {
		err := call()
		if !lab.IsLost(err) {
			return maybe, err
		}
		maybe = true
		select {
		case <-ctx.Done():
			return maybe, errors.Join(err, ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (z *zuul) get(ctx context.Context, path string) (data []byte, err error) {
	_, err = again(ctx, func() (err error) { data, _, err = z.conn.Get(path); return err })
	return data, named(path, err)
}

func (z *zuul) children(ctx context.Context, path string) (names []string, err error) {
	_, err = again(ctx, func() (err error) { names, _, err = z.conn.Children(path); return err })
	return names, named(path, err)
}

func (z *zuul) set(ctx context.Context, path string, data []byte) error {
	_, err := again(ctx, func() error { _, err := z.conn.Set(path, data, -1); return err })
	return named(path, err)
}

func (z *zuul) delete(ctx context.Context, path string) error {
	maybe, err := again(ctx, func() error { return z.conn.Delete(path, -1) })
	if maybe && errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return named(path, err)
}

func (z *zuul) deleteTree(ctx context.Context, path string) {
	names, err := z.children(ctx, path)
	testutil.Must(z.t, err)
	for _, name := range names {
		z.deleteTree(ctx, path+"/"+name)
	}
	testutil.Must(z.t, z.delete(ctx, path))
}

// create creates a sequential znode. Its name begins with a unique prefix, which mine recognizes, so that create finds
// the znode after a lost answer.
func (z *zuul) create(ctx context.Context, path string, data []byte, flags int32, mine func(name string) bool) (made string, err error) {
	parent := path[:strings.LastIndexByte(path, '/')]
	maybe := false
	for {
		if maybe {
			names, err := z.children(ctx, parent)
			if err != nil {
				return "", err
			}
			if i := slices.IndexFunc(names, mine); i >= 0 {
				return parent + "/" + names[i], nil
			}
		}
		made, err = z.conn.Create(path, data, flags, zk.WorldACL(zk.PermAll))
		if !lab.IsLost(err) {
			return made, named(path, err)
		}
		maybe = true
		select {
		case <-ctx.Done():
			return "", errors.Join(err, ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func named(path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", path, err)
}

// lockOf returns the holder of a provider's lock, without a PID when the lock is free.
func (z *zuul) lockOf(provider string) (holder state.Holder) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	dir := "/npctl/locks/provider%20" + provider
	names, err := z.children(ctx, dir)
	if err != nil || len(names) == 0 {
		return holder
	}
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(a[len(a)-10:], b[len(b)-10:]) })
	if data, err := z.get(ctx, dir+"/"+names[0]); err == nil {
		_ = json.Unmarshal(data, &holder)
	}
	return holder
}

// holderOf returns the machine that has the lock of a provider, or nil when none has.
func (z *zuul) holderOf(provider string, machines ...*machine) *machine {
	pid := z.lockOf(provider).PID
	i := slices.IndexFunc(machines, func(m *machine) bool { return m.PID() == pid })
	if i < 0 {
		return nil
	}
	return machines[i]
}

// wanted holds the parameters of a request.
type wanted struct {
	labels   []string
	provider string
}

// answer is the record of a request.
type answer struct {
	State    string   `json:"state"`
	Nodes    []string `json:"nodes"`
	Event    string   `json:"event_id"`
	Declined []string `json:"declined_by"`
	Locked   bool     `json:"-"`
}

// node is an assigned node.
type node struct {
	ID         string          `json:"-"`
	State      string          `json:"state"`
	Provider   string          `json:"provider"`
	ExternalID json.RawMessage `json:"external_id"`
	Allocated  string          `json:"allocated_to"`
	Hostname   string          `json:"hostname"`

	contender string
	record    map[string]json.RawMessage
}

// server returns the ID of the node's server in the cloud, empty for a static node.
func (n *node) server() string {
	var id string
	_ = json.Unmarshal(n.ExternalID, &id)
	return id
}

func (z *zuul) request(ctx context.Context, w wanted) (string, error) {
	now, event := seconds(), hex()
	var provider any
	if w.provider != "" {
		provider = w.provider
	}
	data, err := json.Marshal(map[string]any{
		"node_types": w.labels, "requestor": requestor, "created_time": now, "provider": provider, "state": "requested",
		"state_time": now, "relative_priority": 0, "event_id": event, "tenant_name": "acme",
		"requestor_data": map[string]any{"build_set_uuid": hex(), "tenant_name": "acme", "pipeline_name": "check",
			"job_uuid": hex(), "job_name": "unit", "span_info": nil},
	})
	if err != nil {
		return "", err
	}
	path, err := z.create(ctx, requestsRoot+"/200-", data, zk.FlagSequence, func(name string) bool {
		now, err := z.readRequest(ctx, name)
		return err == nil && now.Event == event
	})
	return path[strings.LastIndexByte(path, '/')+1:], err
}

// readRequest reads a request.
func (z *zuul) readRequest(ctx context.Context, id string) (a answer, err error) {
	data, err := z.get(ctx, requestsRoot+"/"+id)
	if err != nil {
		return a, err
	}
	return a, named(id, json.Unmarshal(data, &a))
}

// wait waits until a request is fulfilled or has failed.
func (z *zuul) wait(ctx context.Context, id string) (answer, error) {
	path := requestsRoot + "/" + id
	for {
		var data []byte
		var changed <-chan zk.Event
		if _, err := again(ctx, func() (err error) { data, _, changed, err = z.conn.GetW(path); return err }); err != nil {
			return answer{}, named(path, err)
		}
		var a answer
		if err := json.Unmarshal(data, &a); err != nil {
			return a, named(path, err)
		}
		if a.State == "fulfilled" || a.State == "failed" {
			return a, nil
		}
		select {
		case <-changed: // or the connection is lost
		case <-time.After(2 * time.Second):
		case <-ctx.Done():
			return a, fmt.Errorf("request %s is %s, declined by %v: %w", id, a.State, a.Declined, ctx.Err())
		}
	}
}

// accept locks the nodes of a fulfilled request, as an executor does, and deletes it.
func (z *zuul) accept(ctx context.Context, id string, nodes []string) (held []*node, err error) {
	for _, name := range nodes {
		n := &node{ID: name}
		if err := z.read(ctx, n); err != nil {
			return held, err
		}
		if n.Allocated != id {
			return held, fmt.Errorf("node %s is allocated to %q, not to %s", name, n.Allocated, id)
		}
		if err := z.lock(ctx, n); err != nil {
			return held, err
		}
		held = append(held, n)
		if err := z.read(ctx, n); err != nil {
			return held, err
		}
		if n.Allocated != id || n.State != "ready" {
			return held, fmt.Errorf("node %s was %s for %q when it was locked for %s", name, n.State, n.Allocated, id)
		}
	}
	return held, z.delete(ctx, requestsRoot+"/"+id)
}

func (z *zuul) read(ctx context.Context, n *node) error {
	data, err := z.get(ctx, nodesRoot+"/"+n.ID)
	if err != nil {
		return err
	}
	return errors.Join(json.Unmarshal(data, n), json.Unmarshal(data, &n.record))
}

// lock implements kazoo's recipe. No contender may precede ours.
func (z *zuul) lock(ctx context.Context, n *node) error {
	dir := nodesRoot + "/" + n.ID + "/lock"
	prefix := hex()
	for {
		_, err := again(ctx, func() error { _, err := z.conn.Create(dir, nil, 0, zk.WorldACL(zk.PermAll)); return err })
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return named(dir, err)
		}
		made, err := z.create(ctx, dir+"/"+prefix+"__lock__", nil, zk.FlagEphemeral|zk.FlagSequence,
			func(name string) bool { return strings.HasPrefix(name, prefix) })
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		if err != nil {
			return err
		}
		n.contender = made
		break
	}
	for {
		names, err := z.children(ctx, dir)
		if err != nil {
			return err
		}
		slices.SortFunc(names, func(a, b string) int { return strings.Compare(a[len(a)-10:], b[len(b)-10:]) })
		if len(names) > 0 && names[0] == n.contender[len(dir)+1:] {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("lock %s: before us is %v: %w", dir, names, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (z *zuul) state(ctx context.Context, n *node, state string) error {
	n.record["state"] = json.RawMessage(strconv.Quote(state))
	n.record["state_time"] = json.RawMessage(strconv.FormatFloat(seconds(), 'f', 6, 64))
	data, err := json.Marshal(n.record)
	if err != nil {
		return err
	}
	return z.set(ctx, nodesRoot+"/"+n.ID, data)
}

func (z *zuul) unlock(ctx context.Context, n *node) error { return z.delete(ctx, n.contender) }

func seconds() float64 { return float64(time.Now().UnixMicro()) / 1e6 }

func hex() string { return strings.ReplaceAll(uuid.NewString(), "-", "") }
