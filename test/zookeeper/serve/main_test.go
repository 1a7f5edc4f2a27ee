//go:build integration

package serve

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/npctl/npctl/test/program"
	"github.com/npctl/npctl/test/zookeeper/lab"
)

var (
	npctl   string      // the program under test
	servers *lab.Lab    // for tests that do not disturb the servers; each test has its own chroot
	root    *connection // to those servers
)

func TestMain(m *testing.M) {
	code := 1
	dir, err := os.MkdirTemp("", "npctl-serve")
	if err == nil {
		code, err = run(m, dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

func run(m *testing.M, dir string) (int, error) {
	program.SetParallel(6)
	path, remove, err := program.Build()
	if err != nil {
		return 1, err
	}
	defer remove()
	npctl = path
	servers, err = lab.Open(filepath.Join(dir, "zookeeper"), 1)
	defer func() { _ = servers.Close() }()
	if err != nil {
		return 1, err
	}
	if root, err = connect(servers.Env); err != nil {
		return 1, err
	}
	defer root.conn.Close()
	return m.Run(), nil
}
