package gearman

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	protocol "github.com/npctl/npctl/internal/gearman"
)

// jobReport reports the progress of a job to its client. An original client understands only the numbers.
type jobReport struct {
	task    *protocol.Task
	reports bool
	kinds   map[string]error
	mu      sync.Mutex
	phase   string // guarded by mu
	phases  int64  // guarded by mu
}

func (h *Host) talk(task *protocol.Task, reports bool) *jobReport {
	t := &jobReport{task: task, reports: reports, kinds: h.kinds}
	t.report(report{Host: h.name})
	return t
}

// report sends a report if the client has requested reports. A lost connection is detected elsewhere.
func (t *jobReport) report(r report) {
	if t.reports {
		_ = t.task.Send(toJSON(r))
	}
}

// progress sends numbers: done and total of this phase, or, without a total, the number of phases so far of 0.
func (t *jobReport) progress(phase string, done, total int64) {
	if number, changed := t.enter(phase); changed {
		t.task.Progress(number, 0)
		t.report(report{Phase: clip(phase, longestPhase)})
	}
	if total > 0 {
		t.task.Progress(done, total)
	}
}

func (t *jobReport) enter(phase string) (number int64, changed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if phase == t.phase {
		return t.phases, false
	}
	t.phase = phase
	t.phases++
	return t.phases, true
}

// longestReason limits the length of a reported error, in bytes.
const longestReason = 32 << 10

// fail reports the reason and returns the error that becomes WORK_FAIL.
func (t *jobReport) fail(err error) error {
	t.report(report{Error: clip(err.Error(), longestReason), Kind: kindOf(err, t.kinds)})
	return fmt.Errorf("%w: %w", protocol.ErrFailed, err)
}

// logPause is the interval between two reads of a growing log.
const logPause = 500 * time.Millisecond

// follow sends the log of a build as it grows. The returned function sends the rest.
func (h *Host) follow(ctx context.Context, id string, t *jobReport) (stop func()) {
	logs, ok := h.service.(Logs)
	if !ok || !t.reports {
		return func() {}
	}
	ended, done := make(chan struct{}), make(chan struct{})
	f := &follower{talk: t, open: func() (io.ReadCloser, error) { return logs.OpenLog(context.WithoutCancel(ctx), id) }, left: logLimit}
	go func() {
		defer close(done)
		f.run(ended)
	}()
	return func() { close(ended); <-done }
}

// follower sends the new content of a log, in whole lines unless a line is too long.
type follower struct {
	talk *jobReport
	open func() (io.ReadCloser, error)
	file io.ReadCloser
	part []byte // of a line
	left int
}

func (f *follower) run(ended <-chan struct{}) {
	ticker := time.NewTicker(logPause)
	defer ticker.Stop()
	for last := false; !last; {
		select {
		case <-ticker.C:
		case <-ended:
			last = true
		}
		f.more()
	}
	f.send(f.part)
	if f.file != nil {
		_ = f.file.Close()
	}
}

// more sends the new content. A log that does not exist yet or cannot be read does not stop a build.
func (f *follower) more() {
	if f.file == nil {
		file, err := f.open()
		if err != nil {
			return
		}
		f.file = file
	}
	buffer := make([]byte, longestPiece)
	for {
		n, err := f.file.Read(buffer)
		f.take(buffer[:n])
		if err != nil || n == 0 {
			return
		}
	}
}

// longestPiece limits the part of a log in one packet, in bytes.
const longestPiece = 64 << 10

func (f *follower) take(text []byte) {
	f.part = append(f.part, text...)
	end := bytes.LastIndexByte(f.part, '\n') + 1
	if end == 0 && len(f.part) >= longestPiece {
		end = len(f.part)
	}
	f.send(f.part[:end])
	f.part = slices.Clone(f.part[end:])
}

func (f *follower) send(text []byte) {
	text = text[:min(len(text), f.left)]
	if len(text) > 0 {
		f.left -= len(text)
		f.talk.report(report{Log: string(text)})
	}
}
