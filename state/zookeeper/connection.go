package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"
)

// errDisconnected is returned when a call finds no connection to ZooKeeper.
var errDisconnected = errors.New("no connection to ZooKeeper")

// connectionState is the state of the connection to ZooKeeper.
type connectionState struct {
	up      bool   // the session and a connection for it exist
	epoch   uint64 // counts connections
	loaded  uint64 // epoch of the connection on which the whole tree was last read
	synced  bool   // the cache is up to date with this connection
	lost    bool   // the session may have ended, so all locks were declared lost
	expiry  *time.Timer
	changed chan struct{} // closed and replaced when up or synced changes
}

// announce wakes all goroutines that wait for a change of the connection.
func (l *connectionState) announce() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// onEvent is the event callback of the client library. The library calls it in the order of the events, and before it
// returns the answers that follow them. onEvent must not block.
func (s *Store) onEvent(ev zk.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ev.Type != zk.EventSession {
		if len(ev.Path) > len(s.opts.Chroot) {
			s.onChange(ev.Type, ev.Path[len(s.opts.Chroot):])
		}
		return
	}
	switch ev.State {
	case zk.StateHasSession:
		s.onConnected()
	case zk.StateDisconnected:
		s.onDisconnected()
	case zk.StateExpired:
		s.markAllLocksLost("the session has expired")
	}
}

func (s *Store) onConnected() {
	s.dial.connected()
	s.connection.up, s.connection.synced, s.connection.lost = true, false, false
	s.connection.epoch++
	if s.connection.expiry != nil {
		s.connection.expiry.Stop()
	}
	s.connection.announce()
	hint(s.wake)
}

func (s *Store) onDisconnected() {
	if !s.connection.up {
		return
	}
	s.connection.up, s.connection.synced = false, false
	s.connection.announce()
	if !s.isClosed() {
		s.log.Warn("connection to ZooKeeper lost", "server", s.conn.Server())
	}
	// The server keeps the session for this long after it last received data from this process.
	left := time.Until(time.Unix(0, s.dial.heard.Load()).Add(s.sessionTimeout()))
	epoch := s.connection.epoch
	s.connection.expiry = time.AfterFunc(left, func() { s.onSessionOverdue(epoch) })
	s.hintAll()
}

// onSessionOverdue runs after the session timeout has passed without a connection. It assumes that the session has
// ended, because it cannot ask a server.
func (s *Store) onSessionOverdue(epoch uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.connection.up && s.connection.epoch == epoch {
		s.markAllLocksLost("no connection for longer than the session timeout")
	}
}

// markAllLocksLost declares all locks lost. If the session survives, the upkeep deletes their contenders.
func (s *Store) markAllLocksLost(why string) {
	s.connection.lost = true
	n := 0
	for _, c := range s.ownContenders {
		if c.markLost() {
			n++
		}
		s.orphan(c)
	}
	if n > 0 && !s.isClosed() {
		s.log.Warn("locks in ZooKeeper lost", "locks", n, "why", why)
	}
	s.hintAll()
}

// sessionTimeout returns the timeout that the server granted, or the requested one before the first connection.
func (s *Store) sessionTimeout() time.Duration {
	if granted := time.Duration(s.dial.granted.Load()); granted > 0 {
		return granted
	}
	return s.opts.SessionTimeout
}

// Connected implements state.Shared. It also returns false if the process was stopped for so long that its session may
// have ended, even before the process has noticed.
func (s *Store) Connected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connection.up && s.connection.synced && !s.isClosed() && time.Since(time.Unix(0, s.dial.heard.Load())) < s.sessionTimeout()
}

// waitLinked waits for a connection. It returns early with an error that only an operator can fix.
func (s *Store) waitLinked(ctx context.Context) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	return s.await(ctx, func() bool { return s.connection.up }, tick.C)
}

// waitSynced waits until the cache is up to date.
func (s *Store) waitSynced(ctx context.Context) error {
	return s.await(ctx, func() bool { return s.connection.up && s.connection.synced }, nil)
}

// await waits until there returns true. On each tick of look it checks whether retrying the connection is useless.
func (s *Store) await(ctx context.Context, there func() bool, look <-chan time.Time) error {
	for {
		s.mu.Lock()
		ok, changed := there(), s.connection.changed
		s.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			if why, _ := s.dial.last(); why != nil {
				return fmt.Errorf("%w (%w): %w", errDisconnected, ctx.Err(), why)
			}
			return fmt.Errorf("%w: %w", errDisconnected, ctx.Err())
		case <-s.ctx.Done():
			return s.usable(ctx)
		case <-changed:
		case <-look:
			if why, refused := s.dial.last(); refused {
				return why
			}
		}
	}
}
