package nodepoolconf

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Read returns the effective model of a nodepool.yaml and its secure file, which may be nil. env looks up the
// environment variables that both files refer to.
func Read(main, secure []byte, env func(string) (string, bool)) (Model, error) {
	top, err := parse(main, env)
	if err != nil {
		return nil, err
	}
	if top.kind != yaml.MappingNode {
		return nil, errNoMapping
	}
	r := reader{model: Model{}, images: map[string]image{}, labels: map[string]bool{}, listed: map[string]bool{}}
	secrets := func(value) error { return r.secureFile(secure, env) }
	for _, section := range []func(value) error{r.global, r.diskimages, secrets, r.imagesInEffect, r.topLabels, r.providers} {
		if err := section(top); err != nil {
			return nil, err
		}
	}
	r.dropUnbuilt()
	if _, ok := r.model["zookeeper-servers"]; !ok { // the other settings of the connection have no effect
		maps.DeleteFunc(r.model, func(path string, _ Value) bool { return strings.HasPrefix(path, "zookeeper-") })
	}
	return r.model, nil
}

type reader struct {
	model  Model
	images map[string]image
	labels map[string]bool
	listed map[string]bool // images that a provider has
}

// each calls f for the items of a list of named mappings.
func each(parent value, key string, f func(name string, item value) error) error {
	all, _ := parent.get(key)
	for _, item := range all.list {
		name, ok := item.get("name")
		if !ok {
			return fmt.Errorf("line %d: an item of %s has no name", item.line, key)
		}
		if err := f(name.text(), item); err != nil {
			return err
		}
	}
	if all.kind != 0 && all.kind != yaml.SequenceNode && all.scalar != nil {
		return fmt.Errorf("line %d: %s must be a list", all.line, key)
	}
	return nil
}

// text records a text with a default; numeric and flag do so for other types.
func (r *reader) text(path string, at value, key, byDefault string) string {
	v, ok := at.get(key)
	text, line := byDefault, at.line
	if ok {
		text, line = v.text(), v.line
	}
	r.model.put(path, key, orNone(text), line, ok)
	return text
}

func (r *reader) numeric(path string, at value, key, byDefault string) string {
	v, ok := at.get(key)
	text, line := byDefault, at.line
	if ok {
		n, isNumber := v.number()
		if text, line = number(n), v.line; !isNumber {
			text = notNumber(v)
		}
	}
	r.model.put(path, key, text, line, ok)
	return text
}

// notNumber is the value of a number that is none. It differs from each number.
func notNumber(v value) string { return strconv.Quote(v.text()) + " (not a number)" }

func (r *reader) flag(path string, at value, key string, byDefault bool) {
	v, ok := at.get(key)
	is, line := byDefault, at.line
	if ok {
		is, line = v.truthy(), v.line
	}
	r.model.put(path, key, fmt.Sprint(is), line, ok)
}

func (r *reader) global(top value) error {
	r.text("", top, "images-dir", "")
	r.text("", top, "build-log-dir", "/var/log/nodepool/builds")
	r.numeric("", top, "build-log-retention", "7")
	r.numeric("", top, "max-hold-age", "0")
	r.zookeeper(top)
	limits, _ := top.get("tenant-resource-limits")
	for _, limit := range limits.list {
		tenant, ok := limit.get("tenant-name")
		if !ok {
			return fmt.Errorf("line %d: a tenant limit has no tenant-name", limit.line)
		}
		for _, key := range limitKeys {
			r.numeric(under("", "tenant", tenant.text()), limit, key, none)
		}
	}
	return nil
}

var limitKeys = []string{"max-servers", "max-cores", "max-ram", "max-volumes", "max-volume-gb"}

// zookeeper records the connection. The secure file replaces the servers and the TLS section as a whole.
func (r *reader) zookeeper(top value) {
	if servers, ok := top.get("zookeeper-servers"); ok {
		var hosts []string
		chroot := none
		for _, server := range servers.list {
			host, _ := server.get("host")
			port := "2281"
			if p, ok := server.get("port"); ok {
				port = p.text()
			}
			if c, ok := server.get("chroot"); ok {
				chroot = orNone(strings.Trim(c.text(), "/"))
			}
			hosts = append(hosts, net.JoinHostPort(strings.Trim(host.text(), "[]"), port))
		}
		r.model.put("", "zookeeper-servers", set(hosts), servers.line, true)
		r.model.put("", "zookeeper-servers.chroot", chroot, servers.line, true)
	}
	if tls, ok := top.get("zookeeper-tls"); ok {
		for _, key := range []string{"cert", "key", "ca"} {
			r.text("zookeeper-tls.", tls, key, "")
		}
	}
	if _, ok := r.model["zookeeper-timeout"]; !ok || top.fields["zookeeper-timeout"].kind != 0 {
		r.numeric("", top, "zookeeper-timeout", "10")
	}
}

