package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/go-zookeeper/zk"
)

const minCall = 10 * time.Second

// callLimit returns the maximum duration of one call. It is rarely reached, because the client library closes a
// connection without traffic after two thirds of the session timeout.
func (s *Store) callLimit() time.Duration { return max(minCall, 2*s.sessionTimeout()) }

// errOutcomeUnknown is returned when a change may or may not have been made.
var errOutcomeUnknown = errors.New("the connection to ZooKeeper was lost before the answer: the change may have been made")

// callWithTimeout makes one call. It returns when ctx is done and after callLimit at the latest, and ignores the result
// of a call that ends later.
func callWithTimeout[T any](ctx context.Context, s *Store, doing string, call func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	ctx, cancel := context.WithTimeout(ctx, s.callLimit())
	defer cancel()
	var none T
	if err := s.waitLinked(ctx); err != nil {
		return none, fmt.Errorf("%s: %w", doing, err)
	}
	answers := make(chan answer, 1)
	go func() {
		value, err := call()
		answers <- answer{value, err}
	}()
	select {
	case a := <-answers:
		return a.value, wrapCall(doing, a.err)
	case <-ctx.Done():
		return none, fmt.Errorf("%s: %w: %w", doing, errOutcomeUnknown, ctx.Err())
	}
}

func wrapCall(doing string, err error) error {
	var broken net.Error // of the connection itself, such as a broken pipe
	switch {
	case err == nil:
		return nil
	case errors.Is(err, zk.ErrConnectionClosed), errors.Is(err, zk.ErrClosing), errors.Is(err, zk.ErrSessionExpired), errors.As(err, &broken):
		return fmt.Errorf("%s: %w: %w", doing, errOutcomeUnknown, err)
	case errors.Is(err, zk.ErrNoServer):
		return fmt.Errorf("%s: %w: %w", doing, errDisconnected, err)
	default:
		return fmt.Errorf("%s: %w", doing, err)
	}
}

// serverPath returns the path of a znode on the server.
func (s *Store) serverPath(path string) string {
	if full := s.opts.Chroot + path; full != "" {
		return full
	}
	return "/"
}

type read struct {
	data []byte
	stat *zk.Stat
}

func (s *Store) get(ctx context.Context, path string) ([]byte, *zk.Stat, error) {
	got, err := callWithTimeout(ctx, s, "read "+path, func() (read, error) {
		data, stat, err := s.conn.Get(s.serverPath(path))
		return read{data, stat}, err
	})
	return got.data, got.stat, err
}

func (s *Store) children(ctx context.Context, path string) ([]string, error) {
	return callWithTimeout(ctx, s, "list "+path, func() ([]string, error) {
		names, _, err := s.conn.Children(s.serverPath(path))
		return names, err
	})
}

func (s *Store) exists(ctx context.Context, path string) (bool, error) {
	return callWithTimeout(ctx, s, "check "+s.serverPath(path), func() (bool, error) {
		there, _, err := s.conn.Exists(s.serverPath(path))
		return there, err
	})
}

// ensure creates a znode unless it exists. Only ensure and multi write to ZooKeeper.
func (s *Store) ensure(ctx context.Context, path string, data []byte) error {
	if s.opts.ReadOnly {
		return fmt.Errorf("create %s: %w", s.serverPath(path), errReadOnly)
	}
	_, err := callWithTimeout(ctx, s, "create "+s.serverPath(path), func() (string, error) {
		return s.conn.Create(s.serverPath(path), data, 0, openACL)
	})
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

// openACL grants all permissions to all clients, like Zuul and Nodepool, because they must lock, change and delete
// znodes.
var openACL = zk.WorldACL(zk.PermAll)

// multi makes all changes or none. On failure it returns the index of the operation that ZooKeeper rejected, or -1.
func (s *Store) multi(ctx context.Context, doing string, ops []any) ([]zk.MultiResponse, int, error) {
	if s.opts.ReadOnly {
		return nil, -1, fmt.Errorf("%s: %w", doing, errReadOnly)
	}
	results, err := callWithTimeout(ctx, s, doing, func() ([]zk.MultiResponse, error) { return s.conn.Multi(ops...) })
	for i, r := range results {
		if r.Error != nil {
			return nil, i, fmt.Errorf("%s: %w", doing, r.Error)
		}
	}
	return results, -1, err
}
