package kubernetes

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	strictjson "sigs.k8s.io/json"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/internal/requestvalues"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
)

// The types of nodes.
const (
	typeNamespace = "namespace"
	typeProject   = "project"
	typePod       = "pod"
)

// providerSettings locate the cluster.
type providerSettings struct {
	Context      string           `config:"context" doc:"Name of a context of the kubeconfig. The default is its current context, or the cluster in which npctl runs if there is no kubeconfig."`
	Project      string           `config:"project" doc:"Project (namespace) of the pods. The default is the namespace of the context."`
	MaxServers   *int64           `config:"max_servers" min:"0" doc:"Maximum number of nodes of all pools. The default is no limit."`
	MaxCores     *int64           `config:"max_cores" min:"0" doc:"Maximum number of CPU cores of all pools. The default is no limit."`
	MaxRAM       *int64           `config:"max_ram" min:"0" doc:"Maximum memory of all pools in MiB. The default is no limit."`
	MaxResources map[string]int64 `config:"max_resources" min:"0" doc:"Maximum amounts of other resources of all pools, such as 'nvidia.com/gpu'. The default is no limit."`
}

// limits returns the maxima as a quota.
func (s providerSettings) limits() resources.ResourceAmounts {
	limits := cloudkit.Limits(s.MaxServers, s.MaxCores, s.MaxRAM)
	limits.Other = s.MaxResources
	return limits
}

// labelSettings are the attributes of an offer.
type labelSettings struct {
	Type  string `config:"type,required,replacing" oneof:"namespace pod" doc:"'namespace': jobs control a namespace of their own. 'pod': jobs run in a pod, in a namespace of its own."`
	Image string `config:"image,replacing" doc:"Container image of the pod, such as 'quay.io/zuul-ci/python:3.12'. Pods need 'image' or 'spec'."`
	Spec  string `config:"spec,replacing,hashed" doc:"Whole specification of the pod as JSON, such as 'jsonencode({ containers = […] })', instead of 'image' and the attributes of its container. 'cpu', 'memory', 'storage', 'gpu' and 'extra_resources' then only count against limits."`

	podSettings `config:",inline"`
}

// podSettings are the attributes of an offer that a pool may have too.
type podSettings struct {
	ImagePull        string                    `config:"image_pull,replacing" oneof:"Always IfNotPresent Never" default:"IfNotPresent" doc:"When the image is pulled."`
	ImagePullSecrets []string                  `config:"image_pull_secrets,replacing" doc:"Secrets with the credentials of the registry, which must exist in the namespace of the pod."`
	CPU              float64                   `config:"cpu,replacing" min:"0" doc:"Requested CPU cores. npctl counts fractions as whole cores."`
	Memory           int64                     `config:"memory,replacing" min:"0" doc:"Requested memory in MiB."`
	Storage          int64                     `config:"storage,replacing" min:"0" doc:"Requested ephemeral storage in MB. Limits call it 'ephemeral-storage'."`
	CPULimit         float64                   `config:"cpu_limit,replacing" min:"0" doc:"Limit of CPU cores; the default is 'cpu'."`
	MemoryLimit      int64                     `config:"memory_limit,replacing" min:"0" doc:"Limit of memory in MiB; the default is 'memory'."`
	StorageLimit     int64                     `config:"storage_limit,replacing" min:"0" doc:"Limit of ephemeral storage in MB; the default is 'storage'."`
	GPU              int64                     `config:"gpu,replacing" min:"0" doc:"Number of GPUs."`
	GPUResource      string                    `config:"gpu_resource,replacing" doc:"Resource of the GPUs, such as 'nvidia.com/gpu'."`
	ExtraResources   map[string]int64          `config:"extra_resources,replacing" min:"0" doc:"Further amounts that count against 'max_resources'. They do not change the pod."`
	Env              map[string]string         `config:"env,replacing" doc:"Environment variables of the container."`
	NodeSelector     map[string]string         `config:"node_selector,replacing" doc:"Labels of the Kubernetes nodes that may run the pod."`
	SchedulerName    string                    `config:"scheduler_name,replacing" doc:"Scheduler of the pod; the default is that of the cluster."`
	Privileged       *bool                     `config:"privileged,replacing" doc:"Whether the container is privileged; the default is that of the cluster."`
	Volumes          string                    `config:"volumes,replacing" doc:"Volumes of the pod as a JSON list, such as 'jsonencode([{ name = \"cache\", emptyDir = {} }])'."`
	VolumeMounts     string                    `config:"volume_mounts,replacing" doc:"Mounts of the container as a JSON list, such as 'jsonencode([{ name = \"cache\", mountPath = \"/cache\" }])'."`
	Labels           map[string]string         `config:"labels,replacing" doc:"Kubernetes labels of the namespace and the pod."`
	Annotations      map[string]string         `config:"annotations,replacing" doc:"Annotations of the pod, or of the namespace if the node has no pod."`
	Request          drivers.RequestProperties `config:",inline"`
	PythonPath       string                    `config:"python_path,new" doc:"Path of Python for Ansible; the default is 'auto'."`
	ShellType        string                    `config:"shell_type,new" doc:"Shell type for Ansible."`
}

