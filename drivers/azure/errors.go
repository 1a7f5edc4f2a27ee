package azure

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

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
		return drivers.Unsent(fmt.Errorf("%s: %w: %s", doing, loginKind(login), loginText(err)))
	case errors.As(err, &answer):
		return newAPIError(doing, answer)
	case strings.Contains(err.Error(), "DefaultAzureCredential"):
		return drivers.Unsent(fmt.Errorf("%s: %w: no usable Azure credentials (variables, identity, az login): %s", doing, drivers.ErrRejected, loginText(err)))
	}
	return cloudkit.WrapTransport(doing, err)
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
		return "Azure rejects the credentials: " + cloudkit.Clean(strings.NewReplacer(`\r`, " ", `\n`, " ", `\"`, `"`).Replace(match[1]))
	}
	return cloudkit.Clean(err.Error())
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

func newAPIError(doing string, answer *azcore.ResponseError) error {
	e := &cloudkit.Error{Doing: doing, Code: answer.ErrorCode, Status: answer.StatusCode, Unproven: answer.StatusCode == http.StatusPreconditionFailed}
	if answer.RawResponse != nil {
		var body errorBody
		if text, err := runtime.Payload(answer.RawResponse); err == nil && json.Unmarshal(text, &body) == nil {
			e.Message = cloudkit.Clean(body.Error.Message)
		}
		e.Request = answer.RawResponse.Header.Get("X-Ms-Request-Id")
		e.After = cloudkit.RetryAfter(answer.RawResponse.Header.Get("Retry-After"))
	}
	e.Code = cmp.Or(e.Code, http.StatusText(e.Status))
	if action := forbiddenAction().FindStringSubmatch(e.Message); action != nil {
		e.Message = fmt.Sprintf("the credentials lack the permission %s (%s)", action[1], e.Message)
	}
	e.Kind = kindOf(e.Code, e.Message, e.Status)
	return e
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
