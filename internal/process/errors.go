package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// ErrNotInstalled is wrapped by the error for a missing program.
var ErrNotInstalled = errors.New("not installed")

// ExitError is the error of a program that ended with an exit code other than 0 or a signal that npctl did not send.
type ExitError struct {
	Program string
	Code    int            // -1 when a signal ended it
	Signal  syscall.Signal // zero when none
	Tail    []string       // last lines of its output
	LogErr  error          // why the log is incomplete
}

func (e *ExitError) Error() string {
	text := fmt.Sprintf("%s ended with exit code %d", e.Program, e.Code)
	if e.Signal != 0 {
		text = fmt.Sprintf("%s was terminated by signal %d (%s)", e.Program, int(e.Signal), e.Signal)
	}
	if e.LogErr != nil {
		text += fmt.Sprintf(" (its log is incomplete: %v)", e.LogErr)
	}
	return text + withTail(e.Tail)
}

// ExitCode returns the exit code, or -1 when a signal ended the program.
func (e *ExitError) ExitCode() int { return e.Code }

// StoppedError is the error of a program that npctl stopped.
type StoppedError struct {
	Program string
	Cause   error         // of the context
	Killed  bool          // it did not end on SIGTERM
	Grace   time.Duration // time between SIGTERM and SIGKILL
	Tail    []string
}

func (e *StoppedError) Error() string {
	text := fmt.Sprintf("%s was stopped: %v", e.Program, e.Cause)
	if e.Killed {
		text += fmt.Sprintf("; it did not end within %s of SIGTERM and was killed", e.Grace)
	}
	return text + withTail(e.Tail)
}

// Unwrap returns the cause of the context.
func (e *StoppedError) Unwrap() error { return e.Cause }

func withTail(lines []string) string {
	if len(lines) == 0 {
		return "; it printed nothing"
	}
	return "; the last lines of its output:\n    " + strings.Join(lines, "\n    ")
}

// summary returns the last line of the log.
func summary(err error) string {
	var exit *ExitError
	var stopped *StoppedError
	switch {
	case err == nil:
		return "Exit code: 0"
	case errors.As(err, &exit) && exit.Signal != 0:
		return fmt.Sprintf("Ended by signal %d (%s)", int(exit.Signal), exit.Signal)
	case errors.As(err, &exit):
		return fmt.Sprintf("Exit code: %d", exit.Code)
	case errors.As(err, &stopped) && stopped.Killed:
		return fmt.Sprintf("Stopped: %v; killed after %s", stopped.Cause, stopped.Grace)
	case errors.As(err, &stopped):
		return fmt.Sprintf("Stopped: %v", stopped.Cause)
	default:
		return err.Error()
	}
}

// lookPath finds the program as the child's shell would.
func lookPath(spec Spec) (string, error) {
	name := spec.Args[0]
	if isPath(name) {
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(spec.Dir, path)
		}
		for _, file := range fileNames(path) {
			if executable(file) == nil {
				return file, nil
			}
		}
		return path, executable(path)
	}
	search := Getenv(spec.Env, "PATH")
	if path := find(name, search); path != "" {
		return path, nil
	}
	if spec.Missing != "" {
		return "", fmt.Errorf("%s is %w: %s", name, ErrNotInstalled, spec.Missing)
	}
	return "", fmt.Errorf("%s is %w: no such program in PATH=%s", name, ErrNotInstalled, search)
}

// Installed reports whether Run would find a program with that name, without a slash, in that PATH.
func Installed(name, search string) bool { return find(name, search) != "" }

func find(name, search string) string {
	for _, dir := range filepath.SplitList(search) {
		for _, file := range fileNames(name) {
			if path := filepath.Join(dir, file); filepath.IsAbs(path) && executable(path) == nil {
				return path
			}
		}
	}
	return ""
}

func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s is %w: there is no such file", path, ErrNotInstalled)
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s is a directory, not a program", path)
	case !isExecutable(info):
		return fmt.Errorf("%s is not executable: chmod +x it, or name its interpreter first (\"sh\", %q)", path, path)
	}
	return nil
}
