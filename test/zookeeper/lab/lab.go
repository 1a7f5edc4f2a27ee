package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Env contains the addresses and credentials of a lab.
type Env struct {
	Hosts         string // host:port of each server with TLS, separated by commas
	Plain         string // host:port of the first server without TLS, for four-letter words
	CA, Cert, Key string // files
	// A client certificate of another authority, which the servers refuse.
	StrangerCert, StrangerKey string
}

// Lab is a ZooKeeper for tests.
type Lab struct {
	Env
	Dir          string
	certificates string // directory; "": the lab creates its own
}

// Start starts a ZooKeeper with the given number of servers, and kills it at the end of the test. It has the certificates
// of the lab in the environment, if there is one.
func Start(t testing.TB, servers int) *Lab {
	t.Helper()
	return started(t, servers, sharedCertificates())
}

// StartStranger starts a ZooKeeper of one server with an authority of its own.
func StartStranger(t testing.TB) *Lab {
	t.Helper()
	return started(t, 1, "")
}

func started(t testing.TB, servers int, certificates string) *Lab {
	t.Helper()
	l, err := open(filepath.Join(t.TempDir(), "zookeeper"), servers, certificates)
	t.Cleanup(func() {
		_ = l.Close()
		if t.Failed() {
			logFiles(t, filepath.Join(l.Dir, "log", "zookeeper-*.log"))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Open starts a ZooKeeper with all its data in a directory, for a TestMain with tests that share it. The caller calls
// Close, also after an error.
func Open(dir string, servers int) (*Lab, error) { return open(dir, servers, sharedCertificates()) }

// sharedCertificates returns the directory with the certificates of the lab in the environment; "" without such a lab.
func sharedCertificates() string {
	if dir := os.Getenv("NPCTL_TEST_ZOOKEEPER_LAB"); dir != "" {
		return filepath.Join(dir, "tls")
	}
	return ""
}

// open starts servers with the certificates in a directory, or with new ones if that is "".
func open(dir string, servers int, certificates string) (*Lab, error) {
	l := &Lab{Dir: dir, certificates: certificates}
	if err := l.run("start", strconv.Itoa(servers)); err != nil {
		return l, err
	}
	return l, l.readEnv()
}

// Close kills the servers, which is quicker than stopping them.
func (l *Lab) Close() error {
	if _, err := os.Stat(filepath.Join(l.Dir, "ports")); errors.Is(err, fs.ErrNotExist) { // ZooKeeper never started
		return nil
	}
	return l.Kill()
}

// Up starts the servers that do not run, with their previous data and ports.
func (l *Lab) Up() error { return l.run("start") }

// Restart restarts servers, numbered from 1; without arguments all of them.
func (l *Lab) Restart(server ...int) error { return l.each("restart", server) }

// Kill ends servers by SIGKILL.
func (l *Lab) Kill(server ...int) error { return l.each("kill", server) }

// Pause stops the processes of servers: their connections stay open without any response.
func (l *Lab) Pause(server ...int) error { return l.each("pause", server) }

// Continue ends a pause.
func (l *Lab) Continue(server ...int) error { return l.each("cont", server) }

// Word returns the first server's response to a four-letter word, such as mntr.
func (l *Lab) Word(word string) (string, error) { return script("lab.sh", "word", l.Dir, word) }

func (l *Lab) each(command string, servers []int) error {
	if len(servers) == 0 {
		return l.run(command)
	}
	for _, s := range servers {
		if err := l.run(command, strconv.Itoa(s)); err != nil {
			return err
		}
	}
	return nil
}

func (l *Lab) run(command string, arguments ...string) error {
	_, err := scriptWith([]string{"NPCTL_TEST_ZOOKEEPER_TLS=" + l.certificates}, "lab.sh", append([]string{command, l.Dir}, arguments...)...)
	return err
}

func (l *Lab) readEnv() error {
	text, err := os.ReadFile(filepath.Join(l.Dir, "env.sh"))
	if err != nil {
		return err
	}
	set := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "="); ok {
			set[name] = strings.ReplaceAll(value, `\`, "")
		}
	}
	l.Env = environment(func(name string) string { return set[name] })
	return nil
}

// FromEnviron returns a lab that runs already, from the variables of its env.sh.
func FromEnviron() (Env, error) {
	e := environment(os.Getenv)
	if e.Hosts == "" {
		return e, errors.New("NPCTL_TEST_ZOOKEEPER is not set: start one with test/zookeeper/lab.sh start DIR, and source DIR/env.sh")
	}
	return e, nil
}

func environment(get func(string) string) Env {
	const prefix = "NPCTL_TEST_ZOOKEEPER"
	return Env{
		Hosts: get(prefix), Plain: get(prefix + "_PLAIN"),
		CA: get(prefix + "_CA"), Cert: get(prefix + "_CERT"), Key: get(prefix + "_KEY"),
		StrangerCert: get(prefix + "_STRANGER_CERT"), StrangerKey: get(prefix + "_STRANGER_KEY"),
	}
}

// script runs one of the scripts in test/zookeeper and returns its output. It takes minutes if it has to create a
// virtual environment.
func script(name string, arguments ...string) (string, error) {
	return scriptWith(nil, name, arguments...)
}

// scriptWith runs a script with additional variables in its environment.
func scriptWith(env []string, name string, arguments ...string) (string, error) {
	dir, err := scripts()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	var out, talk strings.Builder
	cmd := exec.CommandContext(ctx, filepath.Join(dir, name), arguments...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = &out, &talk
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(arguments, " "), err, out.String(), talk.String())
	}
	return out.String(), nil
}

// scripts returns the path of test/zookeeper, from any directory of the module.
func scripts() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			return filepath.Join(at, "test", "zookeeper"), nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("no go.mod above %s", dir)
		}
	}
}

func logFiles(t testing.TB, pattern string) {
	t.Helper()
	files, _ := filepath.Glob(pattern)
	for _, f := range files {
		text, _ := os.ReadFile(f)
		t.Logf("%s:\n%s", f, text[max(0, len(text)-8000):])
	}
}
