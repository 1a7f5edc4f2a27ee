package kubernetes

import (
	"context"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

// Cloud is a cluster with a namespace or a project for each node.
type Cloud struct {
	base
	spaces spaces
}

var (
	_ drivers.Cloud    = (*Cloud)(nil)
	_ drivers.Resolver = (*Cloud)(nil)
	_ drivers.Locator  = (*Cloud)(nil)
	_ drivers.Accessor = (*Cloud)(nil)
)

// spaces are the namespaces of Kubernetes or the projects of OpenShift. A project is a namespace that OpenShift shows to
// its users.
type spaces struct {
	path   string // of the list
	orders string // path to which a request for a new one is sent
	body   func(name string, r record, meta metav1.ObjectMeta) any
}

func namespaces() spaces {
	return spaces{path: coreAPI + "/namespaces", orders: coreAPI + "/namespaces", body: func(_ string, _ record, meta metav1.ObjectMeta) any {
		return spaceBody{TypeMeta: metav1.TypeMeta{Kind: "Namespace", APIVersion: "v1"}, Metadata: meta}
	}}
}

func projects() spaces {
	return spaces{path: projectAPI + "/projects", orders: projectAPI + "/projectrequests", body: func(_ string, r record, meta metav1.ObjectMeta) any {
		return spaceBody{
			TypeMeta: metav1.TypeMeta{Kind: "ProjectRequest", APIVersion: "project.openshift.io/v1"}, Metadata: meta,
			Description: descriptionPrefix + r.text(),
		}
	}}
}

// spaceBody is a namespace or a project to create.
type spaceBody struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metav1.ObjectMeta `json:"metadata"`
	Description     string            `json:"description,omitempty"` // of a ProjectRequest
}

// spaceObject is the part of a namespace or project that npctl reads.
type spaceObject struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Status   struct {
		Phase string `json:"phase"`
	} `json:"status"`
}

func (s spaces) at(name string) string { return s.path + "/" + name }

// Create implements drivers.Cloud: it creates the namespace, and Advance its content. The name of the namespace follows
// from the node, so that a second Create finds that of the first one.
func (c *Cloud) Create(ctx context.Context, spec drivers.Spec) (resources.Instance, error) {
	s, err := checkedOffer(spec.Config)
	if err != nil {
		return resources.Instance{}, err
	}
	r, name := recordOf(spec, s), nameOf(spec)
	annotations := r.annotations(nil)
	if s.Type != typePod {
		annotations = r.annotations(s.Annotations)
	}
	meta := metav1.ObjectMeta{Name: name, Labels: r.labels(s, spec.Properties), Annotations: annotations}
	var made spaceObject
	err = c.create(ctx, c.spaces.orders, name, c.spaces.body(name, r, meta), &made)
	if isStatus(err, http.StatusConflict) {
		return c.existing(ctx, name, spec.Marks, err)
	}
	if err != nil {
		return resources.Instance{}, err
	}
	return c.instance(made, contents{}), nil
}

// existing returns the namespace that an earlier Create made.
func (c *Cloud) existing(ctx context.Context, name string, marks resources.OwnerTags, conflict error) (resources.Instance, error) {
	var there spaceObject
	if err := c.get(ctx, c.spaces.at(name), &there); err != nil {
		return resources.Instance{}, err
	}
	if !recordIn(there.Metadata).marks().SameRecord(marks) {
		return resources.Instance{}, drivers.Rejectf("%w, and it is not the one of node %s", conflict, marks.ID)
	}
	return c.instance(there, contents{}), nil
}
