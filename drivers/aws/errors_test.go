package aws

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/npctl/npctl/drivers"
)

// answered returns an error as the SDK does.
func answered(operation string, status int, code, message string) error {
	response := &smithyhttp.ResponseError{Response: &smithyhttp.Response{Response: &http.Response{StatusCode: status}},
		Err: &smithy.GenericAPIError{Code: code, Message: message}}
	return &smithy.OperationError{ServiceID: "EC2", OperationName: operation, Err: &awshttp.ResponseError{ResponseError: response, RequestID: "r-1"}}
}

func TestErrorsHaveTheirKind(t *testing.T) {
	for _, test := range []struct {
		code        string
		status      int
		kind        error
		nothingDone bool
	}{
		{"InsufficientInstanceCapacity", 500, drivers.ErrCapacity, true},
		{"InsufficientFreeAddressesInSubnet", 400, drivers.ErrCapacity, true},
		{"Unsupported", 400, drivers.ErrCapacity, true},
		{"VcpuLimitExceeded", 400, drivers.ErrQuota, true},
		{"InstanceLimitExceeded", 400, drivers.ErrQuota, true},
		{"MaxSpotInstanceCountExceeded", 400, drivers.ErrQuota, true},
		{"RequestLimitExceeded", 503, drivers.ErrThrottled, true},
		{"ThrottlingException", 400, drivers.ErrThrottled, true},
		{"AuthFailure", 401, drivers.ErrRejected, true},
		{"UnauthorizedOperation", 403, drivers.ErrRejected, true},
		{"InvalidAMIID.NotFound", 400, drivers.ErrRejected, true},
		{"InternalError", 500, drivers.ErrUnavailable, false},
		{"Unavailable", 503, drivers.ErrUnavailable, false},
		{"IncorrectInstanceState", 400, nil, true},
		{"IdempotentParameterMismatch", 400, nil, false},
		{"IdempotentInstanceTerminated", 400, nil, false},
		{"Surprise", 500, nil, false},
	} {
		err := wrap("create instance np1", answered("RunInstances", test.status, test.code, "no"))
		for _, kind := range []error{drivers.ErrCapacity, drivers.ErrQuota, drivers.ErrThrottled, drivers.ErrRejected, drivers.ErrUnavailable} {
			if errors.Is(err, kind) != errors.Is(test.kind, kind) {
				t.Errorf("%s (%d) is %v: %t", test.code, test.status, kind, errors.Is(err, kind))
			}
		}
		if drivers.IsNothingDone(err) != test.nothingDone {
			t.Errorf("%s (%d) proves that nothing was done: %t", test.code, test.status, !test.nothingDone)
		}
	}
}

func TestMissingPermissionIsNamed(t *testing.T) {
	err := wrap("create instance np1", answered("RunInstances", 403, "UnauthorizedOperation",
		"You are not authorized to perform this operation. Encoded authorization failure message: "+strings.Repeat("x", 2000)))
	if text := err.Error(); !strings.Contains(text, "ec2:RunInstances") || strings.Contains(text, "xxx") {
		t.Errorf("error is %q, want the permission and no encoded message", text)
	}
}
