package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/npctl/npctl/internal/text"
)

// conn is one response. Reads from it fail when it stalls.
type conn struct {
	response *http.Response
	from     int64 // offset in the file at which it starts
	size     int64 // of the whole file; -1 when unknown

	cancel context.CancelCauseFunc // of this connection alone
	cause  func() error            // why it was cancelled, or nil
	err    error                   // of read; permanent
	timer  *time.Timer
	stall  time.Duration
	floor  int64
	waited time.Duration // for got bytes
	got    int64
}

// transientError is an error after which a retry may succeed.
type transientError struct {
	cause error
	wait  time.Duration // minimum wait that the server requests
}

func (e *transientError) Error() string { return e.cause.Error() }
func (e *transientError) Unwrap() error { return e.cause }

// open requests the file, from byte at on if the server confirms that it is unchanged.
func open(ctx context.Context, c Client, address *url.URL, at int64, ids validator) (*conn, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	stalled := fmt.Errorf("no answer within %s", c.Stall)
	timer := time.AfterFunc(c.Stall, func() { cancel(stalled) })
	made := &conn{
		cancel: cancel, cause: func() error { return context.Cause(ctx) }, timer: timer, stall: c.Stall, floor: c.Floor,
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		made.close()
		return nil, WithoutURL(err)
	}
	request.Header.Set("Accept-Encoding", "identity")
	request.Header.Set("User-Agent", "npctl")
	if at > 0 {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", at))
		request.Header.Set("If-Range", ids.String())
	}
	made.response, err = c.HTTP.Do(request) //nolint:bodyclose // closed with the conn
	timer.Stop()
	if err != nil {
		err = made.reason(WithoutURL(err))
		made.close()
		if IsTransient(err) {
			err = &transientError{cause: err}
		}
		return nil, err
	}
	if err := made.checkResponse(at, ids); err != nil {
		made.close()
		return nil, err
	}
	return made, nil
}

// checkResponse checks the status and the headers.
func (c *conn) checkResponse(at int64, ids validator) error {
	r := c.response
	switch code := r.StatusCode; {
	case code == http.StatusOK:
		c.size = r.ContentLength
		return c.framed()
	case code == http.StatusPartialContent && at > 0:
		var err error
		c.from, c.size, err = contentRange(r.Header.Get("Content-Range"))
		if now := validatorOf(r.Header); err == nil && !now.none() && now != ids {
			c.from = -1 // the rest of another file
		}
		return err
	case code == http.StatusRequestedRangeNotSatisfiable && at > 0:
		c.from = -1
		return nil
	case IsTransientStatus(code):
		return &transientError{&statusError{r.Status, code}, RetryAfter(r.Header)}
	default:
		return &statusError{r.Status, code}
	}
}

// framed rejects a response that ends like a broken connection.
func (c *conn) framed() error {
	r := c.response
	if r.ContentLength < 0 && r.ProtoMajor < 2 && len(r.TransferEncoding) == 0 {
		return errors.New("the server sends neither the length nor the end of the file, so npctl could not detect a truncated file")
	}
	return nil
}

// read is io.Reader's Read with a time limit.
func (c *conn) read(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	c.timer = time.AfterFunc(c.stall, func() { c.cancel(fmt.Errorf("no bytes for %s", c.stall)) })
	began := time.Now()
	n, err := c.response.Body.Read(p)
	c.timer.Stop()
	c.got += int64(n)
	// Only the wait for the server counts, because decompression and writing may be slower.
	if c.waited += time.Since(began); c.waited >= c.stall {
		if c.got < c.floor && err == nil {
			err = fmt.Errorf("only %s in %s", text.Bytes(c.got), c.waited.Round(time.Millisecond))
		}
		c.waited, c.got = 0, 0
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = c.reason(err)
	}
	c.err = err
	return n, err
}

// reason returns why npctl closed the connection, or else the error.
func (c *conn) reason(err error) error {
	if cause := c.cause(); cause != nil {
		return cause
	}
	return err
}

func (c *conn) close() {
	c.timer.Stop()
	c.cancel(errors.New("closed"))
	if c.response != nil {
		_ = c.response.Body.Close()
	}
}

// validator identifies a version of a file. It must be strong: it changes with every byte and all servers compare it
// in the same way.
type validator struct{ etag, modified string }

func validatorOf(header http.Header) validator {
	if etag := header.Get("ETag"); strings.HasPrefix(etag, `"`) { // weak validators start with W/
		return validator{etag: etag}
	}
	modified, err := http.ParseTime(header.Get("Last-Modified"))
	if err != nil {
		return validator{}
	}
	// A time is a strong validator if the file had not changed for a second (RFC 9110, 8.8.2.2).
	if date, err := http.ParseTime(header.Get("Date")); err != nil || date.Sub(modified) < time.Second {
		return validator{}
	}
	return validator{modified: header.Get("Last-Modified")}
}

func (v validator) none() bool { return v == validator{} }

// String returns the value of If-Range.
func (v validator) String() string { return v.etag + v.modified }

// contentRange parses "bytes 100-199/200" and "bytes 100-199/*".
func contentRange(text string) (from, size int64, err error) {
	span, ok := strings.CutPrefix(text, "bytes ")
	span, whole, ok2 := strings.Cut(span, "/")
	first, last, ok3 := strings.Cut(span, "-")
	if !ok || !ok2 || !ok3 {
		return 0, 0, fmt.Errorf("the server answers with the range %q, which cannot be read", text)
	}
	from, err1 := strconv.ParseInt(first, 10, 64)
	end, err2 := strconv.ParseInt(last, 10, 64)
	size, err3 := int64(-1), error(nil)
	if whole != "*" {
		size, err3 = strconv.ParseInt(whole, 10, 64)
	}
	if err := errors.Join(err1, err2, err3); err != nil || from < 0 || end < from || size >= 0 && end >= size {
		return 0, 0, fmt.Errorf("the server answers with the range %q, which is not the requested one", text)
	}
	return from, size, nil
}
