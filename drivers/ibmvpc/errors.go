package ibmvpc

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/IBM/go-sdk-core/v5/core"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/resources"
)

// apiError is an error response. Its text contains the message of the service and not the request, which contains user
// data.
type apiError struct {
	doing   string
	code    string
	message string
	status  int
	trace   string // the service's ID of the request
	kind    error
	after   time.Duration
}

func (e *apiError) Error() string {
	text := fmt.Sprintf("%s: %s", e.doing, e.message)
	if e.code != "" {
		text = fmt.Sprintf("%s: %s: %s", e.doing, e.code, e.message)
	}
	if e.status >= 500 && e.trace != "" {
		text += " [" + e.trace + "]"
	}
	return text
}

func (e *apiError) Unwrap() error { return e.kind }

// RetryAfter implements drivers.RetryAfter.
func (e *apiError) RetryAfter() time.Duration { return e.after }

// NothingDone implements drivers.NothingDone. A used name proves nothing: an earlier request may have created the object.
func (e *apiError) NothingDone() bool {
	return e.status >= 400 && e.status < 500 && e.status != http.StatusRequestTimeout && !isUsedName(e)
}

// unsentError is an error of a request that did not reach the cloud.
type unsentError struct{ error }

func (e unsentError) Unwrap() error     { return e.error }
func (e unsentError) NothingDone() bool { return true }

// unsent marks an error of the preparation of a request, unless the error itself knows better.
func unsent(err error) error {
	if drivers.IsNothingDone(err) {
		return err
	}
	return unsentError{err}
}

// newAPIError reads the error of the VPC API, of Cloud Object Storage or of a proxy.
func newAPIError(doing string, answer *http.Response, content []byte) *apiError {
	e := &apiError{doing: doing, status: answer.StatusCode, trace: answer.Header.Get("X-Request-Id"), message: answer.Status}
	var fromVPC struct {
		Errors []struct{ Code, Message string }
		Trace  string
	}
	var fromStorage struct{ Code, Message, RequestID string }
	switch {
	case json.Unmarshal(content, &fromVPC) == nil && len(fromVPC.Errors) > 0:
		e.code, e.message, e.trace = fromVPC.Errors[0].Code, clean(fromVPC.Errors[0].Message), fromVPC.Trace
	case xml.Unmarshal(content, &fromStorage) == nil && fromStorage.Code != "":
		e.code, e.message, e.trace = fromStorage.Code, clean(fromStorage.Message), fromStorage.RequestID
	}
	if seconds, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil {
		e.after = time.Duration(seconds) * time.Second
	}
	e.kind = kindOf(e.code, e.status)
	if e.status == http.StatusForbidden && e.kind == drivers.ErrRejected { //nolint:errorlint // set above
		e.message = fmt.Sprintf("the credentials lack the permission to do this (%s %s)", answer.Request.Method, e.message)
	}
	return e
}

// Error codes of the VPC API: https://cloud.ibm.com/docs/vpc?topic=vpc-rias-error-messages.
var (
	quotaCodes    = drivers.Pattern(`quota|limit_exceeded|_limit$|too_many_(instances|floating)`)
	capacityCodes = drivers.Pattern(`capacity|insufficient_resources|no_available_host`)
)

// kindOf maps a response to an error kind of package drivers; nil stands for a transient error.
func kindOf(code string, status int) error {
	switch {
	case status == http.StatusTooManyRequests || code == "SlowDown":
		return drivers.ErrThrottled
	case quotaCodes().MatchString(code):
		return drivers.ErrQuota
	case capacityCodes().MatchString(code):
		return drivers.ErrCapacity
	case status == http.StatusServiceUnavailable, status == http.StatusBadGateway, status == http.StatusGatewayTimeout, status == http.StatusRequestTimeout:
		return drivers.ErrUnavailable
	case status == http.StatusConflict: // the object changes at this time
		return nil
	case status >= 400 && status < 500:
		return drivers.ErrRejected
	default:
		return nil
	}
}

// isMissing reports whether the object of the request does not exist.
func isMissing(err error) bool {
	var e *apiError
	return errors.As(err, &e) && e.status == http.StatusNotFound
}

// isUsedName reports whether another object has the name.
func isUsedName(err error) bool {
	var e *apiError
	return errors.As(err, &e) && (e.code == "validation_unique_failed" || strings.Contains(e.code, "duplicate"))
}

// wrapLogin classifies the cause of a loginError.
func wrapLogin(doing string, err error) error {
	kind := drivers.ErrUnavailable
	var answer *core.AuthenticationError
	if errors.As(err, &answer) && answer.HTTPProblem != nil && answer.Response != nil && answer.Response.StatusCode >= 400 && answer.Response.StatusCode < 500 {
		kind = drivers.ErrRejected
		if answer.Response.StatusCode == http.StatusTooManyRequests {
			kind = drivers.ErrThrottled
		}
	}
	return unsentError{fmt.Errorf("%s: %w: IBM Cloud IAM issues no token for the credentials: %w", doing, kind, err)}
}

func wrapTransport(doing string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	wrapped := fmt.Errorf("%s: %w: %w", doing, drivers.ErrUnavailable, err)
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" || errors.Is(err, syscall.ECONNREFUSED) {
		return unsentError{wrapped}
	}
	return wrapped
}

// faultKind classifies the reason why an instance failed.
func faultKind(code string) resources.FaultKind {
	switch {
	case strings.Contains(code, "capacity"):
		return resources.FaultCapacity
	case strings.Contains(code, "encryption_key"):
		return resources.FaultRejected
	default:
		return ""
	}
}

// maxMessage limits the length of a service's message in errors.
const maxMessage = 500

func clean(message string) string {
	return text.Cut(strings.Join(strings.Fields(message), " "), maxMessage)
}
