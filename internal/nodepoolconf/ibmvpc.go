package nodepoolconf

import (
	"fmt"
	"strings"

	"github.com/npctl/npctl/resources"
)

func (r *reader) ibmVPC(path string, item value) error {
	for _, key := range []string{"region", "vpc", "post-upload-hook"} {
		r.text(path, item, key, "")
	}
	r.text(path, item, "image-format", "qcow2")
	r.numeric(path, item, "boot-timeout", "120")
	r.numeric(path, item, "launch-timeout", "3600")
	r.numeric(path, item, "launch-retries", "3")
	quota, _ := item.get("quota")
	for _, key := range []string{"instances", "cores", "ram"} {
		r.as(path, "quota-"+key, quota, key)
	}
	storage, _ := item.get("object-storage")
	for _, key := range []string{"endpoint", "bucket-name"} {
		r.as(path, key, storage, key)
	}
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
		r.ibmVPCImage(under(path, "cloud-image", name), img)
		return nil
	})
	if err != nil {
		return err
	}
	limits := func(path string, pool value) {
		for _, key := range []string{"max-servers", "max-cores", "max-ram"} {
			r.as(path, key, pool, key)
		}
	}
	return r.labelsOf(path, item, limits, func(path string, pool, label value) error {
		return r.ibmVPCLabel(path, item, pool, label, disk, cloud)
	})
}

// ibmVPCImage records a cloud image; its link is a filter of npctl.
func (r *reader) ibmVPCImage(path string, img value) {
	r.text(path, img, "image-id", "")
	r.text(path, img, "image-name", "")
	filters, at := map[string]any{}, img
	if href, ok := img.get("image-href"); ok {
		filters["href"], at = []string{href.text()}, href
	}
	if all, ok := img.get("image-filter"); ok {
		at = all
		for name, one := range all.fields {
			if len(one.fields) == 0 {
				filters[strings.ReplaceAll(name, "-", "_")] = []string{one.text()}
			}
			for inner, text := range one.fields {
				filters[strings.ReplaceAll(name+"."+inner, "-", "_")] = []string{text.text()}
			}
		}
	}
	r.model.put(path, "image-filters", asJSON(filters), at.line, len(filters) > 0)
	r.text(path, img, "username", "")
	r.text(path, img, "python-path", "auto")
	r.text(path, img, "shell-type", "")
	r.connection(path, img)
}

func (r *reader) ibmVPCLabel(path string, item, pool, label value, disk, cloud map[string]value) error {
	kind, images := "diskimage", disk
	ref, ok := label.get("diskimage")
	if !ok {
		kind, images = "cloud-image", cloud
		ref, _ = label.get("cloud-image")
	}
	img, ok := images[ref.text()]
	if !ok {
		return fmt.Errorf("the provider has no %s %q", kind, ref.text())
	}
	r.model.put(path, "image", kind+" "+ref.text(), ref.line, true)
	keys, set := img.get("keys")
	r.model.put(path, "keys", list(keys.texts()), max(keys.line, label.line), set && kind == "cloud-image")
	profile, set := label.get("profile")
	r.model.put(path, "profile", list(profile.texts()), max(profile.line, label.line), set)
	for _, key := range []string{"zone", "subnet"} {
		one, set := in(key, pool, item).get(key)
		r.model.put(path, key, list(one.texts()), max(one.line, pool.line), set)
	}
	r.flag(path, in("host-key-checking", pool, item), "host-key-checking", true)
	r.flag(path, in("use-internal-ip", pool, item), "use-internal-ip", false)
	r.flag(path, in("public-ipv4", pool, item), "public-ipv4", false)
	r.text(path, label, "user-data", "")
	return nil
}

func (m Model) ibmVPC(put func(key, text string), p *resources.Provider, path string) {
	b := block(p.Config)
	for _, key := range []string{"region", "vpc", "image_format"} {
		put(nodepoolKey(key), orNone(b.text(key)))
	}
	put("post-upload-hook", orNone(p.PostUploadHook))
	put("boot-timeout", seconds(p.BootTimeout))
	put("launch-timeout", seconds(p.LaunchTimeout))
	for key, attribute := range map[string]string{"quota-instances": "max_servers", "quota-cores": "max_cores", "quota-ram": "max_ram"} {
		put(key, orNone(b.text(attribute)))
	}
	storage := b.block("object_storage")
	put("endpoint", orNone(storage.text("endpoint")))
	put("bucket-name", orNone(storage.text("bucket")))
	for i := range p.CloudImages {
		img := &p.CloudImages[i]
		imagePath := under(path, "cloud-image", img.Name)
		m.awsImage(imagePath, img)
		m.in(imagePath, img.Source)("image-name", orNone(img.Image))
	}
}

func ibmVPCOffer(put func(key, text string), b attributes, o *resources.Offer) {
	put("image", strings.ReplaceAll(string(o.Image.Kind), "_", "-")+" "+o.Image.Name)
	put("profile", list(b.texts("profiles")))
	put("zone", list(b.texts("zones")))
	put("subnet", list(b.texts("subnets")))
	put("keys", list(b.texts("keys")))
	for _, key := range []string{"host_key_checking", "use_internal_ip", "public_ipv4"} {
		put(nodepoolKey(key), b.text(key))
	}
	put("user-data", orNone(b.text("user_data")))
}
