package gearman

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// phase is the state of a session between no job and an active job.
type phase int

const (
	idle       phase = iota // needs a token to request a job
	requesting              // has requested a job
	sleeping                // has asked the server to wake it
	working                 // has an active job
)

// session is one connection of a worker: it requests a job, runs it, sends the result and requests the next one. The
// goroutine run owns all fields except marked ones; a handler runs in a second goroutine.
//
// On CANT_DO for the function of an active job, gearmand withdraws the job and then refuses its result. Functions are
// therefore withdrawn only between jobs, or during a job of another function.
type session struct {
	worker  *Worker
	conn    *conn
	slot    int
	changed chan struct{}   // signals that the functions have changed
	waiting []chan struct{} // guarded by worker.mu

	phase      phase
	token      bool
	registered map[string]bool            // functions that the server knows
	asked      map[string][]chan struct{} // by ping
	pings      int
	task       *Task
	cancel     context.CancelCauseFunc // of the task
	finished   chan handlerResult
	tick       *time.Ticker // for progress
	leaving    bool
	late       <-chan time.Time // when active jobs must stop
	overdue    bool             // that time has passed
	aborted    bool             // the task was aborted for that reason
}

var (
	errStopped = errors.New("this worker is being stopped")
	errDrained = errors.New("left")
)

func newSession(w *Worker, c *conn, slot int) *session {
	return &session{
		worker: w, conn: c, slot: slot, changed: make(chan struct{}, 1),
		registered: map[string]bool{}, asked: map[string][]chan struct{}{}, finished: make(chan handlerResult, 1),
	}
}

// run works until the connection is lost or, without an error, until ctx has ended and no job is active.
func (s *session) run(ctx context.Context) error {
	defer s.end()
	if err := s.conn.send(Request(SetClientID, s.worker.name(s.slot))); err != nil {
		return err
	}
	if err := s.sync(); err != nil {
		return err
	}
	if err := s.conn.send(ping(readyMark)); err != nil {
		return err
	}
	s.worker.log(s.slot, slog.LevelInfo)("gearman server connected", "server", s.conn.server, "connection", s.slot+1)
	for {
		err := s.step(ctx)
		if errors.Is(err, errDrained) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// step waits for one event and handles it.
func (s *session) step(ctx context.Context) error {
	if s.leaving && (s.phase == idle || s.phase == sleeping) {
		return s.leave()
	}
	select {
	case p, ok := <-s.conn.packets:
		if !ok {
			return s.conn.err
		}
		return s.take(ctx, p)
	case <-s.tokenChan():
		s.token, s.phase = true, requesting
		return s.conn.send(Request(GrabJobUniq))
	case <-s.changed:
		return s.sync()
	case o := <-s.finished:
		return s.answer(o)
	case <-s.ticks():
		return s.report()
	case <-s.functionsChanged(ctx):
		s.leaving = true
		s.late = time.After(s.worker.options.Drain)
		return nil
	case <-s.late:
		s.overdue = true
		s.abort()
		return nil
	}
}

// abort stops the active job after its deadline.
func (s *session) abort() {
	if s.overdue && s.cancel != nil {
		s.aborted = true
		s.cancel(errStopped)
	}
}

// tokenChan returns the channel from which an idle session receives its token.
func (s *session) tokenChan() <-chan struct{} {
	if s.phase != idle || s.leaving {
		return nil
	}
	return s.worker.tokens
}

func (s *session) ticks() <-chan time.Time {
	if s.tick == nil {
		return nil
	}
	return s.tick.C
}

func (s *session) functionsChanged(ctx context.Context) <-chan struct{} {
	if s.leaving {
		return nil
	}
	return ctx.Done()
}

// take handles any packet at any time.
func (s *session) take(ctx context.Context, p Packet) error {
	switch p.Type {
	case Noop:
		if s.phase == sleeping {
			s.phase = idle
		}
	case NoJob:
		return s.sleep()
	case JobAssignUniq:
		return s.begin(ctx, p.Args[0], p.Args[1], p.Args[2], p.Args[3])
	case JobAssign:
		return s.begin(ctx, p.Args[0], p.Args[1], "", p.Args[2])
	case StatusRes:
		if mark, ok := pong(p); ok {
			s.confirmed(mark)
		}
	case Error:
		s.worker.options.Log.Warn("gearman server reported an error", "server", s.conn.server, "code", p.Args[0], "text", p.Args[1])
		return s.sleep() // in case it refers to the grab
	}
	return nil
}

// sleep ends a grab that returned no job.
func (s *session) sleep() error {
	if s.phase != requesting {
		return nil
	}
	s.release()
	s.phase = sleeping
	if err := s.sync(); err != nil { // changes that had to wait for the end of the grab
		return err
	}
	if s.phase != sleeping {
		return nil
	}
	return s.conn.send(Request(PreSleep))
}

func (s *session) release() {
	if s.token {
		s.token = false
		s.worker.tokens <- struct{}{}
	}
}

// begin starts a job.
func (s *session) begin(ctx context.Context, handle, function, unique, data string) error {
	if s.phase != requesting {
		return &serverError{s.conn.server, errors.New("it assigned a job without a request")}
	}
	s.phase = working
	s.task = &Task{Function: function, Unique: unique, Data: []byte(data), handle: handle, conn: s.conn}
	handler := s.worker.handler(function)
	ctx, s.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	s.abort()
	s.tick = time.NewTicker(time.Second)
	task := s.task
	go func() { s.finished <- task.do(ctx, handler, s.worker.options.Log) }()
	return nil
}

// handler returns the handler of a function, or the one for functions that were withdrawn during the transit of a job.
func (w *Worker) handler(function string) Handler {
	w.mu.Lock()
	defer w.mu.Unlock()
	if handler := w.functions[function]; handler != nil {
		return handler
	}
	return w.options.Withdrawn
}

// report sends a task's progress.
func (s *session) report() error {
	if p, ok := s.task.status(); ok {
		return s.conn.send(p)
	}
	return nil
}

// answer sends the result of the active job. It sends nothing for a job that the worker aborted: closing the
// connection leaves that job to other workers.
func (s *session) answer(o handlerResult) error {
	handle := s.task.handle
	s.settle()
	if s.aborted && o.err != nil {
		return errDrained
	}
	if err := s.conn.send(result(handle, o)); err != nil {
		return err
	}
	s.phase = idle
	s.release()
	return s.sync()
}

func result(handle string, o handlerResult) Packet {
	switch {
	case o.err == nil:
		return Request(WorkComplete, handle, string(o.data))
	case errors.Is(o.err, ErrFailed):
		return Request(WorkFail, handle)
	default:
		return Request(WorkException, handle, o.err.Error())
	}
}

// settle resets the session after a job.
func (s *session) settle() {
	s.task.stop()
	s.task = nil
	if s.cancel != nil {
		s.cancel(nil)
		s.cancel = nil
	}
	if s.tick != nil {
		s.tick.Stop()
		s.tick = nil
	}
}

// end waits for an active job with an unneeded result.
func (s *session) end() {
	s.conn.close()
	s.worker.forget(s)
	if s.task != nil && s.cancel != nil {
		s.task.stop()
		s.cancel(&serverError{s.conn.server, errors.New("connection lost; the server gives the job to another worker")})
		<-s.finished
		s.settle()
	}
	s.release()
}
