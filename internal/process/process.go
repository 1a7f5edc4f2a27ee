// Package process runs a program for a builder: in a process group of its own, with a clean environment, its output
// going masked and bounded into a log, and stopped so that nothing of it stays behind.
//
// Rules of stopping, found by trying them on diskimage-builder:
//
//  1. SIGTERM goes to the leading process only. Its trap cleans up what it mounted; the same signal to the whole group
//     kills the very children that the trap relies on.
//  2. The leader gets Spec.Grace to end. Then SIGKILL goes to the group and to every descendant that has left it
//     (setsid, sudo with its own terminal).
//  3. The same last blow is dealt to what a program leaves running after it ended by itself.
//  4. What root's programs mount, they mount in a mount namespace of their own, where the system allows it: nobody else
//     sees those mounts, nobody can delete through them, and they vanish with the last process.
package process

import (
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

// DefaultGrace is how long a leader may take to end after SIGTERM, when the Spec does not say.
const DefaultGrace = 30 * time.Second

// drain is how long output is awaited after the leader has ended; a child that holds the pipe longer is killed.
const drain = 2 * time.Second

// RunIDVariable is set to another value in the environment of every run; it finds descendants that left the group.
const RunIDVariable = "NPCTL_RUN_ID"

// Spec is a program to run.
type Spec struct {
	Args []string // the program and its arguments; a program without a slash is looked up in the PATH of Env
	Dir  string   // working directory
	Env  []string // the whole environment, see BaseEnv
	// Log gets stdout and stderr together, as they come. Nil discards them.
	Log      io.Writer
	LogLimit int64    // bytes; DefaultLogLimit when 0
	Secrets  []string // masked in the log, in lines and in errors
	// Line, when set, is called with every line of output, masked, from one goroutine. A carriage return ends a line too.
	Line    func(line string)
	Grace   time.Duration // between SIGTERM and SIGKILL; DefaultGrace when 0
	Missing string        // what to do when the program is not installed
	Started func(pid int) // told the leader's process id, which is the group's too
	// SharedMounts gives the program no mount namespace of its own, as is always so for other users than root.
	SharedMounts bool
	// Sandbox, when set, hides all other files from a program that root runs, where the system allows it.
	Sandbox *Sandbox
	// Chatter, when set, tells lines that say nothing about why a program failed; they are left out of errors.
	Chatter func(line string) bool
	RunID   string // value of RunIDVariable in the environment of this run alone; made up when empty
}

// Run runs the program to its end. It returns nil when the exit code is 0, an *ExitError when the program ended
// otherwise, and a *StoppedError, which wraps the cause of ctx, when it was stopped because ctx ended. When Run returns,
// no process of the run is left, save for one that the kernel cannot kill, which is an error too.
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
	sandbox string // the directory to remove in the end, or ""
	pid     int
	runID   string
	output  *output
	pipe    *os.File
	pumped  chan struct{} // closed when the output has ended
	exited  chan error    // gets what Wait returned, once
	family  family        // descendants seen so far
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
		pumped: make(chan struct{}), exited: make(chan error, 1), family: family{},
	}
	if spec.Started != nil {
		spec.Started(c.pid)
	}
	go func() { c.output.pump(read); close(c.pumped) }()
	go func() { c.exited <- cmd.Wait() }()
	return c, nil
}

// launch starts the program, with mounts of its own if it may have them, and returns the directory of its sandbox.
func launch(program string, spec Spec, output *os.File) (cmd *osexec.Cmd, sandbox string, err error) {
	attempt := func(attributes *syscall.SysProcAttr) error {
		cmd = &osexec.Cmd{
			Path: program, Args: spec.Args, Dir: spec.Dir, Env: spec.Env, Stdout: output, Stderr: output, SysProcAttr: attributes,
		}
		return cmd.Start()
	}
	if spec.Sandbox != nil {
		if sandbox, err = inSandbox(program, *spec.Sandbox, attempt); !errors.Is(err, errNoSandbox) {
			return cmd, sandbox, err
		}
	}
	if own := ownMounts(); own != nil && !spec.SharedMounts {
		// Root in a container often may not have a namespace; nor may it mount anything then.
		if err = attempt(own); !errors.Is(err, syscall.EPERM) {
			return cmd, "", err
		}
	}
	return cmd, "", attempt(&syscall.SysProcAttr{Setpgid: true})
}

// run waits for the program, stops it when ctx ends, and clears up behind it.
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
		_ = os.Remove(c.sandbox) // empty: what was mounted there is gone with the program
	}
	err := c.verdict(waited, stopped)
	c.output.finish(summary(err))
	if left != nil {
		return errors.Join(err, left)
	}
	return err
}

// verdict turns the way the program ended into Run's error.
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

// WithTimeout is context.WithTimeout with a cause that tells the time limit; zero means none.
func WithTimeout(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("timeout after %s: %w", limit, context.DeadlineExceeded))
}
