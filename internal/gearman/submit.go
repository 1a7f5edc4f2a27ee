package gearman

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// submission is a job on its connection.
type submission struct {
	Job
	conn    *conn
	sent    time.Time // when it was submitted
	handle  string
	running bool
	joined  bool // the server already had the job
	lost    bool // its worker was lost since the last check
	queries int  // of the status, without a response yet
	alone   bool // there was no worker for the function before the last query
	result  []byte
}

// errDone ends a submission after its result.
var errDone = errors.New("done")

// submit submits the job to a server and waits for its end.
func (c *Client) submit(ctx context.Context, server string, job Job) ([]byte, error) {
	conn, err := c.options.open(ctx, server)
	if err != nil {
		return nil, retryableError{err}
	}
	defer conn.shut()
	s := &submission{Job: job, conn: conn, sent: time.Now()}
	// With this option, gearmand forwards the text of exceptions. Servers without it respond with an error, or not at
	// all.
	if err := conn.send(Request(OptionReq, "exceptions")); err != nil {
		return nil, retryableError{err}
	}
	submit := Request(SubmitJob, job.Function, job.Unique, string(job.Data))
	if err := submit.check(c.options.MaxPacket); err != nil {
		return nil, err
	}
	if job.Unique != "" {
		if err := conn.send(Request(GetStatusUnique, job.Unique)); err != nil { // does it join an existing job?
			return nil, retryableError{err}
		}
	}
	if err := conn.send(submit); err != nil {
		return nil, retryableError{err}
	}
	return s.wait(ctx, c)
}

func (s *submission) wait(ctx context.Context, c *Client) ([]byte, error) {
	check := time.NewTicker(c.options.Check)
	defer check.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-check.C:
			err = s.check(ctx, c)
		case p, ok := <-s.conn.packets:
			if !ok {
				return nil, retryableError{s.conn.err}
			}
			err = s.take(p)
			if err == nil && s.lost {
				err = s.check(ctx, c)
			}
		}
		if errors.Is(err, errDone) {
			return s.result, nil
		}
		if err != nil {
			return nil, s.blame(err)
		}
	}
}

// blame adds the function to an error that is not retryable.
func (s *submission) blame(err error) error {
	var retry retryableError
	if errors.As(err, &retry) {
		return err
	}
	return fmt.Errorf("%s: %w", s.Function, err)
}

// check queries the status of the job. A queue without workers is given up when the response shows that the job waits in it: the
// last worker may have answered the job, and have left after that.
func (s *submission) check(ctx context.Context, c *Client) error {
	if s.handle == "" { // a busy server may be slow: a job submitted again can be done twice
		if limit := 2 * c.options.KeepAlive; time.Since(s.sent) > limit {
			return retryableError{&serverError{s.conn.server, fmt.Errorf("it did not take the job within %s", limit)}}
		}
		return nil
	}
	s.lost, s.alone = false, false
	if !s.running {
		functions, err := c.options.status(ctx, s.conn.server)
		s.alone = err == nil && functions[s.Function].Workers == 0
	}
	return s.query()
}

// query requests the status.
func (s *submission) query() error {
	s.queries++
	if err := s.conn.send(Request(GetStatus, s.handle)); err != nil {
		return retryableError{err}
	}
	return nil
}

// take handles a packet. It ignores packets about other jobs, and errors after the job was accepted.
func (s *submission) take(p Packet) error {
	switch p.Type {
	case JobCreated:
		s.handle = p.Args[0]
		return s.query() // did it join a running job?
	case Error:
		if s.handle == "" {
			return &serverError{s.conn.server, &refusedError{p.Args[0], p.Args[1]}}
		}
		return nil
	case StatusRes:
		return s.status(p.Args)
	case StatusResUnique:
		s.joined = s.handle == "" && p.Args[0] == s.Unique && p.Args[1] != "0"
		return nil
	}
	if s.handle == "" || len(p.Args) == 0 || p.Args[0] != s.handle {
		return nil
	}
	return s.work(p)
}

func (s *submission) work(p Packet) error {
	switch p.Type {
	case WorkStatus:
		s.setRunning(true)
		s.progress(p.Args[1], p.Args[2])
	case WorkData, WorkWarning:
		s.setRunning(true)
		if s.Output != nil {
			s.Output([]byte(p.Args[1]))
		}
	case WorkComplete:
		s.result = []byte(p.Args[1])
		return errDone
	case WorkFail:
		return ErrFailed
	case WorkException:
		return &ExceptionError{p.Args[1]}
	}
	return nil
}

// status parses the state of the job: handle, known, running, numerator, denominator.
//
// gearmand marks a job without clients, and drops it when a worker requests it, now or next time, even if a client has
// joined the job since; it does not notify that client. A joined job that the server no longer knows is therefore
// submitted again.
func (s *submission) status(args []string) error {
	if args[0] != s.handle {
		return nil
	}
	s.queries--
	if args[1] == "0" {
		err := &serverError{s.conn.server, ErrForgotten}
		if s.joined {
			return retryableError{err}
		}
		return err
	}
	running := args[2] != "0"
	if s.alone && s.queries == 0 && !running {
		return retryableError{&serverError{s.conn.server, fmt.Errorf("%s: %w any more", s.Function, ErrNoWorker)}}
	}
	s.lost = s.running && !running
	s.setRunning(running)
	return nil
}

func (s *submission) setRunning(running bool) {
	if s.running != running && s.Running != nil {
		s.Running(running)
	}
	s.running = running
}

func (s *submission) progress(numerator, denominator string) {
	done, err := strconv.ParseInt(numerator, 10, 64)
	total, err2 := strconv.ParseInt(denominator, 10, 64)
	if err == nil && err2 == nil && s.Progress != nil {
		s.Progress(done, total)
	}
}
