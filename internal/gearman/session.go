package gearman

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// phase is where a session is between having nothing to do and having a job.
type phase int

const (
	hungry   phase = iota // wants a token, to ask for a job with
	grabbing              // has asked for a job
	asleep                // has told the server to wake it
	busy                  // has a job in hand
)

// session is one connection of a worker: it asks for a job, does it, answers, and asks again. One goroutine, run, owns
// everything but what is marked; a handler runs in a second one.
//
// gearmand takes a job back that is in hand when CANT_DO is sent for its function, and then refuses its result. So
// functions are taken back only between jobs, or while a job of another function is in hand.
type session struct {
	worker  *Worker
	conn    *conn
	slot    int
	changed chan struct{}   // a hint: look at the functions
	waiting []chan struct{} // guarded by worker.mu

	phase      phase
	token      bool
	registered map[string]bool            // what the server was told
	asked      map[string][]chan struct{} // by ping
	pings      int
	task       *Task
	cancel     context.CancelCauseFunc // of the task
	finished   chan outcome
	tick       *time.Ticker // for progress
	leaving    bool
	late       <-chan time.Time // when jobs in hand have to stop
	overdue    bool             // that time is over
	aborted    bool             // the task was told so
}

var (
	errStopped = errors.New("this worker is being stopped")
	errLeft    = errors.New("left")
)

func newSession(w *Worker, c *conn, slot int) *session {
	return &session{
		worker: w, conn: c, slot: slot, changed: make(chan struct{}, 1),
		registered: map[string]bool{}, asked: map[string][]chan struct{}{}, finished: make(chan outcome, 1),
	}
}

// run works until the connection is lost or, with no error, ctx has ended and nothing is in hand.
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
		if errors.Is(err, errLeft) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// step waits for the next thing to happen and deals with it.
func (s *session) step(ctx context.Context) error {
	if s.leaving && (s.phase == hungry || s.phase == asleep) {
		return s.leave()
	}
	select {
	case p, ok := <-s.conn.packets:
		if !ok {
			return s.conn.err
		}
		return s.take(ctx, p)
	case <-s.food():
		s.token, s.phase = true, grabbing
		return s.conn.send(Request(GrabJobUniq))
	case <-s.changed:
		return s.sync()
	case o := <-s.finished:
		return s.answer(o)
	case <-s.ticks():
		return s.report()
	case <-s.told(ctx):
		s.leaving = true
		s.late = time.After(s.worker.options.Drain)
		return nil
	case <-s.late:
		s.overdue = true
		s.abort()
		return nil
	}
}

// abort stops the job in hand when its time is over.
func (s *session) abort() {
	if s.overdue && s.cancel != nil {
		s.aborted = true
		s.cancel(errStopped)
	}
}

// food is where a hungry session gets its token.
func (s *session) food() <-chan struct{} {
	if s.phase != hungry || s.leaving {
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

func (s *session) told(ctx context.Context) <-chan struct{} {
	if s.leaving {
		return nil
	}
	return ctx.Done()
}

// take deals with a packet, whatever it is and whenever it comes.
func (s *session) take(ctx context.Context, p Packet) error {
	switch p.Type {
	case Noop:
		if s.phase == asleep {
			s.phase = hungry
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
		s.worker.options.Log.Warn("gearman server complains", "server", s.conn.server, "code", p.Args[0], "text", p.Args[1])
		return s.sleep() // in case it was about the grab
	}
	return nil
}

// sleep ends a grab that brought nothing.
func (s *session) sleep() error {
	if s.phase != grabbing {
		return nil
	}
	s.release()
	s.phase = asleep
	if err := s.sync(); err != nil { // what had to wait for the end of the grab
		return err
	}
	if s.phase != asleep {
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

// begin starts a job. A function that was taken back while the job was on its way cannot be done any more.
func (s *session) begin(ctx context.Context, handle, function, unique, data string) error {
	if s.phase != grabbing {
		return &ServerError{s.conn.server, errors.New("it gave a job that nobody asked for")}
	}
	s.phase = busy
	s.task = &Task{Function: function, Unique: unique, Data: []byte(data), handle: handle, conn: s.conn}
	handler, known := s.worker.handler(function)
	if !known {
		return s.answer(outcome{err: ErrFailed})
	}
	ctx, s.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	s.abort()
	s.tick = time.NewTicker(time.Second)
	task := s.task
	go func() { s.finished <- task.do(ctx, handler, s.worker.options.Log) }()
	return nil
}

func (w *Worker) handler(function string) (Handler, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	handler, ok := w.functions[function]
	return handler, ok
}

// report sends a task's progress.
func (s *session) report() error {
	if p, ok := s.task.status(); ok {
		return s.conn.send(p)
	}
	return nil
}

// answer ends the job in hand. One that was stopped by us is not answered: closing the connection leaves it to others.
func (s *session) answer(o outcome) error {
	handle := s.task.handle
	s.settle()
	if s.aborted && o.err != nil {
		return errLeft
	}
	if err := s.conn.send(result(handle, o)); err != nil {
		return err
	}
	s.phase = hungry
	s.release()
	return s.sync()
}

func result(handle string, o outcome) Packet {
	switch {
	case o.err == nil:
		return Request(WorkComplete, handle, string(o.data))
	case errors.Is(o.err, ErrFailed):
		return Request(WorkFail, handle)
	default:
		return Request(WorkException, handle, o.err.Error())
	}
}

// settle is what has to happen at the end of each job.
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

// end waits for a job in hand that is of no use any more.
func (s *session) end() {
	s.conn.close()
	s.worker.forget(s)
	if s.task != nil && s.cancel != nil {
		s.task.stop()
		s.cancel(&ServerError{s.conn.server, errors.New("connection lost, so the job is somebody else's")})
		<-s.finished
		s.settle()
	}
	s.release()
}
