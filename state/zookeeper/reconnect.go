package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"
)

// Reconnect prepares a change of the servers and of TLS, to other servers of the same ensemble. It connects to them and
// compares the state there with this one, and changes nothing. After use, the store connects to these servers, and keeps
// its session with all locks. If the connected server and TLS stay, the connection stays too.
func (s *Store) Reconnect(ctx context.Context, to Options) (use func(), err error) {
	opts := s.installation.opts
	opts.Hosts, opts.TLS = to.Hosts, to.TLS
	if err := opts.completeHosts(); err != nil {
		return nil, fmt.Errorf("state in ZooKeeper: %w", err)
	}
	if err := s.isSameState(ctx, opts); err != nil {
		return nil, fmt.Errorf("state in ZooKeeper at %s: %w", opts.String(), err)
	}
	return func() {
		keep := slices.Contains(opts.Hosts, s.session.conn.Server())
		s.session.hosts.use(opts.Hosts)
		if s.session.dial.use(opts.TLS) || !keep {
			s.session.dial.disconnect()
		}
	}, nil
}

// isSameState returns an error unless the servers in opts have the state of this store, with the locks of its session. A
// restored copy of the state has the same lineage and no locks.
func (s *Store) isSameState(ctx context.Context, opts Options) error {
	ctx, cancel := context.WithTimeout(ctx, minCall)
	defer cancel()
	other, err := s.session.second(opts)
	if err != nil {
		return err
	}
	defer other.conn.Close()
	if err := other.waitLinked(ctx); err != nil {
		return err
	}
	h, _, err := (&installation{session: other, opts: opts}).readHead(ctx)
	if err == nil {
		err = h.checkLineage(opts, s.installation.lineage)
	}
	if err != nil {
		return err
	}
	path := s.locks.anyHeld()
	if path == "" {
		return nil
	}
	if err := other.sync(ctx); err != nil {
		return err
	}
	if there, err := other.exists(ctx, path); err != nil || there {
		return err
	}
	return errors.New("the servers do not have the locks of this process, so they belong to another ensemble, such as one with a restored copy")
}

// second connects in a second session, without watches, to the servers in opts. The caller closes its connection.
func (s *session) second(opts Options) (*session, error) {
	other, err := newSession(s.ctx, opts, &sync.Mutex{}, noObserver{})
	if err != nil {
		return nil, err
	}
	other.dial.paths, other.dialTo = nil, s.dialTo
	return other, other.connect()
}

// anyHeld returns the path of a lock that this process holds, or "".
func (ls *locks) anyHeld() string {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for l := range ls.named {
		if l.exists && !l.lostClosed && !l.released && !l.releasing {
			return l.path
		}
	}
	return ""
}

// noObserver ignores all events.
type noObserver struct{}

func (noObserver) onChange(zk.EventType, string) {}
func (noObserver) onConnected()                  {}
func (noObserver) onDisconnected()               {}
func (noObserver) onSessionLost(string)          {}
