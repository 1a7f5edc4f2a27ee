package aws

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

// wrap adds the operation to an error and classifies it.
func wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	if answer, ok := errors.AsType[smithy.APIError](err); ok {
		return newAPIError(doing, answer, err)
	}
	if text := err.Error(); strings.Contains(text, "get credentials") || strings.Contains(text, "refresh cached credentials") {
		return drivers.Unsent(fmt.Errorf("%s: %w: no usable AWS credentials (variables, profile, role): %w", doing, drivers.ErrRejected, shortCause(err)))
	}
	return cloudkit.WrapTransport(doing, shortCause(err))
}

// wrapLogin is wrap for the call that verifies the credentials. A region that does not exist has no host name.
func wrapLogin(region string, err error) error {
	wrapped := wrap("log in to AWS", err)
	if lookup, ok := errors.AsType[*net.DNSError](err); ok && lookup.IsNotFound {
		return drivers.Unsent(fmt.Errorf("log in to AWS: %w: no service at %s; check region %q and the network%s", drivers.ErrUnavailable, lookup.Name, region, didYouMean(region, regions())))
	}
	return wrapped
}

// shortCause removes the SDK's prefixes.
func shortCause(err error) error {
	if operation, ok := errors.AsType[*smithy.OperationError](err); ok {
		return operation.Err
	}
	return err
}

func newAPIError(doing string, answer smithy.APIError, err error) error {
	status, request := 0, ""
	if response, ok := errors.AsType[*awshttp.ResponseError](err); ok {
		status, request = response.HTTPStatusCode(), response.ServiceRequestID()
	}
	e := responseError(doing, answer.ErrorCode(), answer.ErrorMessage(), status)
	e.Request = request
	var operation *smithy.OperationError
	if isPermission(e.Code) && errors.As(err, &operation) {
		e.Message = fmt.Sprintf("the credentials lack the permission %s:%s (%s)", strings.ToLower(strings.ReplaceAll(operation.ServiceID, " ", "")), operation.OperationName, e.Message)
	}
	return e
}

// responseError classifies an error of EC2, which also responds with 500 when it has no capacity, and with 503 when it throttles.
func responseError(doing, code, message string, status int) *cloudkit.Error {
	e := &cloudkit.Error{Doing: doing, Code: code, Message: clean(message), Status: status, Kind: kindOf(code, status), Unproven: isUsedToken(code)}
	e.Proven = slices.Contains([]error{drivers.ErrCapacity, drivers.ErrQuota, drivers.ErrThrottled}, e.Kind)
	return e
}

// codeOf returns the error code of a response, or "".
func codeOf(err error) string {
	if answer, ok := errors.AsType[smithy.APIError](err); ok {
		return answer.ErrorCode()
	}
	return cloudkit.CodeOf(err)
}

// isUsedToken reports whether an earlier request had the client token of this one: it may have created an instance.
func isUsedToken(code string) bool {
	return code == "IdempotentParameterMismatch" || code == "IdempotentInstanceTerminated"
}

func isPermission(code string) bool {
	return code == "UnauthorizedOperation" || code == "AccessDenied" || code == "AccessDeniedException"
}

// Error codes by kind: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html.
var (
	quotaCodes    = drivers.Pattern(`^(\w*LimitExceeded|MaxSpot\w*CountExceeded|ServiceQuotaExceededException|PendingVerification|ResourceCountExceeded)$`)
	capacityCodes = drivers.Pattern(`^(Insufficient\w*|SpotMaxPriceTooLow|UnfulfillableCapacity|Unsupported)$`)
	throttleCodes = drivers.Pattern(`^(RequestLimitExceeded|Throttl\w*|RequestThrottled\w*|TooManyRequestsException|SlowDown|SnapshotCreationPerVolumeRateExceeded|EC2ThrottledException)$`)
	endedCodes    = drivers.Pattern(`^(ExpiredToken\w*|RequestExpired|InvalidToken|InvalidClientTokenId|UnrecognizedClientException|AuthFailure)$`)
	absentCodes   = drivers.Pattern(`^(Unavailable|ServiceUnavailable\w*|InternalError|InternalFailure|InternalServerException|InternalServerError|RequestTimeout\w*)$`)
)

// kindOf maps a response to an error kind of package drivers; nil stands for a transient error. EC2 responds with
// Unsupported to types that a zone does not have, for which another type or zone may work.
func kindOf(code string, status int) error {
	switch {
	case throttleCodes().MatchString(code):
		return drivers.ErrThrottled
	case quotaCodes().MatchString(code):
		return drivers.ErrQuota
	case capacityCodes().MatchString(code):
		return drivers.ErrCapacity
	case absentCodes().MatchString(code) || status == http.StatusServiceUnavailable || status == http.StatusBadGateway || status == http.StatusGatewayTimeout:
		return drivers.ErrUnavailable
	case status == http.StatusTooManyRequests:
		return drivers.ErrThrottled
	case isUsedToken(code) || code == "IncorrectInstanceState" || code == "IncorrectState" || code == "DependencyViolation" || strings.HasSuffix(code, ".InUse") || code == "VolumeInUse" || code == "ConcurrentTagAccess" || code == "ConflictException":
		return nil
	case status >= 400 && status < 500 && status != http.StatusRequestTimeout:
		return drivers.ErrRejected
	default: // the service responds but fails
		return nil
	}
}

// isMissing reports whether the object of the request does not exist. EC2 calls IDs of another form malformed.
func isMissing(err error) bool {
	code := codeOf(err)
	return strings.Contains(code, ".NotFound") || strings.HasSuffix(code, ".Malformed") || strings.HasSuffix(code, "IDMalformed") ||
		code == "ResourceNotFoundException" || code == "InvalidID" || code == "NoSuchKey" || code == "NoSuchUpload"
}

// faultKind classifies the reason why EC2 terminated an instance.
func faultKind(code string) resources.FaultKind {
	low := strings.ToLower(code)
	switch {
	case strings.Contains(low, "insufficient"):
		return resources.FaultCapacity
	case strings.Contains(low, "limitexceeded"):
		return resources.FaultQuota
	case strings.HasPrefix(low, "client.invalid"):
		return resources.FaultRejected
	default:
		return ""
	}
}

// encodedMessage is a text of several kilobytes that only `aws sts decode-authorization-message` can read.
var encodedMessage = drivers.Pattern(`\s*Encoded authorization failure message: \S+`)

func clean(message string) string {
	return cloudkit.Clean(encodedMessage().ReplaceAllString(message, ""))
}
