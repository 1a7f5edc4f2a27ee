package drivers

import (
	"context"

	"github.com/npctl/npctl/resources"
)

// Checker is a Cloud whose nodes exist anyway and may be out of reach.
type Checker interface {
	// Check connects to the node and returns the host keys it showed, "type base64" each; none for nodes that are
	// not reached by SSH. An error says that it is not to be used now: nothing answers, or one of the keys that the
	// configuration names is missing (that is an ErrRejected).
	Check(ctx context.Context, node resources.StaticNode) ([]string, error)
}
