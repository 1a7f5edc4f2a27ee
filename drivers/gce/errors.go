package gce

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"golang.org/x/oauth2"
	"google.golang.org/api/compute/v1"
	"google.golang.org/api/googleapi"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
)

// wrap adds the operation to an error and classifies it.
func wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	if answer, ok := errors.AsType[*googleapi.Error](err); ok {
		return newAPIError(doing, answer)
	}
	var token *oauth2.RetrieveError
	if errors.As(err, &token) && token.Response != nil && token.Response.StatusCode < 500 {
		return drivers.Unsent(fmt.Errorf("%s: %w: Google does not accept the credentials: %s", doing, drivers.ErrRejected, tokenMessage(token)))
	}
	if errors.Is(err, drivers.ErrUnavailable) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	if err = cloudkit.WrapTransport(doing, err); token != nil {
		return drivers.Unsent(err)
	}
	return err
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
	return cloudkit.Clean(answer.Error + ": " + answer.Description)
}

func newAPIError(doing string, answer *googleapi.Error) error {
	code := strconv.Itoa(answer.Code)
	if len(answer.Errors) > 0 {
		code = answer.Errors[0].Reason
	}
	e := responseError(doing, code, answer.Message, answer.Code)
	e.After = cloudkit.RetryAfter(answer.Header.Get("Retry-After"))
	switch {
	case e.Status == http.StatusUnauthorized:
		e.Message = "Google does not accept the credentials (" + e.Message + ")"
	case e.Code == "accessNotConfigured":
		e.Message = "enable the API compute.googleapis.com in the project (" + e.Message + ")"
	}
	return e
}

// operationError returns the error of an operation that has ended, or nil.
func operationError(doing string, op *compute.Operation) error {
	if op.Error == nil || len(op.Error.Errors) == 0 {
		return nil
	}
	first := op.Error.Errors[0]
	return responseError(doing, first.Code, first.Message, int(op.HttpErrorStatusCode))
}

// responseError classifies the error of a response, with its reason as the code, or of an operation.
func responseError(doing, code, message string, status int) *cloudkit.Error {
	e := &cloudkit.Error{Doing: doing, Code: code, Message: cloudkit.Clean(message), Status: status}
	e.Kind = kindOf(e.Code, e.Message, e.Status)
	e.Proven = slices.Contains([]error{drivers.ErrRejected, drivers.ErrCapacity, drivers.ErrQuota, drivers.ErrThrottled}, e.Kind)
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
	case status == http.StatusRequestTimeout, status >= 500, status == 0: // an operation may have no status
		return nil
	default:
		return drivers.ErrRejected
	}
}

// isDuplicate reports whether an object with the name of the request exists.
func isDuplicate(err error) bool {
	code := cloudkit.CodeOf(err)
	return code == "alreadyExists" || code == "RESOURCE_ALREADY_EXISTS"
}
