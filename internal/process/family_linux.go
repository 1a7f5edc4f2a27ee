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

// family holds descendants of a run by process id, with the start time that tells them from later processes of the
// same id.
type family map[int]uint64

// add finds the processes that are in the leader's group, descend from it, or carry the run's id in their environment.
func (f family) add(leader int, runID string) {
	all := processes()
	self := os.Getpid()
	for pid, p := range all {
		if pid != self && pid > 1 && (p.group == leader || descends(all, pid, leader) || carries(pid, runID)) {
			f[pid] = p.start
		}
	}
}

func (f family) kill() {
	for pid, start := range f {
		if now, alive := StartTime(pid); alive && now == start {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// gone waits until all have ended and returns those that have not.
func (f family) gone(limit time.Duration) []int {
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
		time.Sleep(5 * time.Millisecond) // they are not our children: there is nothing to wait on
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

// stat is what proc(5) tells of a process.
type stat struct {
	state  string
	parent int
	group  int
	start  uint64 // clock ticks since boot
}

// processes returns every process that has not ended.
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

// StartTime returns when a living process began, in clock ticks since boot. A zombie does not live.
func StartTime(pid int) (uint64, bool) {
	s, ok := readStat(pid)
	return s.start, ok
}

func readStat(pid int) (stat, bool) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return stat{}, false
	}
	// The name, in parentheses, may hold anything; fields are counted from its end.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return stat{}, false
	}
	parent, _ := strconv.Atoi(fields[1])
	group, _ := strconv.Atoi(fields[2])
	start, _ := strconv.ParseUint(fields[19], 10, 64)
	return stat{fields[0], parent, group, start}, true
}

// KillInside ends, at once, every process whose root lies in dir, or that works in one of the mounts: it keeps them
// busy. Somebody who only looks around in dir itself is left alone. It returns how many it found.
func KillInside(dir string, mounts []string) int {
	inside := family{}
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
