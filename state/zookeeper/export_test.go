//go:build integration

package zookeeper

import (
	"context"
	"log/slog"
	"time"

	"github.com/go-zookeeper/zk"
)

// Dial opens a session with the plain client, which sees everything from the root.
func Dial(servers []string, t TLS) (*zk.Conn, error) {
	config, err := t.config()
	if err != nil {
		return nil, err
	}
	d := &dialer{config: config}
	conn, _, err := zk.Connect(servers, 4*time.Second, zk.WithDialer(d.dial), zk.WithHostProvider(&hosts{servers: servers}), zk.WithLogInfo(false),
		zk.WithLogger(logger{slog.New(slog.DiscardHandler)}))
	return conn, err
}

// Session is the number of the session, as ZooKeeper's own tools tell it.
func (s *Store) Session() int64 { return s.conn.SessionID() }

// Server is the one that the store is connected to.
func (s *Store) Server() string { return s.conn.Server() }

// WritePast tries to write in both ways that there are, past everything that asks first whether that may be.
func (s *Store) WritePast(ctx context.Context) []error {
	_, _, err := s.multi(ctx, "write", []any{&zk.SetDataRequest{Path: s.at(nodesDir), Version: -1}})
	return []error{s.ensure(ctx, nodesDir+"/0000000099", nil), err}
}

// Tidy does at once what is done every minute.
func (s *Store) Tidy(ctx context.Context) error { return s.tidy(ctx) }
