package reconcile

import (
	"context"
	"fmt"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

// Access requests the credentials of a node from its cloud. No record contains them. The error is ErrNotSupported if jobs
// connect to the nodes of the driver without credentials of the cloud.
func (r *Runner) Access(ctx context.Context, node *resources.Node) (string, error) {
	cloud, release, err := r.using().cloud(ctx, node.Provider, r.providerRecord(node.Provider))
	defer release()
	if err != nil {
		return "", fmt.Errorf("provider %s: %w", node.Provider, err)
	}
	credentials, err := access(ctx, cloud, node.ExternalID)
	switch {
	case err != nil:
		return "", fmt.Errorf("credentials of node %s: %w", node.ID, err)
	case credentials == "":
		return "", fmt.Errorf("provider %s: credentials of nodes: %w", node.Provider, drivers.ErrNotSupported)
	}
	return credentials, nil
}
