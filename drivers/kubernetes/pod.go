package kubernetes

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

// podObject is the part of a pod that npctl reads.
type podObject struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
	Status struct {
		Phase             corev1.PodPhase          `json:"phase"`
		Message           string                   `json:"message"`
		PodIP             string                   `json:"podIP"`
		Conditions        []corev1.PodCondition    `json:"conditions"`
		ContainerStatuses []corev1.ContainerStatus `json:"containerStatuses"`
	} `json:"status"`
}

// podBody is a pod to create. Unlike that of corev1, its specification may be JSON of the configuration.
type podBody struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metav1.ObjectMeta `json:"metadata"`
	Spec            json.RawMessage   `json:"spec"`
}

// containerName is the name of the container, as jobs may have to name it.
const containerName = "node"

// newPod returns the pod of a node.
func newPod(name string, r record, s labelSettings, properties map[string]string) podBody {
	body := podBody{
		TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		Metadata: metav1.ObjectMeta{Name: name, Labels: r.labels(s, properties), Annotations: r.annotations(s.Annotations)},
		Spec:     json.RawMessage(s.Spec),
	}
	if s.Spec == "" {
		body.Spec = bodyOf(s.podSpec())
	}
	return body
}

// podSpec returns the specification of a pod with one container, which waits until the pod is deleted.
func (s labelSettings) podSpec() corev1.PodSpec {
	grace := int64(1) // the shell ignores SIGTERM
	container := corev1.Container{
		Name: containerName, Image: s.Image, ImagePullPolicy: corev1.PullPolicy(s.ImagePull),
		Command: []string{"/bin/sh", "-c"}, Args: []string{"while true; do sleep 30; done;"},
		Resources: corev1.ResourceRequirements{Requests: s.requests(), Limits: s.resourceLimits()},
	}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		container.Env = append(container.Env, corev1.EnvVar{Name: name, Value: s.Env[name]})
	}
	if s.Privileged != nil {
		container.SecurityContext = &corev1.SecurityContext{Privileged: s.Privileged}
	}
	spec := corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: &grace,
		NodeSelector: s.NodeSelector, SchedulerName: s.SchedulerName,
	}
	_ = decodeStrictly(cmp.Or(s.VolumeMounts, "[]"), &container.VolumeMounts) // problems has checked both
	_ = decodeStrictly(cmp.Or(s.Volumes, "[]"), &spec.Volumes)
	for _, name := range s.ImagePullSecrets {
		spec.ImagePullSecrets = append(spec.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
	}
	spec.Containers = []corev1.Container{container}
	return spec
}

func (s labelSettings) requests() corev1.ResourceList {
	return s.resourceList(s.CPU, s.Memory, s.Storage)
}

// resourceLimits returns the limits, which are the requests unless the configuration sets them.
func (s labelSettings) resourceLimits() corev1.ResourceList {
	return s.resourceList(cmp.Or(s.CPULimit, s.CPU), cmp.Or(s.MemoryLimit, s.Memory), cmp.Or(s.StorageLimit, s.Storage))
}

func (s labelSettings) resourceList(cpu float64, memory, storage int64) corev1.ResourceList {
	list := corev1.ResourceList{}
	add := func(name corev1.ResourceName, n float64, text string) {
		if n > 0 && name != "" {
			list[name] = resource.MustParse(text)
		}
	}
	add(corev1.ResourceCPU, cpu, fmt.Sprintf("%dm", int64(math.Ceil(cpu*1000))))
	add(corev1.ResourceMemory, float64(memory), fmt.Sprintf("%dMi", memory))
	add(corev1.ResourceEphemeralStorage, float64(storage), fmt.Sprintf("%dM", storage))
	add(corev1.ResourceName(s.GPUResource), float64(s.GPU), strconv.FormatInt(s.GPU, 10))
	return list
}

// status returns the status of a pod, with the fault of a failed one.
func (p podObject) status() (status resources.Status, fault string) {
	if p.Metadata.DeletionTimestamp != nil {
		return resources.StatusDeleting, ""
	}
	switch p.Status.Phase {
	case corev1.PodRunning:
		return resources.StatusReady, ""
	case corev1.PodFailed, corev1.PodSucceeded:
		return resources.StatusFailed, p.fault()
	}
	for _, c := range p.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil && slices.Contains(hopeless(), w.Reason) {
			return resources.StatusFailed, fmt.Sprintf("container %s: %s: %s", c.Name, w.Reason, w.Message)
		}
	}
	return resources.StatusPending, ""
}

// unschedulable returns why the scheduler finds no node of the cluster for a pod now, or "".
func (p podObject) unschedulable() string {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return c.Reason + ": " + c.Message
		}
	}
	return ""
}

// hopeless are the reasons of a waiting container that do not pass within a launch. An image that could not be pulled is
// tried again after ImagePullBackOff; the next attempt of npctl does the same.
func hopeless() []string {
	return []string{"InvalidImageName", "ErrImageNeverPull", "ImagePullBackOff", "CreateContainerConfigError", "CreateContainerError", "CrashLoopBackOff"}
}

func (p podObject) fault() string {
	for _, c := range p.Status.ContainerStatuses {
		if t := c.State.Terminated; t != nil {
			return fmt.Sprintf("container %s ended with exit code %d: %s %s", c.Name, t.ExitCode, t.Reason, t.Message)
		}
	}
	return fmt.Sprintf("pod is %s: %s", p.Status.Phase, p.Status.Message)
}

// checkedOffer reads the configuration of an offer, and rejects one of which no pod can be made.
func checkedOffer(config cty.Value) (labelSettings, error) {
	s, err := settingsOf(config)
	if problems := s.problems(); err == nil && len(problems) > 0 {
		err = drivers.Rejectf("%s: %s", problems[0].Attribute, problems[0].Detail)
	}
	return s, err
}
