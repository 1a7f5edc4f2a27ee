package nodepoolconf

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Nodepool's providers of aws, azure, gce, ibmvpc, kubernetes, openshift, openshiftpods and metastatic.

func (r *reader) cloud(path, driver string, item value) error {
	switch driver {
	case "aws":
		return r.aws(path, item)
	case "ibmvpc":
		return r.ibmVPC(path, item)
	case "gce":
		return r.gce(path, item)
	case "azure":
		return r.azure(path, item)
	case "metastatic":
		return r.metastatic(path, item)
	default:
		return r.cluster(path, driver, item)
	}
}

// in returns the first of the mappings that has the key, the last one if none has it.
func in(key string, from ...value) value {
	for _, at := range from {
		if _, ok := at.fields[key]; ok {
			return at
		}
	}
	return from[len(from)-1]
}

// has returns key, or renamed if the mapping has a value for it.
func (v value) has(key, renamed string) string {
	if _, ok := v.get(renamed); ok {
		return renamed
	}
	return key
}

// as records a text under another key, without a default.
func (r *reader) as(path, key string, at value, of string) {
	v, ok := at.get(of)
	r.model.put(path, key, orNone(v.text()), max(v.line, at.line), ok)
}

func (r *reader) mapping(path string, at value, key string) {
	v, ok := at.get(key)
	r.model.put(path, key, textMap(v.textMap()), max(v.line, at.line), ok)
}

// document records a value of any form as JSON.
func (r *reader) document(path string, at value, key string) {
	v, ok := at.get(key)
	text := none
	if ok {
		text = asJSON(v.any())
	}
	r.model.put(path, key, text, max(v.line, at.line), ok)
}

// any returns the value as the types of encoding/json.
func (v value) any() any {
	switch v.kind {
	case yaml.SequenceNode:
		all := []any{}
		for _, one := range v.list {
			all = append(all, one.any())
		}
		return all
	case yaml.MappingNode:
		all := map[string]any{}
		for key, one := range v.fields {
			all[key] = one.any()
		}
		return all
	default:
		return v.scalar
	}
}

// resources records the limits of a pool, which the provider may set for all its pools.
func (r *reader) resources(path string, item, pool value, servers ...string) {
	for _, key := range []string{"max-cores", "max-ram"} {
		r.numeric(path, in(key, pool, item), key, none)
	}
	key, at := "max-servers", pool
	if _, own := pool.get(key); !own {
		for _, name := range servers { // the first one has precedence
			if _, ok := item.get(name); ok {
				key, at = name, item
				break
			}
		}
	}
	number := none
	v, ok := at.get(key)
	if ok {
		number = v.text()
	}
	r.model.put(path, "max-servers", number, max(v.line, pool.line), ok)
	limits := map[string]string{}
	for _, from := range []value{item, pool} {
		all, _ := from.get("max-resources")
		for name, n := range all.textMap() {
			limits[name] = n
		}
	}
	r.model.put(path, "max-resources", textMap(limits), pool.line, len(limits) > 0)
}

// labelsOf calls f for the labels of the pools of a provider.
func (r *reader) labelsOf(path string, item value, poolOf func(path string, pool value), f func(path string, pool, label value) error) error {
	priority := r.common(path, item)
	return each(item, "pools", func(name string, pool value) error {
		if labels, _ := pool.get("labels"); len(labels.list) == 0 {
			return nil
		}
		poolPath := r.poolOf(path, name, priority, pool)
		poolOf(poolPath, pool)
		return r.eachLabel(poolPath, pool, func(path string, label value) error { return f(path, pool, label) })
	})
}

func (r *reader) metastatic(path string, item value) error {
	r.numeric(path, item, "boot-timeout", "120")
	r.numeric(path, item, "launch-timeout", "3600")
	r.numeric(path, item, "launch-retries", "3")
	return r.labelsOf(path, item, func(path string, pool value) { r.numeric(path, pool, "max-servers", none) }, func(path string, pool, label value) error {
		r.text(path, label, "backing-label", "")
		r.numeric(path, label, "max-parallel-jobs", "1")
		r.numeric(path, label, "grace-time", "60")
		r.numeric(path, label, "min-retention-time", "0")
		r.numeric(path, label, "max-age", none)
		r.flag(path, in("host-key-checking", label, pool), "host-key-checking", false)
		return nil
	})
}