func (r *reader) topLabels(top value) error {
	return each(top, "labels", func(name string, item value) error {
		r.labels[name] = true
		path := under("", "label", name)
		r.numeric(path, item, "min-ready", "0")
		if v := r.model[path+"min-ready"]; strings.HasPrefix(v.Text, "-") {
			v.Text = "0" // Nodepool skips labels with less than one
			r.model[path+"min-ready"] = v
		}
		r.numeric(path, item, "max-ready-age", "0")
		return nil
	})
}

// secureFile reads the keys of the secure file that Nodepool reads. The variables are those of one image and not of
// its children.
func (r *reader) secureFile(text []byte, env func(string) (string, bool)) error {
	top, err := parse(text, env)
	if err != nil {
		return fmt.Errorf("secure file: %w", err)
	}
	own := reader{model: Model{}}
	own.zookeeper(top)
	delete(own.model, "zookeeper-timeout")
	for path, v := range own.model {
		v.Line = 0 // it is a line of the secure file
		r.model[path] = v
	}
	return each(top, "diskimages", func(name string, item value) error {
		img, ok := r.images[name]
		if !ok {
			return fmt.Errorf("secure file: line %d: there is no diskimage %q", item.line, name)
		}
		variables, _ := item.get("env-vars")
		maps.Copy(img.env, variables.textMap())
		return nil
	})
}

// image is a diskimage that is not abstract.
type image struct {
	line             int
	values           map[string]value // the truthy values of the image and its parents
	elements         []string
	env              map[string]string
	deleteUploaded   bool
	elementDirs      string
	metadata         map[string]string
	metadataOfParent bool // a parent has metadata that Nodepool drops
	isParent         bool
}

// diskimages applies each chain of parents, first to last. Values that are not true in Python do not override, except
// delete-after-upload. The metadata is that of the image itself.
func (r *reader) diskimages(top value) error {
	all := map[string]value{}
	err := each(top, "diskimages", func(name string, item value) error {
		all[name] = item
		return nil
	})
	if err != nil {
		return err
	}
	dirs, _ := top.get("elements-dir")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if abstract, _ := all[name].get("abstract"); abstract.truthy() {
			continue
		}
		chain := []value{all[name]}
		for {
			parent, ok := chain[0].get("parent")
			if !ok {
				break
			}
			next, ok := all[parent.text()]
			if !ok {
				return fmt.Errorf("line %d: there is no diskimage %q", parent.line, parent.text())
			}
			if len(chain) > len(all) {
				return fmt.Errorf("line %d: the parents of diskimage %q are a cycle", parent.line, name)
			}
			chain = slices.Insert(chain, 0, next)
		}
		img := image{line: all[name].line, values: map[string]value{}, env: map[string]string{}, elementDirs: dirs.text()}
		for _, one := range chain {
			img.apply(one)
		}
		r.images[name] = img
	}
	for _, item := range all {
		parent, _ := item.get("parent")
		if img, ok := r.images[parent.text()]; ok {
			img.isParent = true
			r.images[parent.text()] = img
		}
	}
	return nil
}

// dropUnbuilt removes parents without elements that are in no provider: Nodepool builds only their children.
func (r *reader) dropUnbuilt() {
	for name, img := range r.images {
		if img.isParent && len(img.elements) == 0 && !r.listed[name] {
			prefix := under("", "diskimage", name)
			maps.DeleteFunc(r.model, func(path string, _ Value) bool { return strings.HasPrefix(path, prefix) })
		}
	}
}

func (img *image) apply(one value) {
	for key, v := range one.fields {
		if v.truthy() {
			img.values[key] = v
		}
	}
	elements, _ := one.get("elements")
	img.elements = append(img.elements, elements.texts()...)
	variables, _ := one.get("env-vars")
	maps.Copy(img.env, variables.textMap())
	if v, ok := one.get("delete-after-upload"); ok {
		img.deleteUploaded = v.truthy()
	}
	metadata, _ := one.get("metadata")
	img.metadataOfParent = img.metadataOfParent || len(img.metadata) > 0
	img.metadata = metadata.textMap()
}

func (r *reader) imagesInEffect(value) error {
	for name, img := range r.images {
		path := under("", "diskimage", name)
		at := value{line: img.line, fields: img.values, kind: yaml.MappingNode}
		put := func(key, text string) { r.model.put(path, key, text, img.line, true) }
		put("elements", list(img.elements))
		put("elements-dir", list(strings.FieldsFunc(img.elementDirs, func(c rune) bool { return c == ':' })))
		put("env-vars", textMap(img.env))
		put("formats", set(img.values["formats"].texts()))
		put("keep-formats", set(img.values["keep-formats"].texts()))
		put("delete-after-upload", fmt.Sprint(img.deleteUploaded))
		put("metadata", textMap(img.metadata))
		r.numeric(path, at, "rebuild-age", "86400")
		r.numeric(path, at, "build-timeout", "28800")
		r.text(path, at, "release", "")
		r.text(path, at, "dib-cmd", "disk-image-create")
		r.flag(path, at, "pause", false)
		r.text(path, at, "username", "zuul")
		r.text(path, at, "python-path", "auto")
		r.text(path, at, "shell-type", "")
	}
	return nil
}
