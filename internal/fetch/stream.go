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
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/internal/waits"
)

// stream reads a file from start to end, over as many connections as necessary.
type stream struct {
	client  Client
	request Request
	conn    *conn       // nil between connections
	header  http.Header // of the first response
	ids     validator   // of the file version being read
	at      int64       // number of bytes returned
	size    int64       // of the whole file; -1 when unknown
	err     error       // ends the pass

	waits       *backoff.ExponentialBackOff
	furthest    int64 // position at the last progress
	failures    int   // number of failures since then
	interrupted int
	restarted   int
}

func newStream(c Client, r Request) *stream {
	waits := backoff.NewExponentialBackOff()
	waits.InitialInterval, waits.MaxInterval, waits.Multiplier = c.FirstWait, c.LongestWait, 2
	waits.Reset()
	return &stream{client: c, request: r, size: -1, waits: waits}
}

// read is io.Reader's Read. An error other than io.EOF ends the pass; after errRestart the file is read from its
// beginning.
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
			return n, nil // the next read returns the error
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

// complete distinguishes the end of a file from a broken connection where the protocol does not.
func (s *stream) complete() bool { return s.size < 0 || s.at >= s.size }

// drop closes the connection.
func (s *stream) drop() {
	if s.conn != nil {
		s.conn.close()
		s.conn = nil
	}
}

// connect opens a connection that resumes at s.at, or returns errRestart if the download cannot be resumed.
func (s *stream) connect(ctx context.Context) error {
	for {
		c, err := open(ctx, s.client, s.request.URL, s.at, s.ids)
		if err == nil {
			return s.accept(c)
		}
		var passing *transientError
		if !errors.As(err, &passing) {
			return err
		}
		if err := s.again(ctx, err); err != nil {
			return err
		}
	}
}

// accept uses a response for the stream.
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

// restart makes the next pass start with a new connection.
func (s *stream) restart() error {
	s.drop()
	s.restarted++
	s.at, s.size, s.ids = 0, -1, validator{}
	return errRestart
}

// again handles a failed attempt: it waits and returns nil, or errRestart, for a retry.
func (s *stream) again(ctx context.Context, cause error) error {
	s.drop()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(cause, io.EOF) {
		cause = io.ErrUnexpectedEOF
	}
	s.interrupted++
	if s.failures++; s.at >= s.furthest+s.client.Floor {
		s.furthest, s.failures = s.at, 1
		s.waits.Reset()
	}
	if s.failures >= s.client.Tries {
		return fmt.Errorf("gave up after %d tries without progress, at %s: %w", s.failures, s.position(), cause)
	}
	wait := s.waits.NextBackOff()
	var passing *transientError
	if errors.As(cause, &passing) {
		wait = max(wait, min(passing.wait, longestRetryAfter))
	}
	s.note(fmt.Sprintf("interrupted at %s: %v; next try in %s", s.position(), cause, wait.Round(time.Millisecond)))
	if err := waits.Sleep(ctx, wait); err != nil {
		return err
	}
	if s.at > 0 && s.ids.none() {
		return s.restart()
	}
	return nil
}

// longestRetryAfter limits the wait that a server may request.
const longestRetryAfter = 5 * time.Minute

func (s *stream) position() string {
	if s.size < 0 {
		return text.Bytes(s.at)
	}
	return text.Bytes(s.at) + " of " + text.Bytes(s.size)
}

func (s *stream) note(text string) {
	if s.request.Note != nil {
		s.request.Note(text)
	}
}

// checkSpace requires free disk space for a quarter of the size, because the share of zeros is unknown.
func (s *stream) checkSpace(dir string) error { return imagefile.CheckFree(dir, max(s.size, 0)/4) }