// clusterResources are the resources of a pod, which have defaults in the pool.
func clusterResources() []string {
	return []string{"cpu", "memory", "storage", "cpu-limit", "memory-limit", "storage-limit"}
}

// cluster records a provider of the driver kubernetes, openshift or openshiftpods.
func (r *reader) cluster(path, driver string, item value) error {
	r.text(path, item, "context", "")
	r.numeric(path, item, "launch-retries", "3")
	var servers []string // kubernetes reads max-servers of the provider and ignores it
	if strings.HasPrefix(driver, "openshift") {
		servers = []string{"max-projects", "max-servers"}
	}
	return r.labelsOf(path, item, func(path string, pool value) { r.resources(path, item, pool, servers...) }, func(path string, pool, label value) error {
		if driver == "openshiftpods" {
			r.model.put(path, "type", "pod", label.line, true)
		} else {
			r.text(path, label, "type", "")
		}
		for _, key := range []string{"image", "shell-type", "gpu-resource", "scheduler-name"} {
			r.text(path, label, key, "")
		}
		r.text(path, label, "image-pull", "IfNotPresent")
		r.text(path, label, "python-path", "auto")
		r.as(path, "gpu", label, "gpu")
		for _, key := range clusterResources() {
			if _, own := label.get(key); own {
				r.as(path, key, label, key)
			} else {
				r.as(path, key, pool, "default-label-"+key)
			}
		}
		privileged := none
		v, set := label.get("privileged")
		if set {
			privileged = fmt.Sprint(v.truthy())
		}
		r.model.put(path, "privileged", privileged, max(v.line, label.line), set)
		for _, key := range []string{"extra-resources", "node-selector", "labels", "dynamic-labels", "annotations"} {
			r.mapping(path, label, key)
		}
		env := map[string]string{}
		variables, _ := label.get("env")
		for _, one := range variables.list {
			name, _ := one.get("name")
			text, _ := one.get("value")
			env[name.text()] = text.text()
		}
		r.model.put(path, "env", textMap(env), max(variables.line, label.line), len(env) > 0)
		for _, key := range []string{"volumes", "volume-mounts", "spec"} {
			r.document(path, label, key)
		}
		return nil
	})
}

func (r *reader) aws(path string, item value) error {
	r.text(path, item, "region-name", "")
	r.text(path, item, "profile-name", "")
	r.numeric(path, item, "boot-timeout", "180")
	r.numeric(path, item, "launch-timeout", "3600")
	r.numeric(path, item, "launch-retries", "3")
	r.text(path, item, "post-upload-hook", "")
	disk, cloud := map[string]value{}, map[string]value{}
	err := each(item, "diskimages", func(name string, img value) error {
		disk[name], r.listed[name] = img, true
		return nil
	})
	if err != nil {
		return err
	}
	err = each(item, "cloud-images", func(name string, img value) error {
		cloud[name] = img
		path := under(path, "cloud-image", name)
		r.text(path, img, "image-id", "")
		filters := map[string]any{}
		all, set := img.get("image-filters")
		for _, one := range all.list {
			name, _ := one.get(one.has("name", "Name"))
			values, _ := one.get(one.has("values", "Values"))
			filters[name.text()] = values.texts()
		}
		r.model.put(path, "image-filters", asJSON(filters), max(all.line, img.line), set)
		r.text(path, img, "username", "")
		r.text(path, img, "python-path", "auto")
		r.text(path, img, "shell-type", "")
		r.connection(path, img)
		return nil
	})
	if err != nil {
		return err
	}
	return r.labelsOf(path, item, func(path string, pool value) { r.resources(path, item, pool, "max-servers") }, func(path string, pool, label value) error {
		return r.awsLabel(path, item, pool, label, disk, cloud)
	})
}

// imageOf records the image of a label and returns its settings in the provider.
func (r *reader) imageOf(path string, label value, disk, cloud map[string]value) (value, error) {
	kind, images := "diskimage", disk
	ref, ok := label.get("diskimage")
	if !ok {
		kind, images = "cloud-image", cloud
		ref, _ = label.get("cloud-image")
	}
	img, ok := images[ref.text()]
	if !ok {
		return value{}, fmt.Errorf("the provider has no %s %q", kind, ref.text())
	}
	r.model.put(path, "image", kind+" "+ref.text(), ref.line, true)
	return img, nil
}

