//go:build integration

package zookeeper_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state/bolt"
	"github.com/npctl/npctl/state/zookeeper"
	"github.com/npctl/npctl/test/program"
	"github.com/npctl/npctl/test/zookeeper/lab"
)

const holderChroot = "NPCTL_TEST_HOLDER_CHROOT"

// TestMain also runs the helper process, which holds locks until it is killed.
func TestMain(m *testing.M) {
	chroot := os.Getenv(holderChroot)
	if chroot == "" {
		program.SetParallel(8) // the tests mostly wait for sessions to end and for servers to start
		os.Exit(m.Run())
	}
	if err := hold(chroot, os.Args[1]); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// hold claims all nodes, takes a lock, registers a pool, prints that it has done so, and waits to be killed.
func hold(chroot, dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	env, err := lab.FromEnviron()
	if err != nil {
		return err
	}
	private, err := bolt.Open(bolt.Options{Role: bolt.RolePrivate, Path: filepath.Join(dir, "private.db")})
	if err != nil {
		return err
	}
	s, err := zookeeper.Open(ctx, zookeeper.Options{Hosts: strings.Split(env.Hosts, ","), Chroot: chroot, Private: private,
		TLS: &zookeeper.TLS{CA: env.CA, Cert: env.Cert, Key: env.Key}, SessionTimeout: quick})
	if err != nil {
		return err
	}
	entries, err := s.List(ctx, resources.KindNode)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if _, _, err := s.Claim(ctx, entry.Record.Key()); err != nil {
			return err
		}
	}
	if err := s.Register(ctx, resources.Presence{Pools: []resources.RegisteredPool{{Provider: "cloud", Pool: "held"}}}); err != nil {
		return err
	}
	fmt.Println("held")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// startHolder runs this program as the helper process and returns a function that kills it.
func startHolder(t *testing.T, tr *tree) (kill func()) {
	t.Helper()
	self, err := os.Executable()
	testutil.Must(t, err)
	cmd := exec.CommandContext(t.Context(), self, t.TempDir())
	cmd.Env, cmd.Stderr = append(os.Environ(), holderChroot+"="+tr.chroot), os.Stderr
	stdin, err := cmd.StdinPipe()
	testutil.Must(t, err)
	stdout, err := cmd.StdoutPipe()
	testutil.Must(t, err)
	testutil.Must(t, cmd.Start())
	kill = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = stdin.Close()
	}
	t.Cleanup(kill)
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || line != "held\n" {
		t.Fatalf("the other process says %q, %v", line, err)
	}
	return kill
}
