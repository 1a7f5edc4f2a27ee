package bolt

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// process identifies a running program as far as another process on the same machine can verify it.
type process struct {
	Host    string
	PID     int
	Started string // clock ticks since boot, as in /proc/PID/stat
	hostIdentity
}

// hostIdentity identifies the machine and namespace in which a PID is valid. It is stored with a lock.
type hostIdentity struct {
	Boot    string `json:"boot_id,omitempty"`       // changes with each boot
	Machine string `json:"machine_id,omitempty"`    // stays the same
	Space   string `json:"pid_namespace,omitempty"` // differs between containers
}

func thisProcess() process {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	space, _ := os.Readlink("/proc/self/ns/pid")
	started, _ := startOf(os.Getpid())
	return process{
		Host: host, PID: os.Getpid(), Started: started,
		hostIdentity: hostIdentity{
			Boot: firstLine("/proc/sys/kernel/random/boot_id"), Machine: firstLine("/etc/machine-id"), Space: space,
		},
	}
}

func firstLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(line)
}

// startOf returns the start time of the process. It is empty if /proc is missing or cannot be read. The error is
// os.ErrProcessDone if no such process runs.
func startOf(pid int) (string, error) {
	if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) {
		return "", os.ErrProcessDone
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", nil //nolint:nilerr // without a readable /proc the start time is unknown
	}
	// The second field is the program's name in parentheses and may contain any character (man 5 proc_pid_stat).
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const state, starttime = 0, 19
	if len(fields) <= starttime {
		return "", nil
	}
	if fields[state][0] == 'Z' {
		return "", os.ErrProcessDone
	}
	return string(fields[starttime]), nil
}

// whyDead returns the reason why the holder is known to be dead. It returns "" if the holder may be alive: on another
// host, in another container, or not verifiable.
func (p process) whyDead(r lockRecord) string {
	if r.Host != p.Host || r.Boot == "" || p.Boot == "" {
		return ""
	}
	if r.Boot != p.Boot {
		if r.Machine != "" && r.Machine == p.Machine {
			return "its machine has restarted since"
		}
		return ""
	}
	if r.Space != p.Space || r.PID <= 0 {
		return ""
	}
	started, err := startOf(r.PID)
	switch {
	case err != nil:
		return "its process has ended"
	case r.Started != "" && started != "" && started != r.Started:
		return "its process has ended and its PID is in use again"
	}
	return ""
}
