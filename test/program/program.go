// Package program builds npctl and runs it in tests as a separate process.
package program

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
)

// Main builds npctl, stores its path, runs the tests and returns their exit code.
func Main(m *testing.M, path *string) int {
	built, remove, err := Build()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer remove()
	*path = built
	return m.Run()
}

// MainParallel is Main for tests that mostly wait for timeouts and for other programs: more of them run at a time than the
// machine has processors. -parallel overrides the number.
func MainParallel(m *testing.M, path *string, atATime int) int {
	SetParallel(atATime)
	return Main(m, path)
}

// SetParallel sets the default of -parallel. It is called before the flags are parsed.
func SetParallel(atATime int) {
	if err := flag.Set("test.parallel", strconv.Itoa(atATime)); err != nil {
		panic(err)
	}
}

// Build builds npctl and returns its path. $NPCTL names an existing binary; $NPCTL_RACE enables the race detector.
func Build() (path string, remove func(), err error) {
	if given := os.Getenv("NPCTL"); given != "" {
		path, err = filepath.Abs(given)
		return path, func() {}, err
	}
	dir, err := os.MkdirTemp("", "npctl-program")
	if err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	path = filepath.Join(dir, "npctl")
	race, cgo := "-race=false", "CGO_ENABLED=0"
	if os.Getenv("NPCTL_RACE") != "" {
		race, cgo = "-race", "CGO_ENABLED=1"
	}
	cmd := exec.CommandContext(context.Background(), "go", "build", race, "-o", path, "github.com/npctl/npctl/cmd/npctl")
	cmd.Env = append(os.Environ(), cgo)
	if out, err := cmd.CombinedOutput(); err != nil {
		remove()
		return "", nil, fmt.Errorf("build npctl: %w\n%s", err, out)
	}
	return path, remove, nil
}

// Process is a running or terminated npctl.
type Process struct {
	Done <-chan struct{} // closed when the process ends

	t   *testing.T
	cmd *exec.Cmd
	log string
}

// Start starts a command and appends its stderr to a file. The end of the test kills the process.
func Start(t *testing.T, cmd *exec.Cmd, log string) *Process {
	t.Helper()
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	testutil.Must(t, err)
	defer file.Close() //nolint:errcheck // the process has its own
	cmd.Stderr = file
	testutil.Must(t, cmd.Start())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = cmd.Wait() // see cmd.ProcessState
	}()
	p := &Process{Done: done, t: t, cmd: cmd, log: log}
	t.Cleanup(p.Kill)
	return p
}

// PID returns the process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Runs fails the test if the process has ended.
func (p *Process) Runs() {
	p.t.Helper()
	select {
	case <-p.Done:
		p.t.Fatalf("npctl has ended: %s", p.cmd.ProcessState)
	default:
	}
}

// Signal sends a signal to the process.
func (p *Process) Signal(sig os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Errorf("signal %s: %v", sig, err)
	}
}

// Kill kills the process and waits for its end.
func (p *Process) Kill() {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Errorf("kill npctl: %v", err)
		return
	}
	<-p.Done
}

// Ends waits for the end of the process and returns its exit code.
func (p *Process) Ends(within time.Duration) int {
	p.t.Helper()
	select {
	case <-p.Done:
	case <-time.After(within):
		p.t.Fatalf("npctl still runs after %s", within)
	}
	return p.cmd.ProcessState.ExitCode()
}

// Stop stops the process with SIGTERM and returns the duration.
func (p *Process) Stop() time.Duration {
	p.t.Helper()
	began := time.Now()
	p.Signal(syscall.SIGTERM)
	if code := p.Ends(testutil.Patience); code != 0 {
		p.t.Errorf("npctl: exit code %d after SIGTERM", code)
	}
	return time.Since(began)
}

// Log returns the content of the log file, including that of earlier processes with the same file.
func (p *Process) Log() []byte {
	p.t.Helper()
	text, err := os.ReadFile(p.log)
	if err != nil {
		p.t.Error(err)
	}
	return text
}

// Logged counts the lines of the log that contain all words.
func (p *Process) Logged(words ...string) (count int) {
	p.t.Helper()
	for line := range bytes.Lines(p.Log()) {
		all := true
		for _, word := range words {
			all = all && bytes.Contains(line, []byte(word))
		}
		if all {
			count++
		}
	}
	return count
}
