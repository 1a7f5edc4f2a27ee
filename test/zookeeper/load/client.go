package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/google/uuid"
)

const (
	requestsRoot = "/nodepool/requests"
	nodesRoot    = "/nodepool/nodes"
	requestor    = "0123456789abcdef0123456789abcdef"
	lockTimeout  = 30 * time.Second // as in Zuul
)

// node is a node that the client holds. Unknown members of its record are preserved.
type node struct {
	id, contender string
	record        map[string]json.RawMessage
}

func (n *node) path() string { return nodesRoot + "/" + n.id }

func (c *client) request(labels []string) (string, error) {
	now := float64(time.Now().UnixMicro()) / 1e6
	data, err := json.Marshal(map[string]any{
		"node_types": labels, "requestor": requestor, "created_time": now, "provider": nil, "state": "requested",
		"state_time": now, "relative_priority": 0, "event_id": hex(), "tenant_name": "acme",
		"requestor_data": map[string]any{"build_set_uuid": hex(), "tenant_name": "acme", "pipeline_name": "check",
			"job_uuid": hex(), "job_name": "unit", "span_info": nil},
	})
	if err != nil {
		return "", err
	}
	path, err := c.create(requestsRoot+"/200-", data, zk.FlagSequence)
	if errors.Is(err, zk.ErrNoNode) { // no pool has registered yet
		for _, parent := range []string{"/nodepool", requestsRoot} {
			if _, err := c.create(parent, nil, 0); err != nil && !errors.Is(err, zk.ErrNodeExists) {
				return "", err
			}
		}
		path, err = c.create(requestsRoot+"/200-", data, zk.FlagSequence)
	}
	return path[strings.LastIndexByte(path, '/')+1:], err
}

// answer waits until a request is fulfilled or failed.
func (c *client) answer(ctx context.Context, id string) (string, error) {
	path := requestsRoot + "/" + id
	for {
		data, changed, err := c.getWatch(path)
		if err != nil {
			return "", err
		}
		var record struct{ State string }
		if err := json.Unmarshal(data, &record); err != nil {
			return "", at(path, err)
		}
		if record.State == "fulfilled" || record.State == "failed" {
			return record.State, nil
		}
		if err := wait(ctx, changed); err != nil {
			return "", fmt.Errorf("%s is %s: %w", path, record.State, err)
		}
	}
}

// accept locks the nodes of a request and deletes the request, as an executor does, which starts from the ID. The
// returned nodes are locked, also with an error.
func (c *client) accept(id string) ([]*node, error) {
	held, err := c.lockAll(id)
	return held, errors.Join(err, c.forget(id))
}

func (c *client) lockAll(id string) ([]*node, error) {
	data, err := c.get(requestsRoot + "/" + id)
	if err != nil {
		return nil, err
	}
	var record struct{ Nodes []string }
	if err := json.Unmarshal(data, &record); err != nil {
		return nil, err
	}
	var held []*node
	for _, name := range record.Nodes {
		n := &node{id: name}
		data, err := c.get(n.path())
		if err != nil {
			return held, err
		}
		if err := json.Unmarshal(data, &n.record); err != nil {
			return held, at(n.path(), err)
		}
		if got := string(n.record["allocated_to"]); got != strconv.Quote(id) {
			return held, fmt.Errorf("%s is allocated to %s, not to %s", n.path(), got, id)
		}
		if err := c.lock(n); err != nil {
			return held, err
		}
		held = append(held, n)
	}
	return held, nil
}

// lock is kazoo's recipe for an exclusive lock.
func (c *client) lock(n *node) error {
	dir := n.path() + "/lock"
	prefix := dir + "/" + hex() + "__lock__"
	made, err := c.create(prefix, nil, zk.FlagEphemeral|zk.FlagSequence)
	if errors.Is(err, zk.ErrNoNode) {
		if _, err := c.create(dir, nil, 0); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
		made, err = c.create(prefix, nil, zk.FlagEphemeral|zk.FlagSequence)
	}
	if err != nil {
		return err
	}
	n.contender = made
	ctx, cancel := context.WithTimeout(context.Background(), lockTimeout)
	defer cancel()
	if err := c.turn(ctx, dir, made); err != nil {
		return errors.Join(err, c.delete(made))
	}
	return nil
}

// turn waits until no contender precedes this one.
func (c *client) turn(ctx context.Context, dir, made string) error {
	for {
		names, err := c.children(dir)
		if err != nil {
			return err
		}
		before, err := predecessor(names, made[strings.LastIndexByte(made, '/')+1:])
		if err != nil || before == "" {
			return err
		}
		_, gone, err := c.getWatch(dir + "/" + before)
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		if err == nil {
			err = wait(ctx, gone)
		}
		if err != nil {
			return fmt.Errorf("lock %s, after %s: %w", dir, before, err)
		}
	}
}

// predecessor returns the contender that own waits for: contenders are ordered by their number alone.
func predecessor(names []string, own string) (string, error) {
	names = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !strings.Contains(n, "__lock__") })
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(number(a), number(b)) })
	i := slices.Index(names, own)
	switch {
	case i < 0:
		return "", fmt.Errorf("contender %s is gone", own)
	case i == 0:
		return "", nil
	}
	return names[i-1], nil
}

func number(contender string) string {
	return contender[strings.LastIndex(contender, "__lock__")+len("__lock__"):]
}

func (c *client) forget(id string) error { return c.delete(requestsRoot + "/" + id) }

func (c *client) set(held []*node, state string) error {
	for _, n := range held {
		n.record["state"] = json.RawMessage(strconv.Quote(state))
		n.record["state_time"] = json.RawMessage(strconv.FormatFloat(float64(time.Now().UnixMicro())/1e6, 'f', 6, 64))
		if state == "in-use" {
			n.record["user_data"] = json.RawMessage(`{"zuul_system": "` + requestor + `", "project_name": "acme/project"}`)
		}
		data, err := json.Marshal(n.record)
		if err != nil {
			return err
		}
		if err := c.write(n.path(), data); err != nil {
			return err
		}
	}
	return nil
}

func (c *client) unlock(held []*node) error {
	var errs error
	for _, n := range held {
		errs = errors.Join(errs, c.delete(n.contender))
	}
	return errs
}

// ended waits until the record of a used node is gone, or the node is ready for another request.
func (c *client) ended(ctx context.Context, n *node) error {
	for {
		data, changed, err := c.getWatch(n.path())
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		if err != nil {
			return err
		}
		var record struct{ State string }
		if err := json.Unmarshal(data, &record); err != nil {
			return at(n.path(), err)
		}
		if record.State == "ready" {
			return nil
		}
		if err := wait(ctx, changed); err != nil {
			return fmt.Errorf("%s is still %s: %w", n.path(), record.State, err)
		}
	}
}

func wait(ctx context.Context, changed <-chan zk.Event) error {
	select {
	case e := <-changed:
		return e.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func hex() string { return strings.ReplaceAll(uuid.NewString(), "-", "") }
