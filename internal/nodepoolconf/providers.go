package nodepoolconf

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Nodepool's defaults of an OpenStack provider, where npctl has others too.
const (
	bootTimeout = "60"
	rate        = 1.0 // calls per second
)

func (r *reader) providers(top value) error {
	return each(top, "providers", func(name string, item value) error {
		driver := "openstack"
		if d, ok := item.get("driver"); ok {
			driver = d.text()
		}
		if strings.HasPrefix(name, "fake") {
			driver = "fake"
		}
		path := under("", "provider", name)
		if driver == "openshiftpods" {
			return r.projects(name, item)
		}
		switch driver {
		case "openstack":
			r.model.put(path, "driver", driver, item.line, true)
			return r.openstack(path, item)
		case "static":
			r.model.put(path, "driver", driver, item.line, true)
			return r.static(path, item)
		case "aws", "azure", "gce", "ibmvpc", "kubernetes", "openshift", "metastatic":
			r.model.put(path, "driver", driver, item.line, true)
			return r.cloud(path, driver, item)
		}
		return nil
	})
}

// projects records a provider of openshiftpods as one provider for each pool. The first has the name of the provider, a
// further one also that of its pool.
func (r *reader) projects(name string, item value) error {
	pools, _ := item.get("pools")
	for i := range max(1, len(pools.list)) {
		one, of := item, name
		if len(pools.list) > 0 {
			one.fields = maps.Clone(item.fields)
			part := pools
			part.list = pools.list[i : i+1]
			one.fields["pools"] = part
		}
		if i > 0 {
			pool, _ := pools.list[i].get("name")
			of += "-" + pool.text()
		}
		path := under("", "provider", of)
		r.model.put(path, "driver", "openshiftpods", item.line, true)
		if err := r.cloud(path, "openshiftpods", one); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) common(path string, item value) string {
	priority := r.numeric(path, item, "priority", "100")
	r.numeric(path, item, "max-concurrency", "-1")
	return priority
}

// poolOf records what pools of all drivers have and returns the pool's path.
func (r *reader) poolOf(path, name, priority string, pool value) string {
	path = under(path, "pool", name)
	r.numeric(path, pool, "priority", priority)
	attributes, ok := pool.get("node-attributes")
	r.model.put(path, "node-attributes", textMap(attributes.textMap()), max(attributes.line, pool.line), ok)
	return path
}

func (r *reader) openstack(path string, item value) error {
	r.text(path, item, "cloud", "")
	r.text(path, item, "region-name", "")
	r.numeric(path, item, "boot-timeout", bootTimeout)
	r.numeric(path, item, "launch-timeout", "3600")
	r.numeric(path, item, "launch-retries", "3")
	r.text(path, item, "image-name-format", "{image_name}-{timestamp}")
	r.text(path, item, "post-upload-hook", "")
	r.numeric(path, item, "image-upload-timeout", "3600")
	calls, line, ok := number(rate), item.line, false
	if v, isSet := item.get("rate"); isSet { // seconds between calls; 0 is without limit on both sides
		calls, line, ok = "0", v.line, true
		if seconds, isNumber := v.number(); !isNumber {
			calls = notNumber(v)
		} else if seconds > 0 {
			calls = number(1 / seconds)
		}
	}
	r.model.put(path, "rate", calls, line, ok)
	priority := r.common(path, item)

	disk, cloud := map[string]value{}, map[string]value{}
	err := each(item, "diskimages", func(name string, img value) error {
		if _, known := r.images[name]; !known {
			return fmt.Errorf("line %d: there is no diskimage %q", img.line, name)
		}
		disk[name], r.listed[name] = img, true
		r.upload(under(path, "diskimage", name), name, img)
		return nil
	})
	if err != nil {
		return err
	}
	err = each(item, "cloud-images", func(name string, img value) error {
		cloud[name] = img
		r.cloudImage(under(path, "cloud-image", name), name, img)
		return nil
	})
	if err != nil {
		return err
	}
	return each(item, "pools", func(name string, pool value) error {
		pool = r.served(pool, disk)
		if labels, _ := pool.get("labels"); len(labels.list) == 0 {
			return nil // no request can reach it
		}
		poolPath := r.poolOf(path, name, priority, pool)
		for _, key := range limitKeys {
			if text := r.numeric(poolPath, pool, key, none); key == "max-servers" && strings.HasPrefix(text, "-") {
				r.model.put(poolPath, key, "0", pool.line, true)
			}
		}
		r.flag(poolPath, pool, "ignore-provider-quota", false)
		return r.eachLabel(poolPath, pool, func(path string, label value) error { return r.label(path, pool, label, disk, cloud) })
	})
}

// served returns a pool without the labels whose diskimage exists and is not in the provider.
func (r *reader) served(pool value, disk map[string]value) value {
	labels, ok := pool.get("labels")
	if !ok {
		return pool
	}
	labels.list = slices.DeleteFunc(slices.Clone(labels.list), func(label value) bool {
		ref, ok := label.get("diskimage")
		_, exists := r.images[ref.text()]
		_, here := disk[ref.text()]
		return ok && exists && !here
	})
	pool.fields = maps.Clone(pool.fields)
	pool.fields["labels"] = labels
	return pool
}

// eachLabel calls f for the labels of a pool. An error becomes the value of its label, so that the others are compared.
func (r *reader) eachLabel(path string, pool value, f func(path string, label value) error) error {
	return each(pool, "labels", func(name string, label value) error {
		path := under(path, "label", name)
		err := error(nil)
		if !r.labels[name] {
			err = fmt.Errorf("there is no label %q", name)
		} else {
			err = f(path, label)
		}
		if err != nil {
			r.model[strings.TrimSuffix(path, ".")] = Value{Text: err.Error(), Line: label.line, Set: true, Unreadable: true}
		}
		return nil
	})
}

// upload records the settings of an image in one provider.
func (r *reader) upload(path, name string, img value) {
	r.flag(path, img, "pause", false)
	metadata := maps.Clone(r.images[name].metadata)
	meta, ok := img.get("meta")
	if metadata == nil {
		metadata = map[string]string{}
	}
	maps.Copy(metadata, meta.textMap())
	r.model.put(path, "meta", textMap(metadata), max(meta.line, img.line), ok)
	r.connection(path, img)
}

func (r *reader) connection(path string, img value) {
	port := "22"
	if r.text(path, img, "connection-type", "ssh") == "winrm" {
		port = "5986"
	}
	r.numeric(path, img, "connection-port", port)
}

func (r *reader) cloudImage(path, name string, img value) {
	id, byID := img.get("image-id")
	switch {
	case byID:
		r.model.put(path, "image-id", id.text(), id.line, true)
	default:
		r.text(path, img, "image-name", name)
	}
	r.text(path, img, "username", "")
	r.text(path, img, "python-path", "auto")
	r.text(path, img, "shell-type", "")
	r.connection(path, img)
}

// label records a label of a pool with the attributes of the pool and of its image that apply to it. A second entry of
// the same name replaces the first.
func (r *reader) label(path string, pool, label value, disk, cloud map[string]value) error {
	kind, images := "diskimage", disk
	ref, ok := label.get("diskimage")
	if !ok {
		kind, images = "cloud-image", cloud
		if ref, ok = label.get("cloud-image"); !ok {
			return errors.New("a label needs a diskimage or a cloud-image")
		}
	}
	img, ok := images[ref.text()]
	if !ok {
		return fmt.Errorf("the provider has no %s %q", kind, ref.text())
	}
	r.model.put(path, "image", kind+" "+ref.text(), ref.line, true)
	drive := none
	v, isSet := img.get("config-drive")
	if isSet {
		drive = fmt.Sprint(v.truthy())
	}
	r.model.put(path, "config-drive", drive, max(v.line, label.line), isSet)
	r.text(path, label, "flavor-name", "")
	r.numeric(path, label, "min-ram", none)
	r.flag(path, label, "boot-from-volume", false)
	r.numeric(path, label, "volume-size", "50")
	r.text(path, label, "key-name", "")
	r.text(path, label, "userdata", "")
	for _, key := range []string{"instance-properties", "dynamic-instance-properties"} {
		properties, isSet := label.get(key)
		r.model.put(path, key, textMap(properties.textMap()), max(properties.line, label.line), isSet)
	}
	r.flag(path, pick(label, pool, "host-key-checking"), "host-key-checking", true)
	r.texts(path, pick(label, pool, "networks"), "networks", list)
	r.texts(path, pool, "security-groups", list)
	r.texts(path, pool, "availability-zones", set)
	r.flag(path, pool, "auto-floating-ip", true)
	return nil
}

// pick returns the label if it has the key, else its pool.
func pick(label, pool value, key string) value {
	if _, ok := label.fields[key]; ok {
		return label
	}
	return pool
}

func (r *reader) texts(path string, at value, key string, form func([]string) string) {
	v, ok := at.get(key)
	r.model.put(path, key, form(v.texts()), max(v.line, at.line), ok)
}

func (r *reader) static(path string, item value) error {
	priority := r.common(path, item)
	return each(item, "pools", func(name string, pool value) error {
		nodes, _ := pool.get("nodes")
		if len(nodes.list) == 0 {
			return nil
		}
		poolPath := r.poolOf(path, name, priority, pool)
		return each(pool, "nodes", func(name string, node value) error {
			return r.node(poolPath, name, node)
		})
	})
}

// node records a static node. Its identity is the host, the user and the port, as in the records of Nodepool.
func (r *reader) node(path, host string, node value) error {
	if alias, ok := node.get("ssh-port"); ok {
		if _, ok := node.get("connection-port"); !ok {
			node.set("connection-port", alias)
		}
	}
	user, port := "zuul", "22"
	if v, ok := node.get("username"); ok {
		user = v.text()
	}
	if v, ok := node.get("connection-port"); ok {
		port = v.text()
	}
	path = under(path, "node", user+"@"+host+":"+port)
	labels, ok := node.get("labels")
	if !ok {
		return fmt.Errorf("line %d: node %q has no labels", node.line, host)
	}
	for _, label := range labels.texts() {
		if !r.labels[label] {
			return fmt.Errorf("line %d: there is no label %q", labels.line, label)
		}
	}
	r.model.put(path, "labels", set(labels.texts()), labels.line, true)
	keys, isSet := node.get("host-key")
	hostKeys := keys.texts()
	if keys.kind == yaml.ScalarNode {
		hostKeys = []string{keys.text()} // a key has blanks
	}
	r.model.put(path, "host-key", set(hostKeys), max(keys.line, node.line), isSet)
	r.numeric(path, node, "timeout", "5")
	r.flag(path, node, "host-key-checking", true)
	r.text(path, node, "connection-type", "ssh")
	r.text(path, node, "shell-type", "")
	r.text(path, node, "python-path", "auto")
	r.numeric(path, node, "max-parallel-jobs", "1")
	return nil
}
