package gce

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"google.golang.org/api/googleapi"

	"github.com/npctl/npctl/drivers"
)

func TestErrorsHaveTheirKind(t *testing.T) {
	for _, test := range []struct {
		reason      string
		status      int
		kind        error
		nothingDone bool
	}{
		{"quotaExceeded", 403, drivers.ErrQuota, true},
		{"rateLimitExceeded", 403, drivers.ErrThrottled, true},
		{"userRateLimitExceeded", 429, drivers.ErrThrottled, true},
		{"forbidden", 403, drivers.ErrRejected, true},
		{"accessNotConfigured", 403, drivers.ErrRejected, true},
		{"authError", 401, drivers.ErrRejected, true},
		{"notFound", 404, drivers.ErrRejected, true},
		{"invalid", 400, drivers.ErrRejected, true},
		{"resourceNotReady", 400, nil, true},
		{"resourceInUseByAnotherResource", 400, nil, true},
		{"ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", 503, drivers.ErrCapacity, true},
		{"stockout", 503, drivers.ErrUnavailable, false},
		{"backendError", 503, drivers.ErrUnavailable, false},
		{"internalError", 500, drivers.ErrUnavailable, false},
		{"surprise", 500, nil, false},
	} {
		err := wrap("create instance np1", &googleapi.Error{Code: test.status, Message: "no", Errors: []googleapi.ErrorItem{{Reason: test.reason, Message: "no"}}})
		for _, kind := range []error{drivers.ErrCapacity, drivers.ErrQuota, drivers.ErrThrottled, drivers.ErrRejected, drivers.ErrUnavailable} {
			if errors.Is(err, kind) != errors.Is(test.kind, kind) {
				t.Errorf("%s (%d) is %v: %t", test.reason, test.status, kind, errors.Is(err, kind))
			}
		}
		if drivers.IsNothingDone(err) != test.nothingDone {
			t.Errorf("%s (%d) proves that nothing was done: %t", test.reason, test.status, !test.nothingDone)
		}
	}
}

func TestWaitOfGoogleIsKept(t *testing.T) {
	err := wrap("list instances", &googleapi.Error{Code: 429, Header: http.Header{"Retry-After": {"7"}}})
	if wait := drivers.RetryAfterOf(err); wait != 7*time.Second {
		t.Errorf("wait is %s, want 7s", wait)
	}
}
