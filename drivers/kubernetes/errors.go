package kubernetes

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/npctl/npctl/drivers"
)

// apiError is an error response. The API server's message names the verb and the resource of a missing permission.
type apiError struct {
	doing   string
	status  int
	message string
	kind    error
	after   time.Duration
}

func (e *apiError) Error() string { return fmt.Sprintf("%s: %s (%d)", e.doing, e.message, e.status) }

func (e *apiError) Unwrap() error { return e.kind }

// RetryAfter implements drivers.RetryAfter.
func (e *apiError) RetryAfter() time.Duration { return e.after }

// NothingDone implements drivers.NothingDone: a rejection is a proof, a server error is not.
func (e *apiError) NothingDone() bool {
	return e.status >= 400 && e.status < 500 && e.status != http.StatusRequestTimeout
}

// unsentError is an error of a request that did not reach the API server.
type unsentError struct{ error }

func (e unsentError) Unwrap() error     { return e.error }
func (e unsentError) NothingDone() bool { return true }

// unansweredError is an error of a request without a response.
type unansweredError struct{ error }

func (e unansweredError) Unwrap() []error { return []error{e.error, drivers.ErrUnavailable} }

// wrap adds the operation to an error and classifies it. The status is that of the response, 0 without one.
func wrap(doing string, status int, err error) error {
	var answer apierrors.APIStatus
	if errors.As(err, &answer) {
		s := answer.Status()
		s.Code = int32(cmp.Or(status, int(s.Code))) //nolint:gosec // a status of HTTP
		return newAPIError(doing, s)
	}
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" || errors.Is(err, syscall.ECONNREFUSED) {
		return unsentError{fmt.Errorf("%s: %w", doing, unansweredError{err})}
	}
	var certificate *tls.CertificateVerificationError
	if errors.As(err, &certificate) {
		return unsentError{fmt.Errorf("%s: %w: %w; check certificate-authority of the cluster in the kubeconfig", doing, drivers.ErrRejected, err)}
	}
	var transport *url.Error
	if errors.As(err, &transport) {
		err = unansweredError{err}
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// maxMessage and maxRetryAfter limit what a response can cause.
const (
	maxMessage    = 500
	maxRetryAfter = 10 * time.Minute
)

func newAPIError(doing string, s metav1.Status) *apiError {
	e := &apiError{doing: doing, status: int(s.Code), message: strings.Join(strings.Fields(s.Message), " "), kind: kindOf(s)}
	if len(e.message) > maxMessage {
		e.message = strings.ToValidUTF8(e.message[:maxMessage], "") + "…"
	}
	if s.Details != nil {
		e.after = min(max(time.Duration(s.Details.RetryAfterSeconds)*time.Second, 0), maxRetryAfter)
	}
	return e
}

var (
	quotaText = drivers.Pattern(`(?i)exceeded quota|you may not request more than \d+ project|too many projects`)
	// pendingText are the rejections of a namespace without its default objects.
	pendingText = drivers.Pattern(`(?i)error looking up service account|no API token found for service account|unable to create new content in namespace`)
)

// kindOf maps a response to an error kind of package drivers; nil stands for a transient error.
func kindOf(s metav1.Status) error {
	switch code := int(s.Code); {
	case code == http.StatusTooManyRequests:
		return drivers.ErrThrottled
	case quotaText().MatchString(s.Message) && code < http.StatusInternalServerError:
		return drivers.ErrQuota
	case code == http.StatusForbidden && (pendingText().MatchString(s.Message) || hasCause(s, corev1.NamespaceTerminatingCause)):
		return nil
	case code == http.StatusConflict || code == http.StatusGone: // changed meanwhile; a list that took too long
		return nil
	case code == http.StatusRequestTimeout || code == http.StatusBadGateway || code == http.StatusServiceUnavailable || code == http.StatusGatewayTimeout,
		code == http.StatusInternalServerError && strings.Contains(s.Message, "webhook"):
		return drivers.ErrUnavailable
	case code >= 400 && code < 500:
		return drivers.ErrRejected
	default:
		return nil
	}
}

func hasCause(s metav1.Status, cause metav1.CauseType) bool {
	if s.Details == nil {
		return false
	}
	for _, c := range s.Details.Causes {
		if c.Type == cause {
			return true
		}
	}
	return false
}

// isStatus reports whether the API server responded with that status.
func isStatus(err error, status int) bool {
	var e *apiError
	return errors.As(err, &e) && e.status == status
}
