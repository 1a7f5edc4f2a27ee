package bolt_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/bolt"
	"github.com/npctl/npctl/state/statetest"
)

const (
	roleVariable  = "NPCTL_BOLT_TEST_ROLE"
	pathVariable  = "NPCTL_BOLT_TEST_PATH"
	limitVariable = "NPCTL_BOLT_TEST_LIMIT"
)

// TestMain allows a test to run this binary as a child process that performs one role on a state file.
func TestMain(m *testing.M) {
	role, ok := map[string]func(*bolt.Store) error{"": nil, "write": write, "fill": fillUp}[os.Getenv(roleVariable)]
	if !ok {
		fmt.Fprintln(os.Stderr, "no such role")
		os.Exit(2)
	}
	if role == nil {
		os.Exit(m.Run())
	}
	s, err := bolt.Open(bolt.Options{Path: os.Getenv(pathVariable), Version: "0.1.0"})
	if err == nil {
		err = role(s)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// child returns a command that runs this binary in a role.
func child(t *testing.T, role, path string, env ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), append(env, roleVariable+"="+role, pathVariable+"="+path)...)
	return cmd
}

// write takes the lock and commits until the process is killed.
func write(s *bolt.Store) error {
	if _, err := s.Lock(context.Background(), "apply", state.Holder{Operation: "apply"}); err != nil {
		return err
	}
	return statetest.CrashWriter(context.Background(), s, os.Stdout)
}

// fillUp commits records until the file reaches its size limit.
func fillUp(s *bolt.Store) error {
	limit, err := strconv.ParseUint(os.Getenv(limitVariable), 10, 64)
	if err != nil {
		return err
	}
	signal.Ignore(syscall.SIGXFSZ)
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
		return err
	}
	return addNodes(s)
}

// addNodes adds nodes until a commit fails, and prints their IDs.
func addNodes(s *bolt.Store) error {
	for i := 0; ; i++ {
		entries, err := s.Commit(context.Background(), state.Op{Record: statetest.Node(i)})
		if err != nil {
			return err
		}
		fmt.Println(entries[0].Record.Key().ID)
	}
}
