package external

import (
	"errors"
	"fmt"
	"time"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/text"
)

// callError is an error with a known outcome.
type callError struct {
	kind        error // one of the kinds of package drivers, or nil
	message     string
	cause       error // may be nil
	retryAfter  time.Duration
	nothingDone bool
}

func (e *callError) Error() string {
	if e.cause != nil {
		return e.message + ": " + e.cause.Error()
	}
	return e.message
}

func (e *callError) Unwrap() []error {
	var wrapped []error
	for _, err := range []error{e.kind, e.cause} {
		if err != nil {
			wrapped = append(wrapped, err)
		}
	}
	return wrapped
}

// RetryAfter implements drivers.RetryAfter.
func (e *callError) RetryAfter() time.Duration { return e.retryAfter }

// NothingDone implements drivers.NothingDone.
func (e *callError) NothingDone() bool { return e.nothingDone }

// rejectedf returns an error of a call that was never sent.
func rejectedf(format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	return &callError{kind: drivers.ErrRejected, message: err.Error(), cause: nil, nothingDone: true}
}

// errorKinds are the kinds of the protocol.
var errorKinds = map[string]error{
	"quota": drivers.ErrQuota, "capacity": drivers.ErrCapacity, "rejected": drivers.ErrRejected, "throttled": drivers.ErrThrottled,
	"unavailable": drivers.ErrUnavailable, "not_ours": drivers.ErrNotOurs, "": nil,
}

// errorJSON is the object error of a response.
type errorJSON struct {
	Kind        string  `json:"kind,omitempty"`
	Message     string  `json:"message"`
	RetryAfter  float64 `json:"retry_after,omitempty"` // seconds
	NothingDone bool    `json:"nothing_done,omitempty"`
}

// maxRetryAfter protects the conversion to a time.Duration.
const maxRetryAfter = 24 * 3600

func (e *errorJSON) err(call string) error {
	kind, known := errorKinds[e.Kind]
	if !known {
		return fmt.Errorf("%s returned an error of the unknown kind %q: %s", call, e.Kind, text.Line(e.Message))
	}
	return &callError{
		kind: kind, message: call + ": " + text.Line(e.Message), nothingDone: e.NothingDone,
		retryAfter: time.Duration(min(max(e.RetryAfter, 0), maxRetryAfter) * float64(time.Second)),
	}
}

// exitCode returns the exit status of a program, or 0 for other errors.
func exitCode(err error) int {
	if ended, ok := errors.AsType[*exit](err); ok {
		return ended.code
	}
	return 0
}
