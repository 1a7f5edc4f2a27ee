package external

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/process"
)

// The limits of one call.
const (
	listLimit   = 64 << 20 // bytes of a response with a list
	singleLimit = 1 << 20  // bytes of any other response
	// drain is the time for which stdout and stderr may stay open after the program has ended.
	drain = 2 * time.Second
)

// program runs the program of a provider.
type program struct {
	path    string // absolute
	args    []string
	dir     string
	env     []string
	secrets []string
	log     *slog.Logger
}

// job is one run of a program.
type job struct {
	call  string
	stdin []byte
	vars  []string
	limit int
}

// exit is the non-zero exit status of a program.
type exit struct {
	code int
	text string
}

func (e *exit) Error() string { return e.text }

// run runs the program to its end and returns its stdout. The error is an *exit if the program ended with a non-zero
// exit status.
func (p *program) run(ctx context.Context, j job) ([]byte, error) {
	if ctx.Err() != nil {
		return nil, &callError{message: fmt.Sprintf("%s %s was not started", p.name(), j.call), cause: context.Cause(ctx), nothingDone: true}
	}
	read, write := io.Pipe()
	transcript := process.NewTranscript(process.Spec{Secrets: p.secrets, Env: p.env, Line: func(line string) { p.debug(j.call, line) }})
	pumped := make(chan struct{})
	go func() { transcript.Read(read); close(pumped) }()
	out := &limited{limit: j.limit}
	cmd := osexec.CommandContext(ctx, p.path)
	cmd.Args, cmd.Dir, cmd.Env = p.args, p.dir, slices.Concat(p.env, j.vars)
	drivers.RequestSent(ctx)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = bytes.NewReader(j.stdin), out, write, drain
	process.KillWithGroup(cmd)
	err := cmd.Start()
	started := err == nil
	if started {
		err = cmd.Wait()
	}
	_ = write.Close()
	<-pumped
	switch tail := tailOf(transcript); {
	case !started:
		return nil, rejectedf("start %s: %w", p.name(), err)
	case out.full:
		return nil, fmt.Errorf("%s %s printed more than %d bytes", p.name(), j.call, j.limit)
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s %s was killed: %w%s", p.name(), j.call, context.Cause(ctx), tail)
	case errors.Is(err, osexec.ErrWaitDelay):
		return nil, fmt.Errorf("%s %s ended, but a process that it started keeps its stdout or stderr open: redirect both, such as with >log 2>&1", p.name(), j.call)
	case err != nil:
		code := -1
		if ended, ok := errors.AsType[*osexec.ExitError](err); ok {
			code = ended.ExitCode()
		}
		return out.Bytes(), &exit{code, fmt.Sprintf("%s %s: %v%s", p.name(), j.call, err, tail)}
	}
	return out.Bytes(), nil
}

func (p *program) name() string { return filepath.Base(p.path) }

func (p *program) debug(call, line string) {
	if p.log != nil {
		p.log.Debug("output of the driver's program", "call", call, "line", line)
	}
}

// tailOf returns the last lines of stderr for an error.
func tailOf(t *process.Transcript) string {
	lines := t.Tail()
	if len(lines) == 0 {
		return ""
	}
	return ": " + strings.Join(lines[max(0, len(lines)-5):], "; ")
}

// limited is a buffer of limited size. Beyond it, the program receives SIGPIPE.
type limited struct {
	bytes.Buffer
	limit int
	full  bool
}

func (l *limited) Write(b []byte) (int, error) {
	if l.Len()+len(b) > l.limit {
		l.full = true
		return 0, errors.New("the output is too long")
	}
	return l.Buffer.Write(b)
}

// ReadFrom hides that of bytes.Buffer, which has no limit.
func (l *limited) ReadFrom(from io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{l}, from)
}
