package kubernetes

import (
	"cmp"
	"context"
	"fmt"
	"net/http"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

// PodCloud is one project or namespace with a pod for each node.
type PodCloud struct {
	base
	project string
}

var (
	_ drivers.Cloud    = (*PodCloud)(nil)
	_ drivers.Resolver = (*PodCloud)(nil)
	_ drivers.Locator  = (*PodCloud)(nil)
	_ drivers.Accessor = (*PodCloud)(nil)
)

func newPodCloud(shared base, project string) (*PodCloud, error) {
	if shared.token == "" {
		return nil, fmt.Errorf("%w: context %s has no token, which openshiftpods passes to jobs; use the token of a service account", drivers.ErrRejected, shared.context)
	}
	return &PodCloud{shared, cmp.Or(project, shared.namespace)}, nil
}

func (c *PodCloud) path() string { return inNamespace(coreAPI, c.project, "pods") }

func (c *PodCloud) verify(ctx context.Context) error { return c.probe(ctx, c.path()) }

// Location implements drivers.Locator.
func (c *PodCloud) Location() string { return "project " + c.project + " of " + c.base.Location() }

// Create implements drivers.Cloud.
func (c *PodCloud) Create(ctx context.Context, spec drivers.Spec) (resources.Instance, error) {
	s, err := checkedOffer(spec.Config)
	if err != nil {
		return resources.Instance{}, err
	}
	r, name := recordOf(spec, s), nameOf(spec)
	r.Project = c.project
	var pod podObject
	err = c.create(ctx, c.path(), name, newPod(name, r, s, spec.Properties), &pod)
	if conflict := err; isStatus(err, http.StatusConflict) {
		if err = c.get(ctx, c.path()+"/"+name, &pod); err == nil && !recordIn(pod.Metadata).marks().SameRecord(spec.Marks) {
			err = drivers.Rejectf("%w, and it is not the one of node %s", conflict, spec.Marks.ID)
		}
	}
	if err != nil {
		return resources.Instance{}, err
	}
	return c.instance(pod), nil
}

// Advance implements drivers.Cloud. A pod starts without further calls.
func (c *PodCloud) Advance(ctx context.Context, _ drivers.Spec, seen resources.Instance) (resources.Instance, error) {
	return seen, ctx.Err()
}

// Delete implements drivers.Cloud.
func (c *PodCloud) Delete(ctx context.Context, id string, expected resources.OwnerTags) error {
	return c.deleteOwned(ctx, c.path()+"/"+id, expected)
}

// List implements drivers.Cloud: one list of all pods of the project.
func (c *PodCloud) List(ctx context.Context) ([]resources.Instance, error) {
	pods, err := list[podObject](ctx, c.client, c.path(), "")
	if err != nil {
		return nil, err
	}
	instances := make([]resources.Instance, 0, len(pods))
	for _, p := range pods {
		instances = append(instances, c.instance(p))
	}
	return instances, nil
}

func (c *PodCloud) instance(p podObject) resources.Instance {
	r := recordIn(p.Metadata)
	if r.Installation == "" {
		return c.foreign(p.Metadata)
	}
	i := c.own(p.Metadata, r)
	i.setPod(p)
	return i.Instance
}

// Quota implements drivers.Cloud.
func (c *PodCloud) Quota(ctx context.Context) (resources.Quota, error) { return c.quota(ctx, c.List) }

// Access implements drivers.Accessor: as in Nodepool, the token is that of the provider's context.
func (c *PodCloud) Access(ctx context.Context, id string) (string, error) {
	var pod podObject
	if err := c.get(ctx, c.path()+"/"+id, &pod); err != nil {
		return "", err
	}
	if recordIn(pod.Metadata).Installation == "" {
		return "", fmt.Errorf("access to pod %s: %w", id, drivers.ErrNotOurs)
	}
	access := c.credentials(c.project, c.token)
	access.Pod = id
	return string(bodyOf(access)), nil
}
