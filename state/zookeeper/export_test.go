//go:build integration

package zookeeper

import (
	"context"
	"log/slog"
	"time"

	"github.com/go-zookeeper/zk"
)

// Dial opens a session with the client library, without a chroot.
func Dial(servers []string, t TLS) (*zk.Conn, error) {
	d := &dialer{tls: &t}
	conn, _, err := zk.Connect(servers, 4*time.Second, zk.WithDialer(d.dial), zk.WithHostProvider(&hosts{}), zk.WithLogInfo(false),
		zk.WithLogger(logger{slog.New(slog.DiscardHandler)}))
	return conn, err
}

// Session returns the session ID, as ZooKeeper's own tools print it.
func (s *Store) Session() int64 { return s.session.conn.(*zk.Conn).SessionID() }

// Server returns the address of the connected server.
func (s *Store) Server() string { return s.session.conn.Server() }

// WritePast attempts both kinds of write without the checks that precede them.
func (s *Store) WritePast(ctx context.Context) []error {
	_, _, err := s.session.multi(ctx, "write", []any{&zk.SetDataRequest{Path: s.session.serverPath(nodesDir), Version: -1}})
	return []error{s.session.ensure(ctx, nodesDir+"/0000000099", nil), err}
}

// Tidy runs one round of the upkeep at once.
func (s *Store) Tidy(ctx context.Context) error { return s.upkeep.tidy(ctx) }
