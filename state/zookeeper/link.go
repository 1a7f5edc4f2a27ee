package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"
)

// errDown says that nothing could be asked of ZooKeeper.
var errDown = errors.New("no connection to ZooKeeper")

// link is what is known of the connection.
type link struct {
	up      bool   // there is a session and a connection for it
	epoch   uint64 // counts connections
	loaded  uint64 // the connection on which everything was read
	synced  bool   // the cache has everything that has happened on this connection
	lost    bool   // the session may be over, so all locks were declared lost
	expiry  *time.Timer
	changed chan struct{} // closed and replaced when something of this changes
}

// announce tells those who wait for the link.
func (l *link) announce() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// onEvent is called by the client library, in the order in which things happen, before it hands out the answers that
// come later. It must not wait.
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
		s.loseAll("the session has expired")
	}
}

func (s *Store) onConnected() {
	s.dial.connected()
	s.link.up, s.link.synced, s.link.lost = true, false, false
	s.link.epoch++
	if s.link.expiry != nil {
		s.link.expiry.Stop()
	}
	s.link.announce()
	hint(s.wake)
}

func (s *Store) onDisconnected() {
	if !s.link.up {
		return
	}
	s.link.up, s.link.synced = false, false
	s.link.announce()
	if !s.over() {
		s.log.Warn("connection to ZooKeeper lost", "server", s.conn.Server())
	}
	// The server keeps the session for this long after it has heard of us.
	left := time.Until(time.Unix(0, s.dial.heard.Load()).Add(s.sessionTimeout()))
	epoch := s.link.epoch
	s.link.expiry = time.AfterFunc(left, func() { s.onOverdue(epoch) })
	s.hintAll()
}

// onOverdue is called when the session must be taken for over, though nobody could ask.
func (s *Store) onOverdue(epoch uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.link.up && s.link.epoch == epoch {
		s.loseAll("the connection was away for longer than the session lasts")
	}
}

// loseAll declares all locks lost. Those that are there still, if the session should go on, are removed then.
func (s *Store) loseAll(why string) {
	s.link.lost = true
	n := 0
	for _, c := range s.mine {
		if c.lose() {
			n++
		}
		s.abandon(c)
	}
	if n > 0 && !s.over() {
		s.log.Warn("locks in ZooKeeper lost", "locks", n, "why", why)
	}
	s.hintAll()
}

// sessionTimeout is the one that the server has granted.
func (s *Store) sessionTimeout() time.Duration {
	if granted := time.Duration(s.dial.granted.Load()); granted > 0 {
		return granted
	}
	return s.opts.SessionTimeout
}

// Connected implements state.Shared. A process that was stopped for so long that its session may be over is not, even
// before it has noticed that.
func (s *Store) Connected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.link.up && s.link.synced && !s.over() && time.Since(time.Unix(0, s.dial.heard.Load())) < s.sessionTimeout()
}

// waitLinked waits for a connection, and gives up early when that takes a person to mend.
func (s *Store) waitLinked(ctx context.Context) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	return s.await(ctx, func() bool { return s.link.up }, tick.C)
}

// waitSynced waits until the cache can be relied upon.
func (s *Store) waitSynced(ctx context.Context) error {
	return s.await(ctx, func() bool { return s.link.up && s.link.synced }, nil)
}

// await waits for a condition on the link; look says when to see whether there is hope.
func (s *Store) await(ctx context.Context, there func() bool, look <-chan time.Time) error {
	for {
		s.mu.Lock()
		ok, changed := there(), s.link.changed
		s.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			if why, _ := s.dial.last(); why != nil {
				return fmt.Errorf("%w (%w): %w", errDown, ctx.Err(), why)
			}
			return fmt.Errorf("%w: %w", errDown, ctx.Err())
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