func (r *reader) awsLabel(path string, item, pool, label value, disk, cloud map[string]value) error {
	if _, err := r.imageOf(path, label, disk, cloud); err != nil {
		return err
	}
	types, set := label.get("instance-type")
	if fleet, ok := label.get("fleet"); ok {
		types, set = fleet.get("instance-types")
		r.text(path, fleet, "allocation-strategy", "")
	} else {
		r.model.put(path, "allocation-strategy", none, label.line, false)
	}
	r.model.put(path, "instance-type", list(types.texts()), max(types.line, label.line), set)
	for _, key := range []string{"availability-zone", "subnet-id", "security-group-id"} {
		one, set := pool.get(key)
		r.model.put(path, key, list(one.texts()), max(one.line, pool.line), set)
	}
	r.flag(path, in("host-key-checking", pool, item), "host-key-checking", true)
	r.flag(path, in("use-internal-ip", pool, item), "use-internal-ip", false)
	r.flag(path, in("public-ipv6", pool, item), "public-ipv6", false)
	public := in("public-ipv4", pool, item)
	if old, ok := pool.get("public-ip-address"); ok {
		public = value{line: old.line, fields: map[string]value{"public-ipv4": old}, kind: yaml.MappingNode}
	}
	r.flag(path, public, "public-ipv4", true)
	for _, key := range []string{"key-name", "volume-type", "userdata", "imdsv2"} {
		r.text(path, label, key, "")
	}
	for _, key := range []string{"volume-size", "iops", "throughput"} {
		r.as(path, key, label, key)
	}
	r.flag(path, label, "ebs-optimized", false)
	r.flag(path, label, "use-spot", false)
	r.flag(path, label, "dedicated-host", false)
	profile, set := label.get("iam-instance-profile")
	id, _ := profile.get(profile.has("name", "arn"))
	r.model.put(path, "iam-instance-profile", orNone(id.text()), max(profile.line, label.line), set)
	for _, key := range []string{"tags", "dynamic-tags"} {
		all, set := label.get(key)
		texts := all.textMap()
		delete(texts, "Name") // that of the instance
		r.model.put(path, key, textMap(texts), max(all.line, label.line), set)
	}
	return nil
}

func (r *reader) gce(path string, item value) error {
	r.text(path, item, "project", "")
	r.text(path, item, "region", "")
	r.numeric(path, item, "boot-timeout", "60")
	r.numeric(path, item, "launch-timeout", "3600")
	r.numeric(path, item, "launch-retries", "3")
	images := map[string]value{}
	err := each(item, "cloud-images", func(name string, img value) error {
		images[name] = img
		path := under(path, "cloud-image", name)
		for _, key := range []string{"image-id", "image-project", "image-family", "username", "shell-type"} {
			r.text(path, img, key, "")
		}
		r.text(path, img, "python-path", "auto")
		r.connection(path, img)
		return nil
	})
	if err != nil {
		return err
	}
	none := value{line: item.line, kind: yaml.MappingNode} // a provider has no limits for its pools
	return r.labelsOf(path, item, func(path string, pool value) { r.resources(path, none, pool) }, func(path string, pool, label value) error {
		ref, _ := label.get("cloud-image")
		img, ok := images[ref.text()]
		if !ok {
			return fmt.Errorf("the provider has no cloud-image %q", ref.text())
		}
		r.model.put(path, "image", "cloud-image "+ref.text(), ref.line, true)
		for key, from := range map[string]value{"instance-type": label, "zone": item} {
			one, set := from.get(key)
			r.model.put(path, key, list(one.texts()), max(one.line, label.line), set)
		}
		r.text(path, label, "volume-type", "pd-standard")
		r.numeric(path, label, "volume-size", "10")
		r.flag(path, pool, "use-internal-ip", false)
		r.flag(path, pool, "host-key-checking", true)
		var keys []string
		key, set := img.get("key")
		if user, ok := img.get("username"); ok && set {
			keys = []string{user.text() + ":" + key.text()}
		}
		r.model.put(path, "key", list(keys), max(key.line, label.line), set)
		return nil
	})
}
