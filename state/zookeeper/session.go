package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/npctl/npctl/state"
)

// errDisconnected is returned when a call finds no connection to ZooKeeper.
var errDisconnected = errors.New("no connection to ZooKeeper")

// connectionState is the state of the connection to ZooKeeper.
type connectionState struct {
	up      bool   // the session and a connection for it exist
	epoch   uint64 // counts connections
	loaded  uint64 // epoch of the connection on which the whole tree was last read
	synced  bool   // the cache is up to date with this connection
	expiry  *time.Timer
	changed chan struct{} // closed and replaced when up or synced changes
}

// announce wakes all goroutines that wait for a change of the connection.
func (l *connectionState) announce() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// observer receives the events of a session, in their order and with mu held. It must not block.
type observer interface {
	onChange(kind zk.EventType, at string) // at is below the chroot
	onConnected()
	onDisconnected()
	onSessionLost(why string) // the session has ended, or may have
}

// session is the connection of this process to ZooKeeper. It connects, waits for the connection, and makes calls; see
// calls.go.
type session struct {
	ctx      context.Context // until the store is closed
	log      *slog.Logger
	hosts    *hosts
	servers  []string // at the start
	chroot   string
	readOnly bool
	timeout  time.Duration // as requested; see sessionTimeout
	dial     *dialer
	dialTo   func(*session) (client, error) // tests use a tree in memory
	conn     client                         // nil before connect
	observer observer
	metrics  atomic.Pointer[state.Observer] // nil: none

	mu         *sync.Mutex // guards connection; see Store
	connection connectionState
}

func newSession(ctx context.Context, opts Options, mu *sync.Mutex, events observer) (*session, error) {
	d := &dialer{tls: opts.TLS}
	for _, dir := range watchedDirs {
		d.paths = append(d.paths, opts.Chroot+dir)
	}
	if opts.TLS != nil {
		if _, err := opts.TLS.config(); err != nil {
			return nil, err
		}
	}
	return &session{ctx: ctx, log: opts.Log, hosts: &hosts{}, servers: opts.Hosts, chroot: opts.Chroot, readOnly: opts.ReadOnly, dialTo: dialServers,
		timeout: opts.SessionTimeout, dial: d, observer: events, mu: mu, connection: connectionState{changed: make(chan struct{})}}, nil
}

// client is the part of the client library that a session uses.
type client interface {
	Get(path string) ([]byte, *zk.Stat, error)
	Children(path string) ([]string, *zk.Stat, error)
	Exists(path string) (bool, *zk.Stat, error)
	Create(path string, data []byte, flags int32, acl []zk.ACL) (string, error)
	Multi(ops ...any) ([]zk.MultiResponse, error)
	Sync(path string) (string, error)
	Server() string
	Close()
}

// connect starts the client library, which connects in the background.
func (s *session) connect() (err error) {
	s.conn, err = s.dialTo(s)
	return err
}

func dialServers(s *session) (client, error) {
	conn, _, err := zk.Connect(s.servers, s.timeout, zk.WithDialer(s.dial.dial), zk.WithHostProvider(s.hosts),
		zk.WithEventCallback(s.onEvent), zk.WithLogInfo(false), zk.WithLogger(logger{s.log}), zk.WithMaxBufferSize(maxFrame))
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// isClosed reports whether the store was closed.
func (s *session) isClosed() bool { return s.ctx.Err() != nil }

// usable returns an error if the store is closed or ctx is done.
func (s *session) usable(ctx context.Context) error {
	if s.isClosed() {
		return fmt.Errorf("state in ZooKeeper: %w", os.ErrClosed)
	}
	return ctx.Err()
}

// onEvent is the event callback of the client library. The library calls it in the order of the events, and before it
// returns the answers that follow them. onEvent must not block.
func (s *session) onEvent(ev zk.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ev.Type != zk.EventSession {
		if len(ev.Path) > len(s.chroot) {
			s.observer.onChange(ev.Type, ev.Path[len(s.chroot):])
		}
		return
	}
	switch ev.State {
	case zk.StateHasSession:
		s.onConnected()
	case zk.StateDisconnected:
		s.onDisconnected()
	case zk.StateExpired:
		s.observer.onSessionLost("the session has expired")
	}
}

func (s *session) onConnected() {
	s.dial.connected()
	s.connection.up, s.connection.synced = true, false
	s.connection.epoch++
	if o := s.metrics.Load(); o != nil && s.connection.epoch > 1 {
		o.Reconnected()
	}
	if s.connection.expiry != nil {
		s.connection.expiry.Stop()
	}
	s.connection.announce()
	s.observer.onConnected()
}

func (s *session) onDisconnected() {
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
	s.observer.onDisconnected()
}

// onSessionOverdue runs after the session timeout has passed without a connection. It assumes that the session has
// ended, because it cannot ask a server.
func (s *session) onSessionOverdue(epoch uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.connection.up && s.connection.epoch == epoch {
		s.observer.onSessionLost("no connection for longer than the session timeout")
		go s.endSessionIfRestored(epoch)
	}
}

// sessionTimeout returns the timeout that the server granted, or the requested one before the first connection.
func (s *session) sessionTimeout() time.Duration {
	if granted := time.Duration(s.dial.granted.Load()); granted > 0 {
		return granted
	}
	return s.timeout
}

// connected reports whether the cache is up to date. It also returns false if the process was stopped for so long that
// its session may have ended, even before the process has noticed.
func (s *session) connected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	silent := time.Since(time.Unix(0, s.dial.heard.Load()))
	return s.connection.up && s.connection.synced && !s.isClosed() && silent < s.sessionTimeout()
}

// waitLinked waits for a connection. It returns early with an error that only an operator can fix.
func (s *session) waitLinked(ctx context.Context) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	return s.await(ctx, func() bool { return s.connection.up }, tick.C)
}

// waitSynced waits until the cache is up to date.
func (s *session) waitSynced(ctx context.Context) error {
	return s.await(ctx, func() bool { return s.connection.up && s.connection.synced }, nil)
}

// await waits until there returns true. On each tick of look it checks whether retrying the connection is useless.
func (s *session) await(ctx context.Context, there func() bool, look <-chan time.Time) error {
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

// markSynced declares the cache up to date, unless the connection is another one by now. It returns whether it is so,
// and whether it was not before. mu is held.
func (s *session) markSynced(epoch uint64) (synced, first bool) {
	if s.connection.epoch != epoch || !s.connection.up {
		return false, false
	}
	s.connection.loaded = epoch
	if first = !s.connection.synced; first {
		s.connection.synced = true
		s.connection.announce()
	}
	return true, first
}

// logger writes the messages of the client library to the debug log.
type logger struct{ log *slog.Logger }

// Printf implements zk.Logger.
func (l logger) Printf(format string, args ...any) {
	l.log.Debug("ZooKeeper client", "message", fmt.Sprintf(format, args...))
}
