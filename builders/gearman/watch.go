package gearman

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/npctl/npctl/builders"
)

// logLimit limits how much of a build host's log is stored, in bytes.
const logLimit = 64 << 20

// watch follows a build on another host. Only one goroutine calls its methods.
type watch struct {
	job     builders.Job
	log     io.Writer
	cancel  context.CancelCauseFunc
	timer   *time.Timer // time limit of the build
	phase   string
	starts  int
	failure failure
}

func (w *watch) logf(format string, args ...any) {
	_, _ = fmt.Fprintf(w.log, "npctl: "+format+"\n", args...)
}

func (w *watch) report(phase string, done, total int64) {
	if w.job.Progress != nil {
		w.job.Progress(phase, done, total)
	}
}

func (w *watch) waiting(why error) {
	w.logf("waiting: %v", why)
	w.report("waiting for a build host", 0, 0)
}

// running starts the timer when a host starts, and stops it when the job is back in a queue.
func (w *watch) running(running bool) {
	w.stop()
	if !running {
		w.waiting(errors.New("the build host was lost; waiting for another one"))
		return
	}
	w.phase = "building on a build host"
	w.report(w.phase, 0, 0)
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

// progress handles WORK_STATUS. Without a total, done is the number of the phase, for clients without reports.
func (w *watch) progress(done, total int64) {
	if total > 0 && done >= 0 {
		w.report(w.phase, min(done, total), total)
	}
}

// maxStarts limits how often a job may start, because a build may crash its hosts.
const maxStarts = 5

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
		w.report(w.phase, 0, 0)
	}
	if r.Log != "" {
		_, _ = io.WriteString(w.log, r.Log)
	}
	if r.Error != "" {
		w.failure = failure{r.Error, r.Kind}
	}
}

func (w *watch) begin(host string) {
	w.starts++
	w.logf("%s starts", host)
	if w.starts > maxStarts {
		w.cancel(fmt.Errorf("build hosts have started it %d times and were lost each time, %s last: see their logs", w.starts-1, host))
	}
}

const longestPhase = 100

func clip(s string, most int) string { return s[:min(len(s), most)] }

// limited forwards only the beginning of its input.
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
