//go:build integration

package zookeeper

import (
	"time"

	"github.com/go-zookeeper/zk"
)

// Dial opens a session with the plain client, which sees everything from the root.
func Dial(host string, t TLS) (*zk.Conn, error) {
	config, err := t.config()
	if err != nil {
		return nil, err
	}
	d := &dialer{config: config}
	conn, _, err := zk.Connect([]string{host}, 4*time.Second, zk.WithDialer(d.dial), zk.WithHostProvider(&hosts{servers: []string{host}}), zk.WithLogInfo(false))
	return conn, err
}
