// Package kubernetes manages nodes in Kubernetes and OpenShift: a namespace, a pod in a namespace of its own, an OpenShift
// project, or a pod in an existing project.
//
// It has three drivers, which share the client, the ownership tags (marks.go), the pods (pod.go) and the credentials for
// jobs (access.go). The package translates and holds no policy: rate limits, retries and timeouts of calls are decorators
// of package drivers, so those of client-go are switched off. Objects are decoded into small types of this package.
package kubernetes

import (
	"context"
	"fmt"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources/schema"
)

// Driver opens clusters in one of the three ways.
type Driver struct{ kind string }

var (
	_ drivers.Driver          = (*Driver)(nil)
	_ drivers.CatalogueReader = (*Driver)(nil)
)

// The kinds of the drivers.
const (
	kindKubernetes    = "kubernetes"
	kindOpenShift     = "openshift"
	kindOpenShiftPods = "openshiftpods"
)

// New returns the driver with a namespace for each node.
func New() *Driver { return &Driver{kindKubernetes} }

// NewOpenShift returns the driver with an OpenShift project for each node.
func NewOpenShift() *Driver { return &Driver{kindOpenShift} }

// NewOpenShiftPods returns the driver with a pod for each node, in an existing OpenShift project.
func NewOpenShiftPods() *Driver { return &Driver{kindOpenShiftPods} }

// Kind implements drivers.Driver.
func (d *Driver) Kind() string { return d.kind }

// Open implements drivers.Driver: it reads the kubeconfig like kubectl and sends one request to verify the credentials.
func (d *Driver) Open(ctx context.Context, env drivers.Env, config cty.Value) (drivers.Cloud, error) {
	var settings providerSettings
	if err := cloudkit.Decode(config, &settings); err != nil {
		return nil, err
	}
	conn, err := connect(env, settings)
	if err != nil {
		return nil, err
	}
	var cloud interface {
		drivers.Cloud
		verify(ctx context.Context) error
	}
	switch shared := (base{connection: conn, limits: settings.limits()}); d.kind {
	case kindOpenShiftPods:
		cloud, err = newPodCloud(shared, settings.Project)
	case kindOpenShift:
		cloud = &Cloud{shared, projects()}
	default:
		cloud = &Cloud{shared, namespaces()}
	}
	if err != nil {
		return nil, err
	}
	if err := cloud.verify(ctx); err != nil {
		return nil, fmt.Errorf("context %s: %w", conn.context, err)
	}
	return cloud, nil
}

// Schema implements drivers.Driver.
func (d *Driver) Schema() schema.Driver {
	pool := schema.Of[podSettings]("", poolChecks())
	s := schema.Driver{
		Doc:       d.doc(),
		Provider:  schema.Of[providerSettings]("", nil),
		Pool:      pool,
		Label:     schema.ForLabels[labelSettings](pool, nil),
		HasLabels: true,
		Nodepool:  d.nodepoolKeys(),
	}
	switch d.kind {
	case kindOpenShift:
		s.Label.Find("type").OneOf = []string{typeProject, typePod}
		s.Label.Find("type").Doc = "`project`: jobs control a project of their own. `pod`: jobs run in a pod, in a project of its own."
	case kindOpenShiftPods:
		s.Label.Attributes = without(s.Label.Attributes, "type")
	}
	if d.kind != kindOpenShiftPods {
		s.Provider.Attributes = without(s.Provider.Attributes, "project")
	}
	return s
}

func without(attributes []schema.Attribute, name string) (rest []schema.Attribute) {
	for _, a := range attributes {
		if a.Name != name {
			rest = append(rest, a)
		}
	}
	return rest
}

func (d *Driver) doc() string {
	const credentials = " Credentials come from the kubeconfig as for kubectl (`KUBECONFIG`, `~/.kube/config`), or from the cluster in which npctl runs."
	switch d.kind {
	case kindOpenShift:
		return "Nodes are OpenShift projects, or pods with a project for each." + credentials
	case kindOpenShiftPods:
		return "Nodes are pods in one existing OpenShift project or Kubernetes namespace. Jobs receive the token of the provider's context." + credentials
	default:
		return "Nodes are Kubernetes namespaces, or pods with a namespace for each." + credentials
	}
}
