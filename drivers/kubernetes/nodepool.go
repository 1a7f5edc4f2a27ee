package kubernetes

import (
	"slices"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources/schema"
)

// nodepoolKeys are the keys of Nodepool's driver of the same kind.
func (d *Driver) nodepoolKeys() *schema.Nodepool {
	amounts := schema.SameNodepoolKeys("cpu", "memory", "storage", "cpu-limit", "memory-limit", "storage-limit")
	defaults := slices.Clone(amounts)
	for i := range defaults {
		defaults[i].Key = "default-label-" + defaults[i].Key
	}
	limits := drivers.NodepoolLimits()
	keys := &schema.Nodepool{
		Guide:    "kubernetes-and-openshift",
		Provider: slices.Concat(schema.SameNodepoolKeys("context"), drivers.NodepoolLaunch()),
		Pool:     slices.Concat(defaults, []schema.NodepoolKey{{Key: "default-label-extra-resources", Note: "Nodepool ignores it"}}, limits),
	}
	typ := schema.NodepoolKey{Key: "type", Attr: "type"}
	switch d.kind {
	case kindKubernetes:
		keys.Provider = append(keys.Provider, schema.NodepoolKey{Key: "max-servers", Note: "Nodepool ignores it; set max_servers of the pools"})
		limits = limits[1:]
	case kindOpenShiftPods:
		keys.Project = "project"
		keys.Provider = append(keys.Provider, schema.NodepoolKey{Key: "max-pods", Note: "Nodepool ignores it; set max_servers of the pools"})
		typ = schema.NodepoolKey{Key: "type", Note: "nodes of the driver are always pods"}
		fallthrough
	case kindOpenShift:
		keys.Provider = append(keys.Provider, schema.NodepoolKey{Key: "max-projects", Attr: "max_servers", For: "pool"})
	}
	keys.Provider = append(keys.Provider, drivers.ForPools(limits...)...)
	keys.Label = slices.Concat([]schema.NodepoolKey{
		typ,
		{Key: "image", Attr: "image"},
		{Key: "image-pull", Attr: "image_pull", Default: "IfNotPresent"},
	}, schema.SameNodepoolKeys("python-path", "shell-type", "gpu", "gpu-resource", "extra-resources"), []schema.NodepoolKey{
		{Key: "env", Attr: "env", Form: schema.AsNamed},
	}, schema.SameNodepoolKeys("node-selector", "scheduler-name", "privileged"), []schema.NodepoolKey{
		{Key: "volumes", Attr: "volumes", Form: schema.AsJSON},
		{Key: "volume-mounts", Attr: "volume_mounts", Form: schema.AsJSON},
		{Key: "labels", Attr: "labels"},
		drivers.NodepoolRequest("dynamic-labels"),
		{Key: "annotations", Attr: "annotations"},
		{Key: "spec", Attr: "spec", Form: schema.AsJSON},
	}, amounts)
	if d.kind != kindKubernetes {
		keys.Label = append(keys.Label, schema.SameNodepoolKeys("image-pull-secrets")...)
	}
	return keys
}
