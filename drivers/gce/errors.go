package gce

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/oauth2"
	"google.golang.org/api/compute/v1"
	"google.golang.org/api/googleapi"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/text"
)

// apiError is an error response, or the error of an operation. Its text contains the message of Google and not the
// request, which contains user data.
type apiError struct {
	doing   string
	code    string // the reason of a response or the code of an operation
	message string
	status  int // of HTTP
	kind    error
	pause   time.Duration // the time to wait before a retry
}

func (e *apiError) Error() string { return fmt.Sprintf("%s: %s: %s", e.doing, e.code, e.message) }

func (e *apiError) Unwrap() error { return e.kind }

// RetryAfter implements drivers.RetryAfter.
func (e *apiError) RetryAfter() time.Duration { return e.pause }

// NothingDone implements drivers.NothingDone.
func (e *apiError) NothingDone() bool {
	return e.status >= 400 && e.status < 500 && e.status != http.StatusRequestTimeout || errors.Is(e.kind, drivers.ErrRejected) ||
		errors.Is(e.kind, drivers.ErrCapacity) || errors.Is(e.kind, drivers.ErrQuota) || errors.Is(e.kind, drivers.ErrThrottled)
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

// wrap adds the operation to an error and classifies it.
func wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	var answer *googleapi.Error
	if errors.As(err, &answer) {
		return newAPIError(doing, answer)
	}
	var token *oauth2.RetrieveError
	if errors.As(err, &token) && token.Response != nil && token.Response.StatusCode < 500 {
		return unsentError{fmt.Errorf("%s: %w: Google does not accept the credentials: %s", doing, drivers.ErrRejected, tokenMessage(token))}
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	if errors.Is(err, drivers.ErrUnavailable) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	unavailable := fmt.Errorf("%s: %w: %w", doing, drivers.ErrUnavailable, err)
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" || errors.Is(err, syscall.ECONNREFUSED) || token != nil {
		return unsentError{unavailable}
	}
	return unavailable
}

// tokenMessage returns why Google issues no token.
func tokenMessage(err *oauth2.RetrieveError) string {
	var answer struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}
	if json.Unmarshal(err.Body, &answer) != nil || answer.Error == "" {
		return err.Response.Status
	}
	return clean(answer.Error + ": " + answer.Description)
}

func newAPIError(doing string, answer *googleapi.Error) error {
	e := &apiError{doing: doing, code: strconv.Itoa(answer.Code), message: clean(answer.Message), status: answer.Code}
	if len(answer.Errors) > 0 {
		e.code = answer.Errors[0].Reason
	}
	if seconds, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil {
		e.pause = time.Duration(seconds) * time.Second
	}
	e.kind = kindOf(e.code, e.message, e.status)
	switch {
	case e.status == http.StatusUnauthorized:
		e.message = "Google does not accept the credentials (" + e.message + ")"
	case e.code == "accessNotConfigured":
		e.message = "enable the API compute.googleapis.com in the project (" + e.message + ")"
	}
	return e
}

// operationError returns the error of an operation that has ended, or nil.
func operationError(doing string, op *compute.Operation) error {
	if op.Error == nil || len(op.Error.Errors) == 0 {
		return nil
	}
	first := op.Error.Errors[0]
	e := &apiError{doing: doing, code: first.Code, message: clean(first.Message), status: int(op.HttpErrorStatusCode)}
	e.kind = kindOf(e.code, e.message, e.status)
	return e
}

// Reasons of responses, https://cloud.google.com/compute/docs/troubleshooting/troubleshooting-reference, and codes of
// operations, which are in upper case.
var (
	quotaCodes    = drivers.Pattern(`^(quotaExceeded|limitExceeded|QUOTA_EXCEEDED|LIMIT_EXCEEDED|QUOTA_LIMIT_EXCEEDED)$`)
	capacityCodes = drivers.Pattern(`(RESOURCE_POOL_EXHAUSTED|STOCKOUT|IP_SPACE_EXHAUSTED|RESOURCE_AVAILABILITY|resource_availability)`)
	throttleCodes = drivers.Pattern(`^(rateLimitExceeded|userRateLimitExceeded|RATE_LIMIT_EXCEEDED|RESOURCE_OPERATION_RATE_EXCEEDED|operationRateExceeded)$`)
	absentCodes   = drivers.Pattern(`^(backendError|internalError|INTERNAL_ERROR|BACKEND_ERROR|SERVICE_UNAVAILABLE)$`)
	rejectedCodes = drivers.Pattern(`^(PERMISSIONS_ERROR|RESOURCE_NOT_FOUND|INVALID_\w+|UNSUPPORTED_OPERATION|BAD_REQUEST)$`)
	passingCodes  = drivers.Pattern(`^(resourceNotReady|resourceInUse|resourceInUseByAnotherResource|conditionNotMet|RESOURCE_NOT_READY|RESOURCE_IN_USE\w*|OPERATION_CANCELED\w*)$`)
)

// kindOf maps an error to an error kind of package drivers; nil stands for a transient error. Google has no capacity for
// a machine type in a zone also if the zone does not have the type, for which another zone may work.
func kindOf(code, message string, status int) error {
	switch {
	case throttleCodes().MatchString(code), status == http.StatusTooManyRequests:
		return drivers.ErrThrottled
	case quotaCodes().MatchString(code):
		return drivers.ErrQuota
	case capacityCodes().MatchString(code), capacityCodes().MatchString(message):
		return drivers.ErrCapacity
	case passingCodes().MatchString(code):
		return nil
	case rejectedCodes().MatchString(code):
		return drivers.ErrRejected
	case absentCodes().MatchString(code), status == http.StatusServiceUnavailable, status == http.StatusBadGateway, status == http.StatusGatewayTimeout:
		return drivers.ErrUnavailable
	case status == http.StatusRequestTimeout, status >= 500:
		return nil
	default:
		return drivers.ErrRejected
	}
}

func isMissing(err error) bool { return statusOfError(err) == http.StatusNotFound }

func unlessMissing(err error) error {
	if isMissing(err) {
		return nil
	}
	return err
}

// isDuplicate reports whether an object with the name of the request exists.
func isDuplicate(err error) bool {
	var e *apiError
	return errors.As(err, &e) && (e.code == "alreadyExists" || e.code == "RESOURCE_ALREADY_EXISTS")
}

func statusOfError(err error) int {
	var e *apiError
	if errors.As(err, &e) {
		return e.status
	}
	return 0
}

// maxMessage limits the length of Google's message in errors.
const maxMessage = 500

func clean(message string) string {
	return text.Cut(strings.Join(strings.Fields(message), " "), maxMessage)
}
