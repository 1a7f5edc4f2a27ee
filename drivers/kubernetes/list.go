package kubernetes

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/npctl/npctl/resources"
)

// contents are the objects by which List detects that a namespace is ready.
type contents struct {
	pod   *podObject
	bound bool
}

// List implements drivers.Cloud: one list of namespaces, one of pods and one of role bindings.
func (c *Cloud) List(ctx context.Context) ([]resources.Instance, error) {
	spaces, err := list[spaceObject](ctx, c.client, c.spaces.path, "")
	if err != nil {
		return nil, err
	}
	pods, err := list[podObject](ctx, c.client, coreAPI+"/pods", managed)
	if err != nil {
		return nil, err
	}
	bindings, err := list[struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
	}](ctx, c.client, roleAPI+"/rolebindings", managed)
	if err != nil {
		return nil, err
	}
	inside := map[string]contents{}
	for _, b := range bindings {
		inside[b.Metadata.Namespace] = contents{bound: true}
	}
	for i := range pods {
		if at := pods[i].Metadata.Namespace; pods[i].Metadata.Name == at {
			inside[at] = contents{pod: &pods[i], bound: inside[at].bound}
		}
	}
	instances := make([]resources.Instance, 0, len(spaces))
	for _, s := range spaces {
		instances = append(instances, c.instance(s, inside[s.Metadata.Name]))
	}
	return instances, nil
}

// instance returns the node of a namespace.
func (c *Cloud) instance(s spaceObject, inside contents) resources.Instance {
	r := recordIn(s.Metadata)
	if r.Installation == "" {
		return c.foreign(s.Metadata)
	}
	i := c.own(s.Metadata, r)
	switch {
	case s.Metadata.DeletionTimestamp != nil || s.Status.Phase == "Terminating":
		i.Status = resources.StatusDeleting
	case r.Type == typePod && inside.pod != nil:
		i.setPod(*inside.pod)
		if i.Status == resources.StatusReady && !inside.bound { // jobs may not use the pod
			i.Status = resources.StatusPending
		}
	case r.Type != typePod && inside.bound:
		i.setBound()
	}
	return i.Instance
}

// node is an Instance with the functions that fill it.
type node struct{ resources.Instance }

// own returns the pending instance of an object of npctl.
func (c *base) own(meta metav1.ObjectMeta, r record) node {
	return node{resources.Instance{
		ID: meta.Name, Name: r.Hostname, Marks: r.marks(), Status: resources.StatusPending, Flavor: r.Flavor, Resources: r.Resources,
		Cloud: c.context, Created: meta.CreationTimestamp.UTC(), Login: r.Login,
	}}
}

// foreign returns the instance of an object that npctl did not create.
func (c *base) foreign(meta metav1.ObjectMeta) resources.Instance {
	status := resources.StatusReady
	if meta.DeletionTimestamp != nil {
		status = resources.StatusDeleting
	}
	return resources.Instance{ID: meta.Name, Name: meta.Name, Status: status, Cloud: c.context, Created: meta.CreationTimestamp.UTC()}
}

// setBound sets the attributes of a namespace with its role binding. An instance has an address when Advance has nothing
// left to do.
func (n *node) setBound() { n.Status, n.Addresses.Interface = resources.StatusReady, n.ID }

// setPod sets the attributes that follow from the pod.
func (n *node) setPod(p podObject) {
	n.Addresses.Interface = n.ID
	n.Status, n.Fault = p.status()
	if reason := p.unschedulable(); n.Status == resources.StatusPending && reason != "" {
		n.Fault, n.FaultKind = reason, resources.FaultCapacity
	}
	n.HostID = p.Spec.NodeName
}
