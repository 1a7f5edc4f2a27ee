package process

import (
	"cmp"
	"fmt"
	"os"
	"time"
)

// killWait is the time that the kernel may take to end processes after SIGKILL; a process in uninterruptible I/O
// takes longer.
const killWait = 10 * time.Second

// stop terminates the leader, and kills it after the grace time. It returns the result of Wait.
func (c *child) stop(cause error) (*StoppedError, error) {
	stopped := &StoppedError{Program: c.name(), Cause: cause, Grace: c.spec.Grace}
	stopped.Grace = cmp.Or(stopped.Grace, defaultGrace)
	// Find descendants before the signal: after the parent of a process has ended, nothing links the process to the
	// run.
	c.family.add(c.pid, c.runID)
	terminate(c.pid)
	if ended, err := await(c.exited, stopped.Grace); ended {
		return stopped, err
	}
	stopped.Killed = true
	c.family.add(c.pid, c.runID)
	killGroup(c.pid)
	c.family.kill()
	_, err := await(c.exited, killWait)
	return stopped, err
}

// await waits for the channel, up to the limit.
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

// clear reads the rest of the output and kills the remaining processes of the run.
func (c *child) clear() error {
	timer := time.NewTimer(drain)
	defer timer.Stop()
	select {
	case <-c.pumped:
	case <-timer.C:
	}
	killGroup(c.pid)
	c.family.add(c.pid, c.runID)
	c.family.kill()
	left := c.family.gone(killWait)
	_ = c.pipe.SetReadDeadline(time.Now())
	<-c.pumped
	_ = c.pipe.Close()
	if len(left) > 0 {
		return fmt.Errorf("processes %v of %s do not end on SIGKILL: they hang in the kernel; see `ps -o pid,stat,wchan,args`", left, c.name())
	}
	return nil
}

// Kill kills the remaining processes of a run that an earlier npctl started: the leader's group, its descendants, and
// all processes with the run's ID. The leader's start time, from StartTime, guards against a later process with the
// same ID.
func Kill(pid int, started uint64, runID string) {
	left := descendants{}
	if now, alive := StartTime(pid); pid > 1 && pid != os.Getpid() && alive && now == started {
		left.add(pid, runID)
		killGroup(pid)
	}
	left.add(noLeader, runID)
	left.kill()
	left.gone(killWait)
}

// noLeader is not a valid process ID or group.
const noLeader = -1
