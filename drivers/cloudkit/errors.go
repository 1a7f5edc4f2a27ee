package cloudkit

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/text"
)

// Error is an error response. Its text contains the message of the service and not the request, which contains user data
// and passwords.
type Error struct {
	Doing   string
	Code    string // of the service; may be empty
	Message string // see Clean
	Status  int    // of HTTP, 0 without one
	Request string // the service's ID of the request, for its operators; may be empty
	Kind    error  // one of package drivers; nil for a transient error
	After   time.Duration
	// Unproven means that the cloud may have done something although the status is that of a rejection, Proven that it
	// has done nothing whatever the status is. Without either the status decides.
	Unproven, Proven bool
}

func (e *Error) Error() string {
	text := e.Doing + ": "
	if e.Code != "" {
		text += e.Code + ": "
	}
	text += e.Message
	if e.Status >= 500 && e.Request != "" {
		text += " [" + e.Request + "]"
	}
	return text
}

func (e *Error) Unwrap() error { return e.Kind }

// RetryAfter implements drivers.RetryAfter.
func (e *Error) RetryAfter() time.Duration { return e.After }

// NothingDone implements drivers.NothingDone: a rejection is a proof, a server error is not.
func (e *Error) NothingDone() bool {
	rejection := e.Status >= 400 && e.Status < 500 && e.Status != http.StatusRequestTimeout
	return !e.Unproven && (rejection || e.Proven)
}

// StatusOf returns the HTTP status of a response, or 0.
func StatusOf(err error) int {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Status
	}
	return 0
}

// CodeOf returns the error code of a response, or "".
func CodeOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

// IsMissing reports whether the object of the request does not exist: the status is 404.
func IsMissing(err error) bool { return StatusOf(err) == http.StatusNotFound }

// UnlessMissing returns the error unless the object of the request does not exist.
func UnlessMissing(err error) error {
	if IsMissing(err) {
		return nil
	}
	return err
}

// WrapTransport adds the operation to the error of a request without a response, and classifies it.
func WrapTransport(doing string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	wrapped := fmt.Errorf("%s: %w: %w", doing, drivers.ErrUnavailable, err)
	if isUnconnected(err) {
		return drivers.Unsent(wrapped)
	}
	return wrapped
}

// WrapHTTP is WrapTransport for errors that are not all of a request. hint says where to configure a certificate
// authority.
func WrapHTTP(doing, hint string, err error) error {
	if isUnconnected(err) {
		return drivers.Unsent(fmt.Errorf("%s: %w", doing, Unanswered(err)))
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return drivers.Unsent(fmt.Errorf("%s: %w: %w; %s", doing, drivers.ErrRejected, err, hint))
	}
	if _, ok := errors.AsType[*url.Error](err); ok {
		err = Unanswered(err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

func isUnconnected(err error) bool {
	var dial *net.OpError
	return errors.As(err, &dial) && dial.Op == "dial" || errors.Is(err, syscall.ECONNREFUSED)
}

// Unanswered marks the error of a request without a complete response as ErrUnavailable. Its text stays.
func Unanswered(err error) error { return unansweredError{err} }

type unansweredError struct{ error }

func (e unansweredError) Unwrap() []error { return []error{e.error, drivers.ErrUnavailable} }

// maxRetryAfter keeps an incorrect or hostile response from stopping a provider for days.
const maxRetryAfter = 10 * time.Minute

// RetryAfter parses a Retry-After header: seconds or a date.
func RetryAfter(value string) time.Duration {
	if seconds, err := strconv.Atoi(strings.TrimSpace(value)); err == nil {
		return time.Duration(min(max(seconds, 0), int(maxRetryAfter/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(time.Until(at), 0), maxRetryAfter)
	}
	return 0
}

// maxMessage limits the length of a service's message in errors.
const maxMessage = 500

// Clean converts the message of a service to one line of limited length.
func Clean(message string) string {
	return text.Cut(strings.Join(strings.Fields(message), " "), maxMessage)
}
