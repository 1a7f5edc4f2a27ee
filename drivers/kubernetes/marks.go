package kubernetes

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

// The format of ownership tags:
//
//   - the annotation npctl/node of namespaces, projects, pods, and of the secret with the token: a record as JSON. The
//     values of labels have at most 63 characters, which is too few;
//   - the description of an OpenShift project: "npctl:" and the same JSON, because a ProjectRequest passes it on, but
//     annotations only if the project template of the cluster does;
//   - labels by which people and lists select: npctl/installation, npctl/node-id, npctl/provider, npctl/pool and
//     npctl/label, each if its value is a valid label, and app.kubernetes.io/managed-by=npctl.
const (
	markPrefix     = "npctl/"
	markAnnotation = markPrefix + "node"
	managedBy      = "app.kubernetes.io/managed-by"
	managed        = managedBy + "=npctl" // selects the objects of npctl

	descriptionAnnotation = "openshift.io/description"
	descriptionPrefix     = "npctl:"
)

// record is the part of a node that its objects have to show, because List knows no configuration.
type record struct {
	Object  string `json:"object,omitempty"`  // the name of the namespace or pod: others have copied the annotation
	Project string `json:"project,omitempty"` // of a pod of openshiftpods, which others may have copied to another one

	resources.OwnerJSON

	Hostname  string                    `json:"hostname"`
	Type      string                    `json:"type"`
	Flavor    string                    `json:"flavor,omitempty"`
	Resources resources.ResourceAmounts `json:"resources"`
	Login     resources.Login           `json:"login"`
}

func recordOf(spec drivers.Spec, s labelSettings) record {
	connection := s.Type // namespace or project
	if s.Type == typePod {
		connection = "kubectl"
	}
	return record{
		Object: nameOf(spec), OwnerJSON: resources.OwnerJSON(spec.Marks), Hostname: spec.Hostname, Type: s.Type, Flavor: s.flavor(), Resources: s.amounts(),
		Login: resources.Login{PythonPath: s.PythonPath, ShellType: s.ShellType, ConnectionType: connection},
	}
}

func (r record) marks() resources.OwnerTags { return resources.OwnerTags(r.OwnerJSON) }

// text is the JSON of the record.
func (r record) text() string { return string(bodyOf(r)) }

// recordIn returns the record of an object, a zero one if the object is not npctl's.
func recordIn(meta metav1.ObjectMeta) (r record) {
	text := meta.Annotations[markAnnotation]
	if description, found := strings.CutPrefix(meta.Annotations[descriptionAnnotation], descriptionPrefix); found && text == "" {
		text = description
	}
	if json.Unmarshal([]byte(text), &r) != nil || r.Installation == "" || r.ID == "" || r.isCopyIn(meta) {
		return record{}
	}
	return r
}

// isCopyIn reports whether an object has the record of another one. The objects in the namespace of a node have its record.
func (r record) isCopyIn(meta metav1.ObjectMeta) bool {
	return r.Object != "" && r.Object != meta.Name && r.Object != meta.Namespace || r.Project != "" && r.Project != meta.Namespace
}

// labels returns the labels of the objects of the node, with those of the configuration and the request.
func (r record) labels(s labelSettings, properties map[string]string) map[string]string {
	labels := maps.Clone(s.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	for key, value := range properties {
		labels[key] = labelValue(value)
	}
	for name, value := range map[string]string{"installation": r.Installation, "node-id": r.ID, "provider": r.Provider, "pool": r.Pool, "label": r.Label} {
		if value != "" && len(validation.IsValidLabelValue(value)) == 0 {
			labels[markPrefix+name] = value
		}
	}
	labels[managedBy] = "npctl"
	return labels
}

// annotations returns the annotations of the objects of the node.
func (r record) annotations(more map[string]string) map[string]string {
	annotations := maps.Clone(more)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[markAnnotation] = r.text()
	return annotations
}

// labelValue replaces the characters that a label value cannot have, so that a request fails no launch.
func labelValue(text string) string {
	const end = "-_."
	value := strings.Map(func(r rune) rune {
		if r < 128 && (r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune(end, r)) {
			return r
		}
		return '-'
	}, text)
	return strings.Trim(value[:min(len(value), validation.LabelValueMaxLength)], end)
}

// nameOf returns the name of the namespace or pod of a node. The same node always has the same name, so that a repeated
// creation finds the first one; the end of the name distinguishes installations that share a cluster.
func nameOf(spec drivers.Spec) string {
	sum := sha256.Sum256([]byte(spec.Marks.Installation))
	end := "-" + hex.EncodeToString(sum[:4])
	host := strings.ToLower(strings.NewReplacer(".", "-", "_", "-").Replace(spec.Hostname))
	return strings.TrimRight(host[:min(len(host), validation.DNS1123LabelMaxLength-len(end))], "-") + end
}
