package openstack

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

// Error responses of real services.
func TestResponsesAreMappedToErrorKinds(t *testing.T) {
	for _, test := range []struct {
		name   string
		status int
		body   string
		header http.Header
		kind   error // nil: transient
		text   string
		after  time.Duration
	}{
		{"nova instances", 403, `{"forbidden": {"code": 403, "message": "Quota exceeded for instances: Requested 1, but already used 1 of 1 instances"}}`, nil,
			drivers.ErrQuota, "already used 1 of 1 instances", 0},
		{"nova ports", 403, `{"forbidden": {"code": 403, "message": "Maximum number of ports exceeded"}}`, nil, drivers.ErrQuota, "number of ports", 0},
		{"nova policy", 403, `{"forbidden": {"code": 403, "message": "Policy doesn't allow os_compute_api:servers:create to be performed."}}`, nil, drivers.ErrRejected, "Policy", 0},
		{"nova image", 400, `{"badRequest": {"code": 400, "message": "Can not find requested image"}}`, nil, drivers.ErrRejected, "Can not find requested image", 0},
		{"nova zone", 400, `{"badRequest": {"code": 400, "message": "The requested availability zone is not available"}}`, nil, drivers.ErrRejected, "zone", 0},
		{"nova several networks", 409, `{"conflictingRequest": {"code": 409, "message": "Multiple possible networks found, use a Network ID to be more specific."}}`, nil, drivers.ErrRejected, "Network ID", 0},
		{"nova task", 409, `{"conflictingRequest": {"code": 409, "message": "Cannot 'delete' instance 1 while it is in task_state building"}}`, nil, nil, "task_state", 0},
		{"nova too many", 429, `{"overLimit": {"code": 429, "message": "This request was rate-limited."}}`, http.Header{"Retry-After": {"7"}}, drivers.ErrThrottled, "rate-limited", 7 * time.Second},
		{"nova too many, old", 413, `{"overLimit": {"code": 413, "message": "This request was rate-limited."}}`, http.Header{"Retry-After": {"3"}}, drivers.ErrThrottled, "rate-limited", 3 * time.Second},
		{"nova down", 500, `{"computeFault": {"code": 500, "message": "Unexpected API Error."}}`, http.Header{"X-Openstack-Request-Id": {"req-1"}}, nil, "[req-1]", 0},
		{"proxy", 503, `<html><body><h1>503 Service Unavailable</h1>No server is available.</body></html>`, http.Header{"Retry-After": {"9"}}, drivers.ErrUnavailable, "No server is available", 9 * time.Second},
		{"neutron floating IPs", 409, `{"NeutronError": {"type": "OverQuota", "message": "Quota exceeded for resources: ['floatingip'].", "detail": ""}}`, nil, drivers.ErrQuota, "floatingip", 0},
		{"neutron addresses", 409, `{"NeutronError": {"type": "IpAddressGenerationFailure", "message": "No more IP addresses available on network 1.", "detail": ""}}`, nil, drivers.ErrCapacity, "No more IP", 0},
		{"neutron no way out", 404, `{"NeutronError": {"type": "ExternalGatewayForFloatingIPNotFound", "message": "External network 1 is not reachable from subnet 2.", "detail": ""}}`, nil, drivers.ErrRejected, "not reachable", 0},
		{"cinder volumes", 413, `{"overLimit": {"code": 413, "message": "VolumeLimitExceeded: Maximum number of volumes allowed (10) exceeded for quota 'volumes'."}}`, nil, drivers.ErrQuota, "volumes", 0},
		{"glance space", 413, `<html><head><title>413 Request Entity Too Large</title></head><body>Denying attempt to upload image because it exceeds the quota: 10</body></html>`, nil, drivers.ErrQuota, "exceeds the quota", 0},
		{"glance format", 400, `400 Bad Request: Invalid disk format 'x' for image.`, nil, drivers.ErrRejected, "Invalid disk format", 0},
		{"keystone", 401, `{"error": {"code": 401, "message": "The request you have made requires authentication."}}`, nil, drivers.ErrRejected, "requires authentication", 0},
		{"empty", 502, ``, nil, drivers.ErrUnavailable, "Bad Gateway", 0},
		{"proxy that waited", 504, ``, nil, drivers.ErrUnavailable, "Gateway Timeout", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.header == nil {
				test.header = http.Header{}
			}
			err := wrap("do it", gophercloud.ErrUnexpectedResponseCode{Actual: test.status, Body: []byte(test.body), ResponseHeader: test.header, URL: "http://secret"})
			for _, kind := range []error{drivers.ErrQuota, drivers.ErrCapacity, drivers.ErrRejected, drivers.ErrThrottled, drivers.ErrUnavailable} {
				if errors.Is(err, kind) != errors.Is(test.kind, kind) {
					t.Errorf("%v is %v: %t", err, kind, errors.Is(err, kind))
				}
			}
			if !strings.HasPrefix(err.Error(), "do it: ") || !strings.Contains(err.Error(), test.text) || strings.Contains(err.Error(), "<") {
				t.Errorf("text is %q, want it to begin with what was done and say %q", err, test.text)
			}
			if got := drivers.RetryAfterOf(err); got != test.after {
				t.Errorf("retry after %s, want %s", got, test.after)
			}
			if got, want := drivers.IsNothingDone(err), test.status < 500; got != want {
				t.Errorf("nothing done: %t, want %t", got, want)
			}
		})
	}
}

