// Package process runs a program for a builder: in a process group of its own, with a clean environment, with its output
// masked and limited in a log. When a run ends, no process of it remains.
//
// Rules for stopping, found in tests with diskimage-builder:
//
//  1. SIGTERM goes to the leader only. Its trap unmounts its file systems; the same signal to the whole group would kill
//     the children that the trap relies on.
//  2. The leader gets Spec.Grace to end. Then SIGKILL goes to the group and to every descendant that has left it
//     (setsid, sudo with its own terminal).
//  3. After a program has ended on its own, SIGKILL also goes to all its remaining processes.
//  4. Root's programs run in a mount namespace of their own, where the system permits it: other processes do not see
//     those mounts and cannot delete files through them, and the mounts vanish with the last process.
package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"syscall"
	"time"

	"github.com/google/uuid"
)

// defaultGrace is the default time between SIGTERM and SIGKILL.
const defaultGrace = 30 * time.Second

// drain is the time to wait for output after the leader has ended; a child that holds the pipe longer is killed.
const drain = 2 * time.Second

// RunIDVariable has a different value in the environment of every run; it identifies descendants that left the group.
const RunIDVariable = "NPCTL_RUN_ID"

// Spec is a program to run.
type Spec struct {
	Args  []string // the program and its arguments; a program without a slash is looked up in the PATH of Env
	Dir   string   // working directory
	Env   []string // the whole environment, see BaseEnv
	Stdin []byte   // input of the program; without it, the program reads nothing
	// Log receives stdout and stderr combined, in order. Nil discards them.
	Log      io.Writer
	LogLimit int64    // bytes; DefaultLogLimit when 0
	Secrets  []string // masked in the log, in lines and in errors
	// Line, if not nil, is called with every masked line of output, from one goroutine. A carriage return ends a line
	// too.
	Line    func(line string)
	Grace   time.Duration // between SIGTERM and SIGKILL; 30 s when 0
	Missing string        // what to do when the program is not installed
	Started func(pid int) // receives the leader's process ID, which is also the group's
	// SharedMounts disables the separate mount namespace, which only root's programs have.
	SharedMounts bool
	// Sandbox, if not nil, hides all other files from a program that root runs, where the system permits it.
	Sandbox *Sandbox
	// IsNoise, if not nil, reports lines that do not explain a failure; error messages omit them.
	IsNoise func(line string) bool
	RunID   string // value of RunIDVariable in the environment of this run; generated when empty
}

// Run runs the program to its end. It returns nil for exit code 0, an *ExitError for any other end, and a
// *StoppedError that wraps the cause of ctx if ctx ended. When Run returns, no process of the run remains, unless the
// kernel cannot kill it, which is an error too.
func Run(ctx context.Context, spec Spec) error {
	if len(spec.Args) == 0 {
		return errors.New("run: no program given")
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s was not started: %w", spec.Args[0], context.Cause(ctx))
	}
	program, err := lookPath(spec)
	if err != nil {
		return err
	}
	c, err := start(program, spec)
	if err != nil {
		return err
	}
	return c.run(ctx)
}

// child is a started program.
type child struct {
	spec    Spec
	sandbox string // a directory to remove after the run, or ""
	pid     int
	runID   string
	output  *output
	pipe    *os.File
	pumped  chan struct{} // closed at the end of the output
	exited  chan error    // receives the result of Wait once
	family  descendants   // descendants found so far
}

func start(program string, spec Spec) (*child, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("pipe for the log: %w", err)
	}
	runID := spec.RunID
	if runID == "" {
		runID = uuid.NewString()
	}
	spec.Env = append(spec.Env[:len(spec.Env):len(spec.Env)], RunIDVariable+"="+runID)
	cmd, sandbox, err := launch(program, spec, write)
	_ = write.Close()
	if err != nil {
		_ = read.Close()
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	c := &child{
		spec: spec, sandbox: sandbox, pid: cmd.Process.Pid, runID: runID, output: newOutput(spec), pipe: read,
		pumped: make(chan struct{}), exited: make(chan error, 1), family: descendants{},
	}
	c.family.adopt(c.pid)
	if spec.Started != nil {
		spec.Started(c.pid)
	}
	go func() { c.output.pump(read); close(c.pumped) }()
	go func() { c.exited <- cmd.Wait() }()
	return c, nil
}

// KillWithGroup makes the end of the command's context kill the command and its process group.
func KillWithGroup(command *osexec.Cmd) {
	command.SysProcAttr = ownGroup()
	command.Cancel = func() error {
		killGroup(command.Process.Pid)
		return nil
	}
}

// launch starts the program, in its own mount namespace if permitted, and returns the directory of its sandbox.
func launch(program string, spec Spec, output *os.File) (cmd *osexec.Cmd, sandbox string, err error) {
	attempt := func(attributes *syscall.SysProcAttr) error {
		cmd = &osexec.Cmd{
			Path: program, Args: spec.Args, Dir: spec.Dir, Env: spec.Env, Stdout: output, Stderr: output, SysProcAttr: attributes,
		}
		if spec.Stdin != nil {
			cmd.Stdin = bytes.NewReader(spec.Stdin)
		}
		return cmd.Start()
	}
	if spec.Sandbox != nil {
		if sandbox, err = inSandbox(program, *spec.Sandbox, attempt); !errors.Is(err, errNoSandbox) {
			return cmd, sandbox, err
		}
	}
	if own := ownMounts(); own != nil && !spec.SharedMounts {
		// Root in a container often may not create a namespace; it cannot mount anything then either.
		if err = attempt(own); !errors.Is(err, syscall.EPERM) {
			return cmd, "", err
		}
	}
	return cmd, "", attempt(ownGroup())
}

// run waits for the program, stops it when ctx ends, and cleans up.
func (c *child) run(ctx context.Context) error {
	var waited error
	var stopped *StoppedError
	select {
	case waited = <-c.exited:
	case <-ctx.Done():
		stopped, waited = c.stop(context.Cause(ctx))
	}
	left := c.clear()
	if c.sandbox != "" {
		_ = os.Remove(c.sandbox) // empty: its mounts vanished with the program
	}
	err := c.verdict(waited, stopped)
	c.output.finish(summary(err))
	if left != nil {
		return errors.Join(err, left)
	}
	return err
}

// verdict converts the way the program ended to Run's error.
func (c *child) verdict(waited error, stopped *StoppedError) error {
	tail := c.output.tail.lines()
	if stopped != nil {
		stopped.Tail = tail
		return stopped
	}
	var exit *osexec.ExitError
	switch {
	case waited == nil:
		return nil
	case errors.As(waited, &exit):
		failed := &ExitError{Program: c.name(), Code: exit.ExitCode(), Tail: tail, LogErr: c.output.err}
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			failed.Signal = status.Signal()
		}
		return failed
	default:
		return fmt.Errorf("wait for %s: %w", c.name(), waited)
	}
}

func (c *child) name() string { return c.output.mask.Text(c.spec.Args[0]) }

// WithTimeout is context.WithTimeout with a cause that names the time limit; zero means no limit.
func WithTimeout(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("timeout after %s: %w", limit, context.DeadlineExceeded))
}
