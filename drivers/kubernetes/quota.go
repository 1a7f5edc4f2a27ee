package kubernetes

import (
	"context"
	"maps"
	"strings"

	"github.com/npctl/npctl/resources"
)

// base is what the clouds of all three drivers share.
type base struct {
	connection
	limits resources.ResourceAmounts
}

// Quota implements drivers.Cloud: the limits are those of the provider block, the use is that of the nodes with this
// provider. Quotas of Kubernetes belong to a namespace, so a new namespace shows none.
func (c *Cloud) Quota(ctx context.Context) (resources.Quota, error) { return c.quota(ctx, c.List) }

func (c *base) quota(ctx context.Context, list func(context.Context) ([]resources.Instance, error)) (resources.Quota, error) {
	q := resources.Quota{Limit: c.limits}
	q.Limit.Other = maps.Clone(c.limits.Other)
	if err := ctx.Err(); err != nil || !c.isLimited() {
		return q, err
	}
	instances, err := list(ctx)
	if err != nil {
		return resources.Quota{}, err
	}
	for _, i := range instances {
		if i.Marks.Provider == c.provider {
			q.Used = q.Used.Plus(i.Resources)
		}
	}
	return q, nil
}

func (c *base) isLimited() bool {
	const none = resources.Unlimited
	return c.limits.Instances != none || c.limits.Cores != none || c.limits.RAM != none || len(c.limits.Other) > 0
}

// Location implements drivers.Locator: the API server. A context is only a way to it.
func (c *base) Location() string {
	_, host, found := strings.Cut(c.host, "://")
	if !found {
		host = c.host
	}
	return "cluster " + host
}

func (c *Cloud) verify(ctx context.Context) error { return c.probe(ctx, c.spaces.path) }

// probe sends one request, which shows whether the credentials are accepted.
func (c client) probe(ctx context.Context, path string) error {
	return c.send(ctx, "list "+shortPath(path), c.rest.Get().AbsPath(path).Param("limit", "1"), nil)
}

// isProject reports whether the spaces are projects of OpenShift.
func (s spaces) isProject() bool { return s.path != s.orders }
