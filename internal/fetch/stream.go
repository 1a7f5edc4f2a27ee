package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/npctl/npctl/internal/imagefile"
)

// stream reads a file from its beginning to its end, over as many connections as it takes.
type stream struct {
	client  Client
	request Request
	conn    *conn       // nil between connections
	header  http.Header // of the answer that the file begins with
	ids     validator   // of the file that is being read
	at      int64       // bytes handed out
	size    int64       // of the whole file; -1 when not known
	err     error       // ends the pass

	waits       *backoff.ExponentialBackOff
	best        int64 // how far it had come when it last got anywhere
	failures    int   // since then
	interrupted int
	restarted   int
}

func newStream(c Client, r Request) *stream {
	waits := backoff.NewExponentialBackOff()
	waits.InitialInterval, waits.MaxInterval, waits.Multiplier = c.FirstWait, c.LongestWait, 2
	waits.Reset()
	return &stream{client: c, request: r, size: -1, waits: waits}
}

// read is io.Reader's Read. An error but io.EOF ends the pass; after errRestart the file is read from its beginning.
func (s *stream) read(ctx context.Context, p []byte) (int, error) {
	s.err = nil
	for {
		if s.conn == nil {
			if err := s.connect(ctx); err != nil {
				return 0, s.fail(err)
			}
		}
		n, err := s.conn.read(p)
		s.at += int64(n)
		s.tell()
		switch {
		case s.at > s.request.Limit:
			return 0, s.fail(tooLarge("it has more than", s.request.Limit, s.request.Limit))
		case err == nil || n > 0:
			return n, nil // an error comes again
		case errors.Is(err, io.EOF) && s.complete():
			return 0, io.EOF
		}
		if err := s.again(ctx, err); err != nil {
			return 0, s.fail(err)
		}
	}
}

func (s *stream) fail(err error) error {
	s.err = err
	return err
}

func (s *stream) tell() {
	if s.request.Progress != nil {
		s.request.Progress(s.at, max(s.size, 0))
	}
}

// complete tells an end from a connection that broke, where the protocol itself does not.
func (s *stream) complete() bool { return s.size < 0 || s.at >= s.size }

// drop closes the connection.
func (s *stream) drop() {
	if s.conn != nil {
		s.conn.close()
		s.conn = nil
	}
}

// connect makes a connection that goes on at s.at, or returns errRestart where that cannot be.
func (s *stream) connect(ctx context.Context) error {
	for {
		c, err := open(ctx, s.client, s.request.URL, s.at, s.ids)
		if err == nil {
			return s.accept(c)
		}
		var passing *passingError
		if !errors.As(err, &passing) {
			return err
		}
		if err := s.again(ctx, err); err != nil {
			return err
		}
	}
}

// accept takes an answer in.
func (s *stream) accept(c *conn) error {
	s.conn = c
	if s.at == 0 {
		s.size, s.ids, s.header = c.size, validatorOf(c.response.Header), c.response.Header
		if s.size > s.request.Limit {
			return tooLarge("it has", s.size, s.request.Limit)
		}
		return nil
	}
	if c.from != s.at || s.size >= 0 && c.size >= 0 && c.size != s.size {
		return s.restart()
	}
	s.size = max(s.size, c.size)
	return nil
}

// restart makes the next pass begin with a connection of its own.
func (s *stream) restart() error {
	s.drop()
	s.restarted++
	s.at, s.size, s.ids = 0, -1, validator{}
	return errRestart
}

// again decides what becomes of a try that went wrong: it waits and returns nil, or errRestart, for another one.
func (s *stream) again(ctx context.Context, cause error) error {
	s.drop()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(cause, io.EOF) {
		cause = io.ErrUnexpectedEOF
	}
	s.interrupted++
	if s.failures++; s.at >= s.best+s.client.Floor {
		s.best, s.failures = s.at, 1
		s.waits.Reset()
	}
	if s.failures >= s.client.Tries {
		return fmt.Errorf("gave up after %d tries without progress, at %s: %w", s.failures, s.position(), cause)
	}
	wait := s.waits.NextBackOff()
	var passing *passingError
	if errors.As(cause, &passing) {
		wait = max(wait, min(passing.wait, longestRetryAfter))
	}
	s.note(fmt.Sprintf("interrupted at %s: %v; next try in %s", s.position(), cause, wait.Round(time.Millisecond)))
	if err := sleep(ctx, wait); err != nil {
		return err
	}
	if s.at > 0 && s.ids.none() {
		return s.restart()
	}
	return nil
}

// longestRetryAfter bounds what a server may ask for.
const longestRetryAfter = 5 * time.Minute

func (s *stream) position() string {
	if s.size < 0 {
		return imagefile.Bytes(s.at)
	}
	return imagefile.Bytes(s.at) + " of " + imagefile.Bytes(s.size)
}

func (s *stream) note(text string) {
	if s.request.Note != nil {
		s.request.Note(text)
	}
}

// checkRoom wants room for a part of what is sent: how much of it is zeros, nobody knows yet.
func (s *stream) checkRoom(dir string) error { return imagefile.CheckFree(dir, max(s.size, 0)/4) }

func sleep(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
