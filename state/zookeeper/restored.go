package zookeeper

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"time"

	"github.com/npctl/npctl/internal/waits"
)

// A server closes the connection of a client that has seen newer data than the server has, because another server of the
// ensemble may have that data. If the data was restored from a copy or lost, no server has it, and the library would ask for
// its session forever. npctl then ends the session, and the library starts another one.

// probePause is the delay between two checks for older data.
const probePause = time.Second

// endSessionIfRestored waits for a connection after the session timeout has passed without one. It ends the session if the
// servers refuse it because their data is older than the data that this process has seen.
func (s *session) endSessionIfRestored(epoch uint64) {
	for {
		if waits.Sleep(s.ctx, probePause) != nil {
			return
		}
		isNewer := s.dial.turnedAway.Load() && s.isNewerThanServers()
		s.mu.Lock()
		isOver := s.connection.up || s.connection.epoch != epoch
		s.dial.endSession.Store(isNewer && !isOver)
		s.mu.Unlock()
		if isNewer && !isOver {
			s.log.Warn("the data in ZooKeeper is older than the data that npctl has seen: it was restored from a copy, or lost; npctl starts a new session")
		}
		if isNewer || isOver {
			return
		}
	}
}

// isNewerThanServers reports whether this process has seen a newer transaction than the newest one of the servers.
func (s *session) isNewerThanServers() bool {
	ctx, cancel := context.WithTimeout(s.ctx, minCall)
	defer cancel()
	opts := Options{Hosts: s.hosts.list(), TLS: s.dial.files(), Chroot: s.chroot, ReadOnly: true, SessionTimeout: s.timeout, Log: s.log}
	probe, err := s.second(opts)
	if err != nil {
		return false
	}
	defer probe.conn.Close()
	if err := probe.sync(ctx); err != nil { // a follower that is behind catches up
		return false
	}
	newest := probe.dial.zxid.Load()
	return newest > 0 && newest < s.dial.zxid.Load()
}

// endedSession is a connection on which the connect request is answered as a server does after the end of a session.
type endedSession struct {
	net.Conn // nil: the library calls no other methods
	answer   bytes.Reader
}

// Lengths of the parts of a connect response: protocol, timeout, session ID, and a password with its length.
const (
	connectResponseSize = 4 + 4 + 8 + 4 + sessionPasswordSize
	sessionPasswordSize = 16
)

func newEndedSession() *endedSession {
	answer := make([]byte, 4+connectResponseSize)
	binary.BigEndian.PutUint32(answer, connectResponseSize)
	binary.BigEndian.PutUint32(answer[4+4+4+8:], sessionPasswordSize)
	c := &endedSession{}
	c.answer.Reset(answer)
	return c
}

func (c *endedSession) Read(p []byte) (int, error)       { return c.answer.Read(p) }
func (c *endedSession) Write(p []byte) (int, error)      { return len(p), nil }
func (c *endedSession) Close() error                     { return nil }
func (c *endedSession) SetReadDeadline(time.Time) error  { return nil }
func (c *endedSession) SetWriteDeadline(time.Time) error { return nil }