func TestConnectionErrorsAreTransient(t *testing.T) {
	for name, err := range map[string]error{
		"timeout": fmt.Errorf("Post: %w", context.DeadlineExceeded),
		"again":   &gophercloud.ErrUnableToReauthenticate{ErrOriginal: errors.New("401"), ErrReauth: errors.New("EOF")},
	} {
		if got := wrap("do it", err); !drivers.IsTransient(got) || drivers.IsNothingDone(got) {
			t.Errorf("%s: %v; want an error that may pass and proves nothing", name, got)
		}
	}
	refused := &gophercloud.ErrUnableToReauthenticate{ErrReauth: gophercloud.ErrUnexpectedResponseCode{Actual: 401}}
	if got := wrap("do it", refused); !errors.Is(got, drivers.ErrRejected) {
		t.Errorf("changed password: %v, want ErrRejected", got)
	}
}

// Without a response the caller does not know whether the cloud executed the request.
func TestMissingResponseIsDistinguishedFromResponse(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"cut":       {&url.Error{Op: "Post", URL: "http://cloud", Err: io.EOF}, true},
		"timeout":   {&url.Error{Op: "Post", URL: "http://cloud", Err: context.DeadlineExceeded}, true},
		"refused":   {&url.Error{Op: "Post", URL: "http://cloud", Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}, true},
		"half":      {fmt.Errorf("decode: %w", io.ErrUnexpectedEOF), true},
		"strange":   {errors.New("invalid character '<' looking for beginning of value"), false},
		"untrusted": {&url.Error{Op: "Post", URL: "https://cloud", Err: &tls.CertificateVerificationError{Err: errors.New("unknown authority")}}, false},
	} {
		if got := wrap("do it", test.err); errors.Is(got, drivers.ErrUnavailable) != test.want {
			t.Errorf("%s: %v is unavailable: %t, want %t", name, got, !test.want, test.want)
		}
	}
}

// The texts of faults of real servers with status ERROR.
func TestFaultsAreMappedToErrorKinds(t *testing.T) {
	for text, want := range map[string]resources.FaultKind{
		"No valid host was found. ":                                      resources.FaultCapacity,
		"No valid host was found. There are not enough hosts available.": resources.FaultCapacity,
		"Exceeded maximum number of retries. Exhausted all hosts available for retrying build failures for instance 1.":         resources.FaultCapacity,
		"Build of instance 1 aborted: VolumeLimitExceeded: Maximum number of volumes allowed (1) exceeded for quota 'volumes'.": resources.FaultQuota,
		"Build of instance 1 aborted: Quota exceeded for resources: ['port'].":                                                  resources.FaultQuota,
		"Maximum number of ports exceeded":             resources.FaultQuota,
		"Value exceeds quota":                          resources.FaultQuota,
		"No more IP addresses available on network 1.": resources.FaultCapacity,
		"Build of instance 1 aborted: Image 2 is unacceptable: Image has no associated data":                                                       resources.FaultRejected,
		"Build of instance 1 aborted: Flavor's disk is too small for requested image. Flavor disk is 1073741824 bytes, image is 2147483648 bytes.": resources.FaultRejected,
		"Connection to libvirt lost": "",
		"":                           "",
	} {
		if got := faultKind(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}
