package process

import (
	"fmt"
	"os"
	"syscall"
	"time"
)

// killWait is how long the kernel may take to end processes that got SIGKILL; one in uninterruptible I/O takes longer.
const killWait = 10 * time.Second

// stop asks the leader to end, and kills it when it does not. It returns what Wait returned.
func (c *child) stop(cause error) (*StoppedError, error) {
	stopped := &StoppedError{Program: c.name(), Cause: cause, Grace: c.spec.Grace}
	if stopped.Grace == 0 {
		stopped.Grace = DefaultGrace
	}
	// Looked at before the signal: a child whose parent has ended can no longer be told from strangers.
	c.family.add(c.pid, c.runID)
	_ = syscall.Kill(c.pid, syscall.SIGTERM)
	if ended, err := await(c.exited, stopped.Grace); ended {
		return stopped, err
	}
	stopped.Killed = true
	c.family.add(c.pid, c.runID)
	_ = syscall.Kill(-c.pid, syscall.SIGKILL)
	c.family.kill()
	_, err := await(c.exited, killWait)
	return stopped, err
}

// await waits for the channel, but not for ever.
func await(exited <-chan error, limit time.Duration) (bool, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-exited:
		return true, err
	case <-timer.C:
		return false, nil
	}
}

// clear takes in the rest of the output and ends whatever the program left running.
func (c *child) clear() error {
	timer := time.NewTimer(drain)
	defer timer.Stop()
	select {
	case <-c.pumped:
	case <-timer.C:
	}
	_ = syscall.Kill(-c.pid, syscall.SIGKILL)
	c.family.add(c.pid, c.runID)
	c.family.kill()
	left := c.family.gone(killWait)
	_ = c.pipe.SetReadDeadline(time.Now())
	<-c.pumped
	_ = c.pipe.Close()
	if len(left) > 0 {
		return fmt.Errorf("processes %v of %s do not end on SIGKILL: they hang in the kernel, look at `ps -o pid,stat,wchan,args`", left, c.name())
	}
	return nil
}

// Kill ends, at once, what is left of a run that an earlier npctl started: the leader's group, its descendants, and
// whatever carries the run's id. The leader's start time, from StartTime, guards against a later process with its id.
func Kill(pid int, started uint64, runID string) {
	left := family{}
	if now, alive := StartTime(pid); pid > 1 && pid != os.Getpid() && alive && now == started {
		left.add(pid, runID)
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	}
	left.add(noLeader, runID)
	left.kill()
	left.gone(killWait)
}

// noLeader is no process's id or group.
const noLeader = -1
