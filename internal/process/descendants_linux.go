package process

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// descendants maps the process IDs of a run's descendants to their start times, which distinguish them from later
// processes with the same ID.
type descendants map[int]uint64

// adopt does nothing: add finds the processes of the run.
func (f descendants) adopt(int) {}

// add finds the processes that are in the leader's group, descend from it, or have the run's ID in their environment.
func (f descendants) add(leader int, runID string) {
	all := processes()
	self := os.Getpid()
	for pid, p := range all {
		if pid != self && pid > 1 && (p.group == leader || descends(all, pid, leader) || carries(pid, runID)) {
			f[pid] = p.start
		}
	}
}

func (f descendants) kill() {
	for pid, start := range f {
		if now, alive := StartTime(pid); alive && now == start {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// gone waits until all processes have ended and returns the remaining ones.
func (f descendants) gone(limit time.Duration) []int {
	deadline := time.Now().Add(limit)
	for {
		var left []int
		for pid, start := range f {
			if now, alive := StartTime(pid); alive && now == start {
				left = append(left, pid)
			}
		}
		if len(left) == 0 || time.Now().After(deadline) {
			return left
		}
		time.Sleep(5 * time.Millisecond) // they are not children of npctl, so it cannot wait for them
	}
}

func descends(all map[int]stat, pid, leader int) bool {
	for range all {
		if pid == leader {
			return true
		}
		p, ok := all[pid]
		if !ok {
			return false
		}
		pid = p.parent
	}
	return false
}

func carries(pid int, runID string) bool {
	if runID == "" {
		return false
	}
	environ, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	return err == nil && bytes.Contains(environ, []byte(RunIDVariable+"="+runID))
}

// stat holds fields of /proc/PID/stat, see proc(5).
type stat struct {
	state  string
	parent int
	group  int
	start  uint64 // clock ticks since boot
}

// processes returns all processes that have not ended.
func processes() map[int]stat {
	all := map[int]stat{}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return all
	}
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil {
			if s, ok := readStat(pid); ok {
				all[pid] = s
			}
		}
	}
	return all
}

// StartTime returns when a running process started, in clock ticks since boot. A zombie does not count as running.
func StartTime(pid int) (uint64, bool) {
	s, ok := readStat(pid)
	return s.start, ok
}

func readStat(pid int) (stat, bool) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return stat{}, false
	}
	// The name, in parentheses, may contain any character; fields are counted from its end.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return stat{}, false
	}
	parent, _ := strconv.Atoi(fields[1])
	group, _ := strconv.Atoi(fields[2])
	start, _ := strconv.ParseUint(fields[19], 10, 64)
	return stat{fields[0], parent, group, start}, true
}

// KillInside kills all processes with a root directory in dir or a working directory in one of the mounts, because
// they keep the mounts busy. It skips processes with a working directory in dir itself. It returns their number.
func KillInside(dir string, mounts []string) int {
	inside := descendants{}
	self := os.Getpid()
	for pid, s := range processes() {
		if pid != self && pid > 1 && (linksInto(pid, "root", dir) || linksIntoAny(pid, "cwd", mounts)) {
			inside[pid] = s.start
		}
	}
	inside.kill()
	inside.gone(killWait)
	return len(inside)
}

func linksIntoAny(pid int, name string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return linksInto(pid, name, dir) })
}

func linksInto(pid int, name, dir string) bool {
	target, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), name))
	return err == nil && (target == dir || strings.HasPrefix(target, dir+"/"))
}
