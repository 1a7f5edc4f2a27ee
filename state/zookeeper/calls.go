package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/npctl/npctl/state"
)

const minCall = 10 * time.Second

// callLimit returns the maximum duration of one call. It is rarely reached, because the client library closes a
// connection without traffic after two thirds of the session timeout.
func (s *session) callLimit() time.Duration { return max(minCall, 2*s.sessionTimeout()) }

// errOutcomeUnknown is returned when a change may or may not have been made.
var errOutcomeUnknown = errors.New("the connection to ZooKeeper was lost before the answer: the change may have been made")

// callWithTimeout makes one call. It returns when ctx is done and after callLimit at the latest, and ignores the result
// of a call that ends later.
func callWithTimeout[T any](ctx context.Context, s *session, doing string, call func() (T, error)) (T, error) {
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
	answers, started := make(chan answer, 1), time.Now()
	go func() {
		value, err := call()
		answers <- answer{value, err}
	}()
	select {
	case a := <-answers:
		err := wrapCall(doing, a.err)
		s.report(started, !errors.Is(err, errOutcomeUnknown) && !errors.Is(err, errDisconnected))
		return a.value, err
	case <-ctx.Done():
		s.report(started, false)
		return none, fmt.Errorf("%s: %w: %w", doing, errOutcomeUnknown, ctx.Err())
	}
}

// report reports a call that has ended to the observer of Store.Observe.
func (s *session) report(started time.Time, answered bool) {
	if o := s.metrics.Load(); o != nil {
		o.Called(time.Since(started), answered)
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
func (s *session) serverPath(path string) string {
	if full := s.chroot + path; full != "" {
		return full
	}
	return "/"
}

// localPath returns the path of a znode below the chroot.
func (s *session) localPath(onServer string) string { return strings.TrimPrefix(onServer, s.chroot) }

type read struct {
	data []byte
	stat *zk.Stat
}

func (s *session) get(ctx context.Context, path string) ([]byte, *zk.Stat, error) {
	got, err := callWithTimeout(ctx, s, "read "+path, func() (read, error) {
		data, stat, err := s.conn.Get(s.serverPath(path))
		return read{data, stat}, err
	})
	return got.data, got.stat, err
}

func (s *session) children(ctx context.Context, path string) ([]string, error) {
	return callWithTimeout(ctx, s, "list "+path, func() ([]string, error) {
		names, _, err := s.conn.Children(s.serverPath(path))
		return names, err
	})
}

func (s *session) exists(ctx context.Context, path string) (bool, error) {
	return callWithTimeout(ctx, s, "check "+s.serverPath(path), func() (bool, error) {
		there, _, err := s.conn.Exists(s.serverPath(path))
		return there, err
	})
}

// ensure creates a znode unless it exists. Only ensure and multi write to ZooKeeper.
func (s *session) ensure(ctx context.Context, path string, data []byte) error {
	if s.readOnly {
		return fmt.Errorf("create %s: %w", s.serverPath(path), state.ErrReadOnly)
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
func (s *session) multi(ctx context.Context, doing string, ops []any) ([]zk.MultiResponse, int, error) {
	if s.readOnly {
		return nil, -1, fmt.Errorf("%s: %w", doing, state.ErrReadOnly)
	}
	results, err := callWithTimeout(ctx, s, doing, func() ([]zk.MultiResponse, error) { return s.conn.Multi(ops...) })
	for i, r := range results {
		if r.Error != nil {
			return nil, i, fmt.Errorf("%s: %w", doing, r.Error)
		}
	}
	return results, -1, err
}

// deleteEach deletes all znodes in one call, or one by one if one of them is already gone.
func (s *session) deleteEach(ctx context.Context, ops []any) error {
	_, _, err := s.multi(ctx, "unlock", ops)
	if !errors.Is(err, zk.ErrNoNode) || len(ops) == 1 {
		return ignore(err, zk.ErrNoNode)
	}
	for _, op := range ops {
		_, _, one := s.multi(ctx, "unlock", []any{op})
		err = errors.Join(ignore(err, zk.ErrNoNode), ignore(one, zk.ErrNoNode))
	}
	return err
}

func ignore(err error, kinds ...error) error {
	if slices.ContainsFunc(kinds, func(kind error) bool { return errors.Is(err, kind) }) {
		return nil
	}
	return err
}

// sync waits until the server that this process is connected to has all changes made before the call. All events of
// these changes have arrived when it returns.
func (s *session) sync(ctx context.Context) error {
	_, err := callWithTimeout(ctx, s, "sync", func() (string, error) { return s.conn.Sync(s.serverPath("")) })
	return err
}
