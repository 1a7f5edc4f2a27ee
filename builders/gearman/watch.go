package gearman

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/npctl/npctl/builders"
)

// logLimit is how much of a build host's log is taken.
const logLimit = 64 << 20

// watch follows a build on another host. Its methods are called by one goroutine.
type watch struct {
	job     builders.Job
	log     io.Writer
	cancel  context.CancelCauseFunc
	timer   *time.Timer // until the build has taken too long
	phase   string
	begins  int
	failure failure
}

func (w *watch) say(format string, args ...any) {
	_, _ = fmt.Fprintf(w.log, "npctl: "+format+"\n", args...)
}

func (w *watch) tell(phase string, done, total int64) {
	if w.job.Progress != nil {
		w.job.Progress(phase, done, total)
	}
}

func (w *watch) waiting(why error) {
	w.say("waits: %v", why)
	w.tell("waiting for a build host", 0, 0)
}

// running starts the clock when a host begins, and stops it when the job is in a queue again.
func (w *watch) running(running bool) {
	w.stop()
	if !running {
		w.waiting(errors.New("the build host was lost, and the job is for another one"))
		return
	}
	w.phase = "building on a build host"
	w.tell(w.phase, 0, 0)
	if limit := w.job.Timeout; limit > 0 {
		w.timer = time.AfterFunc(limit, func() { w.cancel(fmt.Errorf("timeout after %s: %w", limit, context.DeadlineExceeded)) })
	}
}

func (w *watch) stop() {
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
}

// progress is told by WORK_STATUS. Without a total it is the number of the phase, for those who get no reports.
func (w *watch) progress(done, total int64) {
	if total > 0 && done >= 0 {
		w.tell(w.phase, min(done, total), total)
	}
}

// mostBegins is how often a job may be begun anew. A build that takes its hosts down with it does not deserve more.
const mostBegins = 5

func (w *watch) output(data []byte) {
	r, ok := readReport(data)
	if !ok {
		return
	}
	if r.Host != "" {
		w.begin(r.Host)
	}
	if r.Phase != "" {
		w.phase = clip(r.Phase, longestPhase)
		w.tell(w.phase, 0, 0)
	}
	if r.Log != "" {
		_, _ = io.WriteString(w.log, r.Log)
	}
	if r.Error != "" {
		w.failure = failure{r.Error, r.Kind}
	}
}

func (w *watch) begin(host string) {
	w.begins++
	w.say("%s begins", host)
	if w.begins > mostBegins {
		w.cancel(fmt.Errorf("build hosts have begun with it %d times and were lost each time, %s last: look into their logs", w.begins-1, host))
	}
}

const longestPhase = 100

func clip(s string, most int) string { return s[:min(len(s), most)] }

// limited passes on the beginning of what is written.
type limited struct {
	to   io.Writer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	if l.left <= 0 {
		return len(p), nil
	}
	n := min(len(p), l.left)
	l.left -= n
	if _, err := l.to.Write(p[:n]); err != nil {
		return 0, err
	}
	if l.left == 0 {
		_, _ = io.WriteString(l.to, "\nnpctl: the log is longer; the rest is on the build host\n")
	}
	return len(p), nil
}
