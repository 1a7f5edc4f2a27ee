//go:build unix

package lab

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// Pause makes services hang like those of an overloaded or disconnected machine: they accept connections and do not
// respond. resume lets them continue with the requests received in between; it may be called more than once. The names
// are those of faults.sh list; the most useful are
//
//	glance, neutron, rabbitmq       a server create hangs, and succeeds after resume although its client has gone
//	nova-compute1, nova-compute2    servers stay in BUILD; a delete is answered with 204 and not executed; no addresses
//	keystone, placement, nova-api   no request succeeds
//
// A service that is paused for more than a minute is reported as down, and servers created just after resume may fail.
func (l *Lab) Pause(services ...string) (resume func() error, err error) {
	var paused []int
	resume = sync.OnceValue(func() error { return signalGroups(paused, syscall.SIGCONT) })
	for _, name := range services {
		pid, err := l.pid(name)
		if err == nil {
			err = signalGroups([]int{pid}, syscall.SIGSTOP)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("pause %s: %w", name, err), resume())
		}
		paused = append(paused, pid)
	}
	return resume, nil
}

func signalGroups(pids []int, signal syscall.Signal) error {
	var errs []error
	for _, pid := range pids {
		if err := syscall.Kill(-pid, signal); err != nil {
			errs = append(errs, fmt.Errorf("%s to process group %d: %w", signal, pid, err))
		}
	}
	return errors.Join(errs...)
}

// pid reads "PID STARTTIME", as written by lib/process.sh. The start time shows whether the PID still belongs to that
// process.
func (l *Lab) pid(service string) (int, error) {
	var pid int
	var started string
	text, err := os.ReadFile(filepath.Join(l.dir, "run", service+".pid"))
	if err != nil {
		return 0, fmt.Errorf("is %s a service of the lab? %w", service, err)
	}
	if _, err := fmt.Sscan(string(text), &pid, &started); err != nil || pid <= 1 {
		return 0, fmt.Errorf("read pid of %s: %q is no pid and start time", service, text)
	}
	if now := startTime(pid); now != started {
		return 0, fmt.Errorf("%s has ended; run test/openstack/up.sh", service)
	}
	return pid, nil
}

// startTime returns field 22 of /proc/PID/stat, in clock ticks since boot, or "" if there is no such process. It counts
// fields from the end of the process name, which may contain spaces.
func startTime(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return ""
	}
	return string(fields[19])
}
