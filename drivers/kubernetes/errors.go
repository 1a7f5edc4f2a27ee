package kubernetes

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
)

// wrap adds the operation to an error and classifies it. The status is that of the response, 0 without one.
func wrap(doing string, status int, err error) error {
	var answer apierrors.APIStatus
	if errors.As(err, &answer) {
		s := answer.Status()
		s.Code = int32(cmp.Or(status, int(s.Code))) //nolint:gosec // a status of HTTP
		return newAPIError(doing, s)
	}
	return cloudkit.WrapHTTP(doing, "check certificate-authority of the cluster in the kubeconfig", err)
}

// newAPIError returns the error of a response. The API server's message names the verb and the resource of a missing
// permission.
func newAPIError(doing string, s metav1.Status) *cloudkit.Error {
	e := &cloudkit.Error{Doing: doing, Status: int(s.Code), Message: fmt.Sprintf("%s (%d)", cloudkit.Clean(s.Message), s.Code), Kind: kindOf(s)}
	if s.Details != nil {
		e.After = cloudkit.RetryAfter(strconv.Itoa(int(s.Details.RetryAfterSeconds)))
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
	return s.Details != nil && slices.ContainsFunc(s.Details.Causes, func(c metav1.StatusCause) bool { return c.Type == cause })
}

// isStatus reports whether the API server responded with that status.
func isStatus(err error, status int) bool {
	return cloudkit.StatusOf(err) == status
}
