package drivers

import (
	"context"

	"github.com/npctl/npctl/resources"
)

// Checker is a Cloud of machines that exist without npctl and may be unreachable.
type Checker interface {
	// Check connects to the node and returns its host keys, "type base64" each; none for nodes that do not use SSH.
	// An error means that the node must not be used now: it does not respond, or it lacks a host key from the
	// configuration, which is an ErrRejected.
	Check(ctx context.Context, node resources.StaticNode) ([]string, error)
}
