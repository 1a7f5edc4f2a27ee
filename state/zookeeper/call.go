package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"
)

const minCall = 10 * time.Second

// callLimit is how long one call may take. A connection that says nothing for two thirds of the session timeout is
// closed by the client library, so it is hardly ever reached.
func (s *Store) callLimit() time.Duration { return max(minCall, 2*s.sessionTimeout()) }

// errUnknown says that nobody knows whether a change was made.
var errUnknown = errors.New("the connection to ZooKeeper was lost before it answered: it may have been done")

// ask makes one call. It ends with ctx and after callLimit at the latest; what the library still makes of it then is
// nobody's business any more.
func ask[T any](ctx context.Context, s *Store, doing string, call func() (T, error)) (T, error) {
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
		return none, fmt.Errorf("%s: %w: %w", doing, errUnknown, ctx.Err())
	}
}

func wrapCall(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, zk.ErrConnectionClosed), errors.Is(err, zk.ErrClosing), errors.Is(err, zk.ErrSessionExpired):
		return fmt.Errorf("%s: %w: %w", doing, errUnknown, err)
	case errors.Is(err, zk.ErrNoServer):
		return fmt.Errorf("%s: %w: %w", doing, errDown, err)
	default:
		return fmt.Errorf("%s: %w", doing, err)
	}
}

// at is the path of a znode on the server.
func (s *Store) at(path string) string {
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
	got, err := ask(ctx, s, "read "+path, func() (read, error) {
		data, stat, err := s.conn.Get(s.at(path))
		return read{data, stat}, err
	})
	return got.data, got.stat, err
}

func (s *Store) children(ctx context.Context, path string) ([]string, error) {
	return ask(ctx, s, "list "+path, func() ([]string, error) {
		names, _, err := s.conn.Children(s.at(path))
		return names, err
	})
}

func (s *Store) exists(ctx context.Context, path string) (bool, error) {
	return ask(ctx, s, "look for "+s.at(path), func() (bool, error) {
		there, _, err := s.conn.Exists(s.at(path))
		return there, err
	})
}

// ensure makes a znode unless it is there. It and multi are the only ways to write.
func (s *Store) ensure(ctx context.Context, path string, data []byte) error {
	if s.opts.ReadOnly {
		return fmt.Errorf("create %s: %w", s.at(path), errReadOnly)
	}
	_, err := ask(ctx, s, "create "+s.at(path), func() (string, error) {
		return s.conn.Create(s.at(path), data, 0, openACL)
	})
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

// openACL lets everybody do everything, as Zuul and Nodepool have it: they must be able to lock, change and delete.
var openACL = zk.WorldACL(zk.PermAll)

// multi makes all changes or none. Of a refusal it returns which change was the reason.
func (s *Store) multi(ctx context.Context, doing string, ops []any) ([]zk.MultiResponse, int, error) {
	if s.opts.ReadOnly {
		return nil, -1, fmt.Errorf("%s: %w", doing, errReadOnly)
	}
	results, err := ask(ctx, s, doing, func() ([]zk.MultiResponse, error) { return s.conn.Multi(ops...) })
	for i, r := range results {
		if r.Error != nil {
			return nil, i, fmt.Errorf("%s: %w", doing, r.Error)
		}
	}
	return results, -1, err
}
