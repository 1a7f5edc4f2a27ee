package kubernetes

import (
	"context"
	"errors"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

// worker is the name of the service account of jobs, and of the secret with its token, as Nodepool names them.
const worker = "zuul-worker"

// roleName is the name of the role of jobs in a pod; bindingName is that of its binding.
const (
	roleName    = "zuul-restricted"
	bindingName = "zuul-role"
)

// Advance implements drivers.Cloud. The first step makes the service account, the permissions of jobs in a pod, and last the
// secret of the token. When the cluster has issued the token, the next step makes the pod or, in a node without pod, the
// role binding, which List detects. Objects that exist are kept, so that every step may be repeated.
func (c *Cloud) Advance(ctx context.Context, spec drivers.Spec, seen resources.Instance) (resources.Instance, error) {
	if seen.Status != resources.StatusPending || seen.Addresses.Interface != "" {
		return seen, nil
	}
	s, err := settingsOf(spec.Config)
	if err != nil {
		return seen, err
	}
	r, permissions := recordOf(spec, s), c.permissions(seen.ID, s.Type)
	before, last := c.account(seen.ID), permissions
	if s.Type == typePod {
		before = append(before, permissions...)
		last = []newObject{{inNamespace(coreAPI, seen.ID, "pods"), seen.ID, newPod(seen.ID, r, s, spec.Properties)}}
	}
	issued, err := c.secret(ctx, seen.ID)
	switch {
	case isStatus(err, http.StatusNotFound):
		return seen, c.makeAll(ctx, append(before, tokenSecret(seen.ID, r))...)
	case err != nil:
		return seen, err
	case len(issued.Data[corev1.ServiceAccountTokenKey]) == 0:
		return seen, nil
	}
	if err := c.makeAll(ctx, last...); err != nil || s.Type == typePod {
		return seen, pending(err)
	}
	now := node{seen}
	now.setBound()
	return now.Instance, nil
}

// pending returns an error unless the cluster has not yet made the default objects of a new namespace.
func pending(err error) error {
	if isStatus(err, http.StatusForbidden) && !errors.Is(err, drivers.ErrRejected) && !errors.Is(err, drivers.ErrQuota) {
		return nil
	}
	return err
}

// newObject is an object to create.
type newObject struct {
	path, name string
	body       any
}

// makeAll creates objects in this order, and keeps existing ones.
func (c *base) makeAll(ctx context.Context, objects ...newObject) error {
	for _, o := range objects {
		if err := c.create(ctx, o.path, o.name, o.body, nil); err != nil && !isStatus(err, http.StatusConflict) {
			return err
		}
	}
	return nil
}

// account returns the service account of jobs.
func (c *Cloud) account(namespace string) []newObject {
	return []newObject{{inNamespace(coreAPI, namespace, "serviceaccounts"), worker, corev1.ServiceAccount{
		TypeMeta: metav1.TypeMeta{Kind: "ServiceAccount", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Name: worker},
	}}}
}

// tokenSecret returns the secret in which the cluster issues the token of the service account. The token does not expire:
// a node may wait for its job for days. It ends with the namespace.
func tokenSecret(namespace string, r record) newObject {
	return newObject{inNamespace(coreAPI, namespace, "secrets"), worker, corev1.Secret{
		TypeMeta: metav1.TypeMeta{Kind: "Secret", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Name: worker, Annotations: map[string]string{
			corev1.ServiceAccountNameKey: worker, markAnnotation: r.text(),
		}},
		Type: corev1.SecretTypeServiceAccountToken,
	}}
}

// permissions returns the role binding of the service account, and a role if the cluster has none that fits. In a pod,
// jobs may execute commands, read logs and forward ports. Namespaces and projects belong to the job.
func (c *Cloud) permissions(namespace, nodeType string) []newObject {
	role := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"}
	var objects []newObject
	if nodeType == typePod && !c.spaces.isProject() {
		role.Kind, role.Name = "Role", roleName
		read, use := []string{"get", "list"}, []string{"get", "create"}
		objects = append(objects, newObject{inNamespace(roleAPI, namespace, "roles"), roleName, rbacv1.Role{
			TypeMeta: metav1.TypeMeta{Kind: "Role", APIVersion: rbacv1.SchemeGroupVersion.String()}, ObjectMeta: metav1.ObjectMeta{Name: roleName},
			Rules: []rbacv1.PolicyRule{
				{APIGroups: []string{""}, Resources: []string{"pods", "pods/log"}, Verbs: read},
				{APIGroups: []string{""}, Resources: []string{"pods/exec", "pods/portforward"}, Verbs: use},
			},
		}})
	}
	return append(objects, newObject{inNamespace(roleAPI, namespace, "rolebindings"), bindingName, rbacv1.RoleBinding{
		TypeMeta:   metav1.TypeMeta{Kind: "RoleBinding", APIVersion: rbacv1.SchemeGroupVersion.String()},
		ObjectMeta: metav1.ObjectMeta{Name: bindingName, Labels: map[string]string{managedBy: "npctl"}},
		RoleRef:    role,
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: worker, Namespace: namespace}},
	}})
}
