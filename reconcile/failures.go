package reconcile

import (
	"errors"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

// ErrProviderUnreachable is the error of a postponed launch: the provider does not respond. A Runner does not log it as
// an error, because the daemon plans the retry and reports the outage once for all launches.
var ErrProviderUnreachable = errors.New("the provider does not answer")

// isUnreachable reports whether an error means that the provider does not respond now, and says nothing about the
// request.
func isUnreachable(err error) bool {
	return (errors.Is(err, drivers.ErrUnavailable) || errors.Is(err, drivers.ErrThrottled)) && drivers.IsTransient(err)
}

// gonesAtMost is how many missing versions of a source are remembered.
const gonesAtMost = 50

// faultKind returns the kind of an error. It is empty for an error that may be transient.
func faultKind(err error) resources.FaultKind {
	switch {
	case errors.Is(err, drivers.ErrQuota):
		return resources.FaultQuota
	case errors.Is(err, drivers.ErrCapacity):
		return resources.FaultCapacity
	case errors.Is(err, drivers.ErrRejected):
		return resources.FaultRejected
	case errors.Is(err, ErrProviderUnreachable):
		return resources.FaultUnavailable
	default:
		return ""
	}
}
