package openstack

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

// apiError is an error response. Its text contains the message of the service and not the request, because request
// bodies contain passwords and user data.
type apiError struct {
	doing   string
	status  int
	message string
	request string // the service's ID of the request, for its operators
	kind    error
	after   time.Duration
}

func (e *apiError) Error() string {
	text := fmt.Sprintf("%s: %d %s", e.doing, e.status, http.StatusText(e.status))
	if e.message != "" {
		text = fmt.Sprintf("%s: %s (%d)", e.doing, e.message, e.status)
	}
	if e.request != "" && e.status >= 500 {
		text += " [" + e.request + "]"
	}
	return text
}

func (e *apiError) Unwrap() error { return e.kind }

// RetryAfter implements drivers.RetryAfter.
func (e *apiError) RetryAfter() time.Duration { return e.after }

// NothingDone implements drivers.NothingDone: a rejection is a proof, a server error is not.
func (e *apiError) NothingDone() bool {
	return e.status >= 400 && e.status < 500 && e.status != http.StatusRequestTimeout
}

// unsentError is an error of a request that did not reach the cloud.
type unsentError struct{ error }

func (e unsentError) Unwrap() error     { return e.error }
func (e unsentError) NothingDone() bool { return true }

// unansweredError is an error of a request without a response.
type unansweredError struct{ error }

func (e unansweredError) Unwrap() []error { return []error{e.error, drivers.ErrUnavailable} }

// wrap adds the operation to an error and classifies it.
func wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	var again *gophercloud.ErrUnableToReauthenticate
	if errors.As(err, &again) {
		if gophercloud.ResponseCodeIs(again.ErrReauth, http.StatusUnauthorized) {
			return fmt.Errorf("%s: %w: Keystone no longer accepts the credentials", doing, drivers.ErrRejected)
		}
		return wrap(doing+": renew token", again.ErrReauth)
	}
	var answer gophercloud.ErrUnexpectedResponseCode
	if errors.As(err, &answer) {
		return newAPIError(doing, answer.Actual, answer.Body, answer.ResponseHeader)
	}
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" || errors.Is(err, syscall.ECONNREFUSED) {
		return unsentError{fmt.Errorf("%s: %w", doing, unansweredError{err})}
	}
	var certificate *tls.CertificateVerificationError
	if errors.As(err, &certificate) {
		return unsentError{fmt.Errorf("%s: %w: %w; set cacert in the clouds.yaml entry to the CA", doing, drivers.ErrRejected, err)}
	}
	var transport *url.Error
	if errors.As(err, &transport) || errors.Is(err, io.ErrUnexpectedEOF) { // no response, or an incomplete one
		err = unansweredError{err}
	}
	return fmt.Errorf("%s: %w", doing, err)
}

func newAPIError(doing string, status int, body []byte, header http.Header) *apiError {
	e := &apiError{
		doing: doing, status: status, message: messageOf(body),
		request: firstOf(header.Get("X-Openstack-Request-Id"), header.Get("X-Compute-Request-Id")),
		after:   retryAfter(header.Get("Retry-After")),
	}
	e.kind = kindOf(status, e.message, e.after)
	return e
}

// ignoreMissing returns the error unless it says that the object does not exist.
func ignoreMissing(err error) error {
	if isStatus(err, http.StatusNotFound) {
		return nil
	}
	return err
}

// isStatus reports whether the cloud responded with that status.
func isStatus(err error, status int) bool {
	var e *apiError
	return errors.As(err, &e) && e.status == status || gophercloud.ResponseCodeIs(err, status)
}

var (
	quotaText    = drivers.Pattern(`(?i)quota|number of ports exceeded|limit ?exceeded|will exceed the limit|maximum number of \w+ (allowed|exceeded)`)
	capacityText = drivers.Pattern(`(?i)no valid host|exhausted all hosts|not enough|insufficient|no more ip addresses|no more fixed ips|no fixed ip addresses available|no free|resources? unavailable|out of (capacity|resources)`)
	rejectedText = drivers.Pattern(`(?i)multiple possible networks|image \S+ (could not be found|is unacceptable)|flavor'?s disk is too small|disk is too small|unable to allocate auto|not reachable from subnet`)
)

// kindOf maps a response to an error kind of package drivers; nil stands for a transient error.
func kindOf(status int, message string, after time.Duration) error {
	switch {
	case status == http.StatusTooManyRequests:
		return drivers.ErrThrottled
	case status == http.StatusForbidden || status == http.StatusConflict || status == http.StatusRequestEntityTooLarge || status == http.StatusBadRequest:
		return refusal(status, message, after)
	case status == http.StatusRequestTimeout || status == http.StatusBadGateway || status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout:
		return drivers.ErrUnavailable
	case status >= 400 && status < 500:
		return drivers.ErrRejected
	default: // the service responds but fails
		return nil
	}
}

func refusal(status int, message string, after time.Duration) error {
	switch {
	case quotaText().MatchString(message) && status != http.StatusBadRequest:
		return drivers.ErrQuota
	case capacityText().MatchString(message):
		return drivers.ErrCapacity
	case rejectedText().MatchString(message):
		return drivers.ErrRejected
	case status == http.StatusConflict:
		return nil
	case status == http.StatusRequestEntityTooLarge && after > 0:
		return drivers.ErrThrottled
	default:
		return drivers.ErrRejected
	}
}

// faultKind classifies the fault of a server with status ERROR.
func faultKind(message string) resources.FaultKind {
	low := strings.ToLower(message)
	switch {
	case strings.Contains(low, "quota") && strings.Contains(low, "exce"), strings.Contains(low, "number of ports exceeded"):
		return resources.FaultQuota
	case capacityText().MatchString(message):
		return resources.FaultCapacity
	case rejectedText().MatchString(message):
		return resources.FaultRejected
	default:
		return ""
	}
}

// maxMessage limits the length of a service's message in errors.
const maxMessage = 500

var htmlTags = drivers.Pattern(`<[^>]*>`)

// messageOf extracts the message of a service. Nova and Cinder respond with {"badRequest": {"message": …}}, Neutron
// with {"NeutronError": {"message": …}}, Keystone with {"error": {"message": …}}, Glance with HTML or text.
func messageOf(body []byte) string {
	var answer map[string]json.RawMessage
	if json.Unmarshal(body, &answer) != nil {
		return clean(htmlTags().ReplaceAllString(string(body), " "))
	}
	for name, value := range answer {
		var inner struct {
			Message string `json:"message"`
		}
		var text string
		switch {
		case json.Unmarshal(value, &inner) == nil && inner.Message != "":
			return clean(inner.Message)
		case (name == "message" || name == "NeutronError") && json.Unmarshal(value, &text) == nil:
			return clean(text)
		}
	}
	return ""
}

// clean converts text to one line.
func clean(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "…"
	}
	return text
}

// maxRetryAfter keeps an incorrect or hostile header from stopping a provider for days.
const maxRetryAfter = 10 * time.Minute

// retryAfter parses a Retry-After header: seconds or a date.
func retryAfter(value string) time.Duration {
	if seconds, err := strconv.Atoi(strings.TrimSpace(value)); err == nil {
		return min(max(time.Duration(seconds)*time.Second, 0), maxRetryAfter)
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(time.Until(at), 0), maxRetryAfter)
	}
	return 0
}
