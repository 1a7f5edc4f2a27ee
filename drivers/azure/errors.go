package azure

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

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/resources"
)

// apiError is an error response. Its text contains the message of the service and not the request, which contains user
// data and passwords.
type apiError struct {
	doing   string
	code    string
	message string
	status  int
	request string // the service's ID of the request
	after   time.Duration
	kind    error
}

func (e *apiError) Error() string {
	text := fmt.Sprintf("%s: %s: %s", e.doing, e.code, e.message)
	if e.status >= 500 && e.request != "" {
		text += " [" + e.request + "]"
	}
	return text
}

func (e *apiError) Unwrap() error { return e.kind }

// RetryAfter implements drivers.RetryAfter.
func (e *apiError) RetryAfter() time.Duration { return e.after }

// NothingDone implements drivers.NothingDone.
func (e *apiError) NothingDone() bool {
	return e.status >= 400 && e.status < 500 && e.status != http.StatusRequestTimeout && e.status != http.StatusPreconditionFailed
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
	var answer *azcore.ResponseError
	var login *azidentity.AuthenticationFailedError
	switch {
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: %w", doing, err)
	case errors.As(err, &login):
		return unsentError{fmt.Errorf("%s: %w: %s", doing, loginKind(login), loginText(err))}
	case errors.As(err, &answer):
		return newAPIError(doing, answer)
	case strings.Contains(err.Error(), "DefaultAzureCredential"):
		return unsentError{fmt.Errorf("%s: %w: no usable Azure credentials (variables, identity, az login): %s", doing, drivers.ErrRejected, loginText(err))}
	}
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" || errors.Is(err, syscall.ECONNREFUSED) {
		return unsentError{fmt.Errorf("%s: %w: %w", doing, drivers.ErrUnavailable, err)}
	}
	return fmt.Errorf("%s: %w: %w", doing, drivers.ErrUnavailable, err)
}

// loginKind classifies a failed login: the service answers 400 or 401 to wrong credentials.
func loginKind(err *azidentity.AuthenticationFailedError) error {
	if err.RawResponse != nil && (err.RawResponse.StatusCode >= 500 || err.RawResponse.StatusCode == http.StatusTooManyRequests) {
		return drivers.ErrUnavailable
	}
	return drivers.ErrRejected
}

// loginError matches the reason in the long text of a failed login.
var loginError = drivers.Pattern(`"error_description": *"((?:[^"\\]|\\.)*)"`)

func loginText(err error) string {
	if match := loginError().FindStringSubmatch(err.Error()); match != nil {
		return "Azure rejects the credentials: " + clean(strings.NewReplacer(`\r`, " ", `\n`, " ", `\"`, `"`).Replace(match[1]))
	}
	return clean(err.Error())
}

// errorBody is the body of an error response.
type errorBody struct {
	Error struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// forbiddenAction matches the permission in the message of AuthorizationFailed.
var forbiddenAction = drivers.Pattern(`perform action '([^']+)'`)

func newAPIError(doing string, answer *azcore.ResponseError) *apiError {
	e := &apiError{doing: doing, code: answer.ErrorCode, status: answer.StatusCode}
	if answer.RawResponse != nil {
		var body errorBody
		if text, err := runtime.Payload(answer.RawResponse); err == nil && json.Unmarshal(text, &body) == nil {
			e.message = clean(body.Error.Message)
		}
		e.request = answer.RawResponse.Header.Get("X-Ms-Request-Id")
		e.after = retryAfter(answer.RawResponse.Header.Get("Retry-After"))
	}
	if e.code == "" {
		e.code = http.StatusText(e.status)
	}
	if action := forbiddenAction().FindStringSubmatch(e.message); action != nil {
		e.message = fmt.Sprintf("the credentials lack the permission %s (%s)", action[1], e.message)
	}
	e.kind = kindOf(e.code, e.message, e.status)
	return e
}

const maxRetryAfter = 10 * time.Minute

func retryAfter(header string) time.Duration {
	seconds, err := strconv.Atoi(header)
	if err != nil {
		return 0
	}
	return min(max(time.Duration(seconds)*time.Second, 0), maxRetryAfter)
}

// Error codes by kind: https://learn.microsoft.com/azure/azure-resource-manager/troubleshooting/common-deployment-errors.
// OperationNotAllowed has several causes, of which only the message names the quota.
var (
	quotaCodes    = drivers.Pattern(`^(QuotaExceeded|\w*QuotaExceeded|\w*LimitReached|\w*LimitExceeded)$`)
	capacityCodes = drivers.Pattern(`^(SkuNotAvailable|(Zonal)?AllocationFailed\w*|Overconstrained\w*|NoZonesAvailable\w*|CapacityNotAvailable\w*)$`)
	conflictCodes = drivers.Pattern(`^(Conflict|AnotherOperationInProgress|\w*ConflictingUserInput|OperationPreempted|RetryableError|\w*InUse|InUse\w*|NicReservedForAnotherVm|AttachDiskWhileBeingDetached|ReferencedResourceNotProvisioned)$`)
)

// kindOf maps a response to an error kind of package drivers; nil stands for a transient error.
func kindOf(code, message string, status int) error {
	switch {
	case status == http.StatusTooManyRequests:
		return drivers.ErrThrottled
	case quotaCodes().MatchString(code), code == "OperationNotAllowed" && strings.Contains(strings.ToLower(message), "quota"):
		return drivers.ErrQuota
	case capacityCodes().MatchString(code):
		return drivers.ErrCapacity
	case status == http.StatusServiceUnavailable || status == http.StatusBadGateway || status == http.StatusGatewayTimeout:
		return drivers.ErrUnavailable
	case status == http.StatusRequestTimeout || status == http.StatusPreconditionFailed || status == http.StatusConflict && conflictCodes().MatchString(code):
		return nil
	case status >= 400 && status < 500:
		return drivers.ErrRejected
	default: // the service responds but fails
		return nil
	}
}

// statusOf returns the HTTP status of a response, or 0.
func statusOf(err error) int {
	var e *apiError
	if errors.As(err, &e) {
		return e.status
	}
	return 0
}

// isMissing reports whether the object of the request does not exist.
func isMissing(err error) bool { return statusOf(err) == http.StatusNotFound }

func unlessMissing(err error) error {
	if isMissing(err) {
		return nil
	}
	return err
}

// faultKind classifies the reason why a virtual machine failed.
func faultKind(code, message string) resources.FaultKind {
	switch kind := kindOf(code, message, http.StatusConflict); {
	case errors.Is(kind, drivers.ErrQuota):
		return resources.FaultQuota
	case errors.Is(kind, drivers.ErrCapacity):
		return resources.FaultCapacity
	default:
		return ""
	}
}

// maxMessage limits the length of a service's message in errors.
const maxMessage = 500

func clean(message string) string {
	return text.Cut(strings.Join(strings.Fields(message), " "), maxMessage)
}
