package nodepoolconf

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
)

// cloudOf records the attributes of a provider of a driver in clouds.go.
func (m Model) cloudOf(p *resources.Provider, path string) {
	put, b := m.in(path, p.Source), block(p.Config)
	put("launch-retries", strconv.FormatInt(p.LaunchAttempts, 10))
	switch p.Driver {
	case "aws":
		put("region-name", orNone(b.text("region")))
		put("profile-name", orNone(b.text("profile")))
		put("boot-timeout", seconds(p.BootTimeout))
		put("launch-timeout", seconds(p.LaunchTimeout))
		put("post-upload-hook", orNone(p.PostUploadHook))
		for i := range p.CloudImages {
			m.awsImage(under(path, "cloud-image", p.CloudImages[i].Name), &p.CloudImages[i])
		}
	case "ibmvpc":
		m.ibmVPC(put, p, path)
	case "gce":
		put("project", orNone(b.text("project")))
		put("region", orNone(b.text("region")))
		put("boot-timeout", seconds(p.BootTimeout))
		put("launch-timeout", seconds(p.LaunchTimeout))
		for i := range p.CloudImages {
			m.gceImage(under(path, "cloud-image", p.CloudImages[i].Name), &p.CloudImages[i])
		}
	case "azure":
		m.azure(put, p, path)
	case "metastatic":
		put("boot-timeout", seconds(p.BootTimeout))
		put("launch-timeout", seconds(p.LaunchTimeout))
	default:
		put("context", orNone(b.text("context")))
	}
}

func (m Model) awsImage(path string, img *resources.CloudImageSpec) {
	put := m.in(path, img.Source)
	put("image-id", orNone(img.ImageID))
	filters := map[string]any{}
	for name, values := range img.Filters {
		filters[name] = []string(values)
	}
	put("image-filters", asJSON(filters))
	m.login(put, img.Login)
}

// cloudPool records the limits of a pool of a driver in clouds.go.
func (m Model) cloudPool(p *resources.Provider, pool *resources.Pool, path string) {
	put := m.in(path, pool.Source)
	put("max-servers", limit(pool.MaxServers))
	if p.Driver == "metastatic" || p.Driver == "azure" {
		return
	}
	put("max-cores", limit(pool.MaxCores))
	put("max-ram", limit(pool.MaxRAM))
	if p.Driver == "ibmvpc" {
		return
	}
	limits := map[string]string{}
	for name, n := range pool.MaxResources {
		limits[name] = strconv.FormatInt(n, 10)
	}
	put("max-resources", textMap(limits))
}

// cloudOffer records an offer of a driver in clouds.go.
func (m Model) cloudOffer(driver string, o *resources.Offer, path string) {
	put, b := m.in(under(path, "label", o.Label), o.Source), block(o.Config)
	switch driver {
	case "aws":
		awsOffer(put, b, o)
	case "ibmvpc":
		ibmVPCOffer(put, b, o)
	case "gce":
		gceOffer(put, b, o)
	case "azure":
		azureOffer(put, b, o)
	case "metastatic":
		put("backing-label", orNone(b.text("backing_label")))
		put("max-parallel-jobs", b.text("max_parallel_jobs"))
		for _, key := range []string{"grace_time", "min_retention_time", "max_age"} {
			text := none
			if d, err := schema.ParseDuration(b.text(key)); err == nil {
				text = seconds(d)
			}
			put(nodepoolKey(key), text)
		}
		put("host-key-checking", b.text("host_key_checking"))
	default:
		clusterOffer(put, b, driver)
	}
}

func nodepoolKey(attribute string) string { return strings.ReplaceAll(attribute, "_", "-") }

func clusterOffer(put func(key, text string), b attributes, driver string) {
	typ := b.text("type")
	if driver == "openshiftpods" {
		typ = "pod"
	}
	put("type", orNone(typ))
	for _, key := range append(clusterResources(), "image", "shell-type", "gpu", "gpu-resource", "scheduler-name", "privileged") {
		put(key, orNone(b.text(strings.ReplaceAll(key, "-", "_"))))
	}
	put("image-pull", cmp.Or(b.text("image_pull"), "IfNotPresent"))
	put("python-path", cmp.Or(b.text("python_path"), "auto"))
	for _, key := range []string{"extra_resources", "node_selector", "labels", "annotations", "env"} {
		put(nodepoolKey(key), textMap(b.textMap(key)))
	}
	put("dynamic-labels", textMap(b.textMap("request_properties")))
	for _, key := range []string{"volumes", "volume_mounts", "spec"} {
		put(nodepoolKey(key), canonical(b.text(key)))
	}
}

// canonical returns JSON with sorted keys, "none" for no text.
func canonical(text string) string {
	if text == "" {
		return none
	}
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return err.Error()
	}
	return asJSON(v)
}

func awsOffer(put func(key, text string), b attributes, o *resources.Offer) {
	put("image", strings.ReplaceAll(string(o.Image.Kind), "_", "-")+" "+o.Image.Name)
	put("instance-type", list(b.texts("instance_types")))
	put("availability-zone", list(b.texts("availability_zones")))
	put("subnet-id", list(b.texts("subnet_ids")))
	put("security-group-id", list(b.texts("security_group_ids")))
	for _, key := range []string{"host_key_checking", "use_internal_ip", "public_ipv4", "public_ipv6", "ebs_optimized", "dedicated_host"} {
		put(nodepoolKey(key), b.text(key))
	}
	for _, key := range []string{"key_name", "volume_type", "userdata", "imdsv2", "volume_size", "iops", "throughput", "iam_instance_profile", "allocation_strategy"} {
		put(nodepoolKey(key), orNone(b.text(key)))
	}
	put("use-spot", fmt.Sprint(b.text("market_type") == "spot"))
	put("tags", textMap(b.textMap("tags")))
	put("dynamic-tags", textMap(b.textMap("request_properties")))
}

func (m Model) gceImage(path string, img *resources.CloudImageSpec) {
	put := m.in(path, img.Source)
	put("image-id", orNone(img.ImageID))
	for _, name := range []string{"project", "family"} {
		put("image-"+name, orNone(strings.Join(img.Filters[name], " ")))
	}
	m.login(put, img.Login)
}

func gceOffer(put func(key, text string), b attributes, o *resources.Offer) {
	put("image", strings.ReplaceAll(string(o.Image.Kind), "_", "-")+" "+o.Image.Name)
	put("instance-type", list(b.texts("machine_types")))
	put("zone", list(b.texts("zones")))
	put("key", list(b.texts("ssh_keys")))
	for _, key := range []string{"volume_type", "volume_size", "use_internal_ip", "host_key_checking"} {
		put(nodepoolKey(key), b.text(key))
	}
}