// amounts returns the resources that one node uses.
func (s labelSettings) amounts() resources.ResourceAmounts {
	other := maps.Clone(s.ExtraResources)
	add := func(name string, n int64) {
		if n == 0 || name == "" {
			return
		}
		if other == nil {
			other = map[string]int64{}
		}
		other[name] = n
	}
	add(string(corev1.ResourceEphemeralStorage), s.Storage)
	add(s.GPUResource, s.GPU)
	return resources.ResourceAmounts{Instances: 1, Cores: int64(math.Ceil(s.CPU)), RAM: s.Memory, Other: other}
}

// settingsOf reads the configuration of an offer.
func settingsOf(config cty.Value) (labelSettings, error) {
	var s labelSettings
	err := cloudkit.Decode(config, &s)
	s.Type = cmp.Or(s.Type, typePod)
	return s, err
}

// poolChecks are the checks of the attributes of pools and labels.
func poolChecks() map[string]schema.Check {
	return map[string]schema.Check{
		"volumes":            func(v cty.Value) error { return decodeStrictly(v.AsString(), &[]corev1.Volume{}) },
		"volume_mounts":      func(v cty.Value) error { return decodeStrictly(v.AsString(), &[]corev1.VolumeMount{}) },
		"labels":             func(v cty.Value) error { return checkMap(v, checkLabel) },
		"node_selector":      func(v cty.Value) error { return checkMap(v, checkLabel) },
		"annotations":        func(v cty.Value) error { return checkMap(v, checkKey) },
		"request_properties": requestvalues.CheckMap(func(v cty.Value) error { return checkMap(v, checkKey) }),
		"env":                func(v cty.Value) error { return checkMap(v, checkVariable) },
	}
}

// decodeStrictly decodes JSON. Fields that the Kubernetes API does not have are errors.
func decodeStrictly(text string, into any) error {
	strict, err := strictjson.UnmarshalStrict([]byte(text), into)
	if err = errors.Join(append(strict, err)...); err != nil {
		return fmt.Errorf("%s; use jsonencode with the fields of the Kubernetes API", strings.ReplaceAll(err.Error(), "\n", ", "))
	}
	return nil
}

// checkMap checks the entries of a map in the order of their names.
func checkMap(v cty.Value, check func(key, value string) error) error {
	values := v.AsValueMap()
	for _, key := range slices.Sorted(maps.Keys(values)) {
		text := ""
		if value := values[key]; !value.IsNull() && value.IsKnown() {
			text = value.AsString()
		}
		if err := check(key, text); err != nil {
			return err
		}
	}
	return nil
}

func checkKey(key, _ string) error {
	if strings.HasPrefix(key, markPrefix) || key == managedBy {
		return fmt.Errorf("%q: npctl sets it itself; choose another name", key)
	}
	if problems := validation.IsQualifiedName(key); len(problems) > 0 {
		return fmt.Errorf("%q: %s", key, strings.Join(problems, ", "))
	}
	return nil
}

func checkLabel(key, value string) error {
	if err := checkKey(key, value); err != nil {
		return err
	}
	if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
		return fmt.Errorf("value %q of %q: %s", value, key, strings.Join(problems, ", "))
	}
	return nil
}

func checkVariable(key, _ string) error {
	if problems := validation.IsEnvVarName(key); len(problems) > 0 {
		return fmt.Errorf("%q: %s", key, strings.Join(problems, ", "))
	}
	return nil
}

// bodyOf returns the JSON of an object of the Kubernetes API.
func bodyOf(object any) []byte {
	body, err := json.Marshal(object)
	if err != nil {
		panic(err) // all bodies are types of the Kubernetes API
	}
	return body
}
