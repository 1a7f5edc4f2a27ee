package ibmvpc

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/IBM/go-sdk-core/v5/core"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

// newAPIError reads the error of the VPC API, of Cloud Object Storage or of a proxy.
func newAPIError(doing string, answer *http.Response, content []byte) *cloudkit.Error {
	e := &cloudkit.Error{Doing: doing, Status: answer.StatusCode, Request: answer.Header.Get("X-Request-Id"), Message: answer.Status}
	var fromVPC struct {
		Errors []struct{ Code, Message string }
		Trace  string
	}
	var fromStorage struct{ Code, Message, RequestID string }
	switch {
	case json.Unmarshal(content, &fromVPC) == nil && len(fromVPC.Errors) > 0:
		e.Code, e.Message, e.Request = fromVPC.Errors[0].Code, cloudkit.Clean(fromVPC.Errors[0].Message), fromVPC.Trace
	case xml.Unmarshal(content, &fromStorage) == nil && fromStorage.Code != "":
		e.Code, e.Message, e.Request = fromStorage.Code, cloudkit.Clean(fromStorage.Message), fromStorage.RequestID
	}
	e.After, e.Kind = cloudkit.RetryAfter(answer.Header.Get("Retry-After")), kindOf(e.Code, e.Status)
	// an earlier request may have created the object
	e.Unproven = isUsedName(e)
	if e.Status == http.StatusForbidden && e.Kind == drivers.ErrRejected { //nolint:errorlint // set above
		e.Message = fmt.Sprintf("the credentials lack the permission to do this (%s %s)", answer.Request.Method, e.Message)
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

// isUsedName reports whether another object has the name.
func isUsedName(err error) bool {
	code := cloudkit.CodeOf(err)
	return code == "validation_unique_failed" || strings.Contains(code, "duplicate")
}

// wrapLogin classifies the cause of a loginError.
func wrapLogin(doing string, err error) error {
	kind := drivers.ErrUnavailable
	if answer, ok := errors.AsType[*core.AuthenticationError](err); ok && answer.HTTPProblem != nil && answer.Response != nil && answer.Response.StatusCode >= 400 && answer.Response.StatusCode < 500 {
		kind = drivers.ErrRejected
		if answer.Response.StatusCode == http.StatusTooManyRequests {
			kind = drivers.ErrThrottled
		}
	}
	return drivers.Unsent(fmt.Errorf("%s: %w: IBM Cloud IAM issues no token for the credentials: %w", doing, kind, err))
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
