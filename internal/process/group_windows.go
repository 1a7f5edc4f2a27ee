package process

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// descendants maps the process ID of the leader to the job object with all processes of the run. A job ends its
// processes when npctl ends, however that happens.
type descendants map[int]uint64

// adopt puts the leader into a job; its later children are in the job too. Without a job only the leader can be killed.
// A child that the leader starts before the call is not in the job.
func (d descendants) adopt(leader int) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return
	}
	limits := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{BasicLimitInformation: windows.JOBOBJECT_BASIC_LIMIT_INFORMATION{
		LimitFlags: windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE}}
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation, uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits)))
	if err == nil {
		var process windows.Handle
		if process, err = windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, uint32(leader)); err == nil {
			err = windows.AssignProcessToJobObject(job, process)
			_ = windows.CloseHandle(process) // only a reference
		}
	}
	if err != nil {
		_ = windows.CloseHandle(job) // it has no process
		return
	}
	d[leader] = uint64(job)
}

// add does nothing: the job knows the processes.
func (d descendants) add(int, string) {}

// kill ends all processes of the job.
func (d descendants) kill() {
	for leader, job := range d {
		_ = windows.TerminateJobObject(windows.Handle(job), 1)
		_ = windows.CloseHandle(windows.Handle(job))
		delete(d, leader)
	}
}

// gone waits for no process: a terminated job has none.
func (d descendants) gone(time.Duration) []int { return nil }

// StartTime returns when a running process started, in units of 100 ns.
func StartTime(pid int) (uint64, bool) {
	process, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(pid))
	if err != nil {
		return 0, false
	}
	defer windows.CloseHandle(process) //nolint:errcheck // only read
	var created, exited, kernel, user windows.Filetime
	if err := windows.GetProcessTimes(process, &created, &exited, &kernel, &user); err != nil {
		return 0, false
	}
	return uint64(created.HighDateTime)<<32 | uint64(created.LowDateTime), exited.LowDateTime == 0 && exited.HighDateTime == 0
}

// KillInside does nothing: Windows has no mounts to release.
func KillInside(string, []string) int { return 0 }

// ownGroup starts the leader in a process group of its own, so that terminate reaches it and not npctl.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
}

// terminate asks the leader and its console children to end: Windows has no SIGTERM. Programs without a console ignore
// it.
func terminate(leader int) {
	_ = windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(leader))
}

// killGroup kills the leader.
func killGroup(leader int) {
	process, err := windows.OpenProcess(windows.PROCESS_TERMINATE, false, uint32(leader))
	if err != nil {
		return
	}
	_ = windows.TerminateProcess(process, 1) // it may have ended
	_ = windows.CloseHandle(process)
}

// platformVariables are further variables that builders inherit on this system; most programs do not start without them.
var platformVariables = []string{"SystemRoot", "SystemDrive", "windir", "ComSpec", "PATHEXT", "TEMP", "TMP", "USERPROFILE", "USERNAME", "APPDATA",
	"LOCALAPPDATA", "ProgramData", "ProgramFiles", "ProgramFiles(x86)", "PROCESSOR_ARCHITECTURE", "NUMBER_OF_PROCESSORS"}

// systemPath is the PATH without one in the environment.
const systemPath = `C:\Windows\System32;C:\Windows;C:\Windows\System32\WindowsPowerShell\v1.0`

// isPath reports whether the name of a program is a path.
func isPath(name string) bool { return strings.ContainsAny(name, `/\:`) }

// extensions end the names of programs that Windows starts.
var extensions = []string{".exe", ".com", ".bat", ".cmd"}

// isExecutable reports whether a file may be executed: its name decides.
func isExecutable(info os.FileInfo) bool {
	return slices.Contains(extensions, strings.ToLower(filepath.Ext(info.Name())))
}

// fileNames returns the names of the files that a name of a program stands for.
func fileNames(name string) []string {
	names := []string{name}
	if !slices.Contains(extensions, strings.ToLower(filepath.Ext(name))) {
		for _, ext := range extensions {
			names = append(names, name+ext)
		}
	}
	return names
}
