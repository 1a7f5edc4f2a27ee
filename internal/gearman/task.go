package gearman

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strconv"
	"sync"
)

// Task is a job that a server has given to a worker.
type Task struct {
	Function, Unique string
	Data             []byte

	handle string
	conn   *conn

	mu      sync.Mutex
	changed bool  // guarded by mu: since the last status
	done    int64 // guarded by mu
	total   int64 // guarded by mu
	stopped bool  // guarded by mu: the job has ended here
}

// Progress sends the progress of the job to the client, at most once per second.
func (t *Task) Progress(done, total int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changed, t.done, t.total = true, done, total
}

// Send sends data ahead of the result. The first thing clients of the original Nodepool get is the result to them: send
// nothing to those.
func (t *Task) Send(data []byte) error {
	t.mu.Lock()
	stopped := t.stopped
	t.mu.Unlock()
	if stopped {
		return context.Canceled
	}
	return t.conn.send(Request(WorkData, t.handle, string(data)))
}

// status returns a WORK_STATUS packet if the progress has changed.
func (t *Task) status() (Packet, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.changed {
		return Packet{}, false
	}
	t.changed = false
	return Request(WorkStatus, t.handle, strconv.FormatInt(t.done, 10), strconv.FormatInt(t.total, 10)), true
}

func (t *Task) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
}

// handlerResult is how a handler ended.
type handlerResult struct {
	data []byte
	err  error
}

// do calls a handler. A panic counts as a failure and does not affect other jobs.
func (t *Task) do(ctx context.Context, handler Handler, log *slog.Logger) (o handlerResult) {
	defer func() {
		if r := recover(); r != nil {
			log.Error("gearman handler panicked", "function", t.Function, "panic", r, "stack", string(debug.Stack()))
			o = handlerResult{err: fmt.Errorf("panic: %v", r)}
		}
	}()
	data, err := handler(ctx, t)
	return handlerResult{data, err}
}
