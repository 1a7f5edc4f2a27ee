package kubernetes

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"
	corev1 "k8s.io/api/core/v1"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/resources"
)

// ResolveOffer implements drivers.Resolver. It sends no request: an offer contains all that determines its pods.
func (*base) ResolveOffer(_ context.Context, config cty.Value) (resources.ResolvedOffer, []resources.Problem, error) {
	s, err := settingsOf(config)
	if err != nil {
		return resources.ResolvedOffer{}, nil, err
	}
	return resources.ResolvedOffer{Flavor: s.flavor(), Resources: s.amounts(), FlavorNames: []string{s.flavor()}}, s.problems(), nil
}

// ResolverOf implements drivers.CatalogueReader. It needs no names.
func (*Driver) ResolverOf(cty.Value, resources.Catalogue) (drivers.Resolver, error) {
	return &base{}, nil
}

// ResolveImage implements drivers.Resolver. There are no image blocks.
func (*base) ResolveImage(ctx context.Context, spec resources.CloudImageSpec) (resources.RemoteImage, []resources.Problem, error) {
	return resources.RemoteImage{}, []resources.Problem{{Attribute: "image", Value: spec.Image, Detail: "clusters store no images"}}, ctx.Err()
}

// flavor describes the node by its type and size, such as "pod 2 CPU 4096 MiB". Prices refer to it.
func (s labelSettings) flavor() string {
	flavor := s.Type
	if s.CPU > 0 {
		flavor += fmt.Sprintf(" %g CPU", s.CPU)
	}
	if s.Memory > 0 {
		flavor += fmt.Sprintf(" %d MiB", s.Memory)
	}
	if s.GPU > 0 {
		flavor += fmt.Sprintf(" %d %s", s.GPU, s.GPUResource)
	}
	return flavor
}

// problems returns the contradictions between attributes.
func (s labelSettings) problems() (problems []resources.Problem) {
	add := func(attribute, value, detail string) {
		problems = append(problems, resources.Problem{Attribute: attribute, Value: value, Detail: detail})
	}
	if s.Type != typePod {
		return nil
	}
	switch {
	case s.Spec == "" && s.Image == "":
		add("image", "", "a pod needs image or spec")
	case s.Spec != "" && s.Image != "":
		add("image", s.Image, "spec contains the images of its containers; remove one of the two")
	}
	if s.CPULimit > 0 && s.CPULimit < s.CPU {
		add("cpu_limit", fmt.Sprint(s.CPULimit), fmt.Sprintf("the limit is below cpu, which is %g", s.CPU))
	}
	if s.MemoryLimit > 0 && s.MemoryLimit < s.Memory {
		add("memory_limit", fmt.Sprint(s.MemoryLimit), fmt.Sprintf("the limit is below memory, which is %d", s.Memory))
	}
	if s.StorageLimit > 0 && s.StorageLimit < s.Storage {
		add("storage_limit", fmt.Sprint(s.StorageLimit), fmt.Sprintf("the limit is below storage, which is %d", s.Storage))
	}
	if s.GPU > 0 && s.GPUResource == "" {
		add("gpu_resource", "", "gpu needs the resource of the GPUs, such as nvidia.com/gpu")
	}
	return append(problems, s.documentProblems()...)
}

// documentProblems checks the attributes that contain JSON.
func (s labelSettings) documentProblems() (problems []resources.Problem) {
	add := func(attribute, value string, err error, near ...string) {
		if err != nil {
			problems = append(problems, resources.Problem{Attribute: attribute, Value: value, Detail: err.Error(), Suggestions: near})
		}
	}
	if s.Spec != "" {
		var spec corev1.PodSpec
		err := decodeStrictly(s.Spec, &spec)
		if err == nil && len(spec.Containers) == 0 {
			err = fmt.Errorf("the specification has no containers")
		}
		add("spec", "", err)
		return problems
	}
	var volumes []corev1.Volume
	if s.Volumes != "" {
		add("volumes", "", decodeStrictly(s.Volumes, &volumes))
	}
	if s.VolumeMounts == "" {
		return problems
	}
	var mounts []corev1.VolumeMount
	add("volume_mounts", "", decodeStrictly(s.VolumeMounts, &mounts))
	var names []string
	for _, v := range volumes {
		names = append(names, v.Name)
	}
	for _, m := range mounts {
		if !slices.Contains(names, m.Name) {
			add("volume_mounts", m.Name, fmt.Errorf("volumes has no volume %q, but %s", m.Name, orNone(names)), text.Near(m.Name, names)...)
		}
	}
	return problems
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "no others"
	}
	return strings.Join(names, ", ")
}
