package nodepoolconf

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/npctl/npctl/resources"
)

// FromDesired returns the model of a configuration of npctl, with the paths and values of Read. Line is that of the
// block in the configuration.
func FromDesired(d resources.Desired) Model {
	m := Model{}
	m.settings(&d.Settings)
	for _, l := range d.Labels {
		put := m.in(under("", "label", l.Name), l.Source)
		put("min-ready", number(float64(l.MinReady)))
		put("max-ready-age", seconds(l.MaxReadyAge))
	}
	for i := range d.Images {
		m.image(&d.Images[i])
	}
	for i := range d.Providers {
		m.provider(&d, &d.Providers[i])
	}
	return m
}

// in returns a function that records attributes of one block.
func (m Model) in(path string, at resources.Source) func(key, text string) {
	return func(key, text string) { m.put(path, key, text, at.Line, true) }
}

func seconds(d time.Duration) string { return number(d.Seconds()) }

func limit(n *int64) string {
	if n == nil {
		return none
	}
	return strconv.FormatInt(*n, 10)
}

func (m Model) settings(s *resources.Settings) {
	put := m.in("", s.Source)
	put("images-dir", s.ImagesDir)
	put("build-log-dir", s.BuildLogDir)
	put("build-log-retention", number(float64(s.BuildLogKeep)))
	put("max-hold-age", seconds(s.MaxHoldAge))
	for _, l := range s.TenantLimits {
		put := m.in(under("", "tenant", l.Tenant), s.Source)
		for i, n := range []*int64{l.MaxServers, l.MaxCores, l.MaxRAM, l.MaxVolumes, l.MaxVolumeGB} {
			put(limitKeys[i], limit(n))
		}
	}
	if s.State.Kind != "zookeeper" {
		return
	}
	b := block(s.State.Config)
	var hosts []string
	for _, host := range b.texts("hosts") {
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), "2281")
		}
		hosts = append(hosts, host)
	}
	put("zookeeper-servers", set(hosts))
	put("zookeeper-servers.chroot", orNone(strings.Trim(b.text("chroot"), "/")))
	timeout, err := time.ParseDuration(b.text("session_timeout"))
	put("zookeeper-timeout", seconds(timeout))
	if err != nil {
		put("zookeeper-timeout", err.Error())
	}
	if tls := b.block("tls"); tls != nil {
		for _, key := range []string{"cert", "key", "ca"} {
			put("zookeeper-tls."+key, orNone(tls.text(key)))
		}
	}
}

func (m Model) login(put func(key, text string), l resources.Login) {
	put("username", orNone(l.Username))
	put("python-path", orNone(l.PythonPath))
	put("shell-type", orNone(l.ShellType))
	m.connection(put, l)
}

func (m Model) connection(put func(key, text string), l resources.Login) {
	put("connection-type", cmp.Or(l.ConnectionType, "ssh"))
	port := l.ConnectionPort
	if port == 0 {
		port = 22
	}
	put("connection-port", strconv.FormatInt(port, 10))
}

func (m Model) image(img *resources.Image) {
	if img.Builder != "dib" {
		return
	}
	put, b := m.in(under("", "diskimage", img.Name), img.Source), block(img.Config)
	env := b.textMap("env")
	for key, text := range b.textMap("secret_env") {
		env[key] = text
	}
	if dir := b.text("tmp_dir"); dir != "" { // npctl rejects TMPDIR in env
		env["TMPDIR"] = dir
	}
	put("elements", list(b.texts("elements")))
	put("elements-dir", list(b.texts("element_paths")))
	put("env-vars", textMap(env))
	put("formats", set(img.Formats))
	put("keep-formats", set(img.KeepFormats))
	put("delete-after-upload", fmt.Sprint(img.DeleteAfterUpload))
	put("metadata", textMap(img.Properties))
	put("rebuild-age", seconds(img.RebuildAge))
	put("build-timeout", seconds(img.BuildTimeout))
	put("release", orNone(b.text("release")))
	put("dib-cmd", b.text("command"))
	put("pause", fmt.Sprint(img.Pause))
	put("username", orNone(img.Login.Username))
	put("python-path", orNone(img.Login.PythonPath))
	put("shell-type", orNone(img.Login.ShellType))
}

func (m Model) provider(d *resources.Desired, p *resources.Provider) {
	path := under("", "provider", p.Name)
	put := m.in(path, p.Source)
	isCloud := slices.Contains([]string{"aws", "azure", "gce", "ibmvpc", "kubernetes", "openshift", "openshiftpods", "metastatic"}, p.Driver)
	if p.Driver != "openstack" && p.Driver != "static" && !isCloud {
		return
	}
	put("driver", p.Driver)
	put("priority", strconv.FormatInt(p.Priority, 10))
	put("max-concurrency", strconv.FormatInt(cmp.Or(p.MaxConcurrency, -1), 10))
	if p.Driver == "openstack" {
		m.openstack(d, p, path)
	}
	if isCloud {
		m.cloudOf(p, path)
	}
	for i := range p.Pools {
		m.pool(p, &p.Pools[i], path)
	}
}

func (m Model) openstack(d *resources.Desired, p *resources.Provider, path string) {
	put, b := m.in(path, p.Source), block(p.Config)
	put("cloud", b.text("cloud"))
	put("region-name", orNone(b.text("region")))
	put("boot-timeout", seconds(p.BootTimeout))
	put("launch-timeout", seconds(p.LaunchTimeout))
	put("launch-retries", strconv.FormatInt(p.LaunchAttempts, 10))
	put("rate", number(p.Rate))
	put("image-name-format", p.ImageNames)
	put("post-upload-hook", orNone(p.PostUploadHook))
	put("image-upload-timeout", seconds(p.UploadTimeout))
	for i := range d.Images {
		if img := &d.Images[i]; p.Uses(img.Ref()) {
			m.upload(under(path, "diskimage", img.Name), p, img)
		}
	}
	for _, img := range p.CloudImages {
		put := m.in(under(path, "cloud-image", img.Name), img.Source)
		if img.ImageID != "" {
			put("image-id", img.ImageID)
		} else {
			put("image-name", cmp.Or(img.Image, img.Name))
		}
		m.login(put, img.Login)
	}
}

func (m Model) upload(path string, p *resources.Provider, img *resources.Image) {
	put := m.in(path, p.Source)
	properties, pause := map[string]string{}, false
	for key, text := range img.Properties {
		properties[key] = text
	}
	for _, own := range p.Images {
		if own.Image != img.Ref() {
			continue
		}
		put, pause = m.in(path, own.Source), own.Pause
		for key, text := range own.Properties {
			properties[key] = text
		}
	}
	put("pause", fmt.Sprint(pause))
	put("meta", textMap(properties))
	m.connection(put, img.LoginIn(p))
}

func (m Model) pool(p *resources.Provider, pool *resources.Pool, path string) {
	if len(pool.Offers)+len(pool.Nodes) == 0 {
		return
	}
	path = under(path, "pool", pool.Name)
	put := m.in(path, pool.Source)
	put("priority", strconv.FormatInt(pool.Priority, 10))
	put("node-attributes", textMap(pool.NodeAttributes))
	if p.Driver == "openstack" {
		for i, n := range []*int64{pool.MaxServers, pool.MaxCores, pool.MaxRAM, pool.MaxVolumes, pool.MaxVolumeGB} {
			put(limitKeys[i], limit(n))
		}
		put("ignore-provider-quota", fmt.Sprint(pool.IgnoreProviderQuota))
	} else if p.Driver != "static" {
		m.cloudPool(p, pool, path)
	}
	for i := range pool.Offers {
		if p.Driver == "openstack" {
			m.offer(&pool.Offers[i], path)
		} else {
			m.cloudOffer(p.Driver, &pool.Offers[i], path)
		}
	}
	for i := range pool.Nodes {
		m.node(&pool.Nodes[i], path)
	}
}

func (m Model) offer(o *resources.Offer, path string) {
	put, b := m.in(under(path, "label", o.Label), o.Source), block(o.Config)
	put("image", strings.ReplaceAll(string(o.Image.Kind), "_", "-")+" "+o.Image.Name)
	put("config-drive", orNone(b.text("config_drive")))
	put("flavor-name", orNone(b.text("flavor")))
	put("min-ram", orNone(b.text("min_ram")))
	put("boot-from-volume", b.text("boot_from_volume"))
	put("volume-size", b.text("volume_size"))
	put("key-name", orNone(b.text("key_name")))
	put("userdata", orNone(b.text("userdata")))
	put("instance-properties", textMap(b.textMap("instance_properties")))
	put("dynamic-instance-properties", textMap(b.textMap("request_properties")))
	put("host-key-checking", b.text("host_key_checking"))
	put("networks", list(b.texts("networks")))
	put("security-groups", list(b.texts("security_groups")))
	put("availability-zones", set(b.texts("availability_zones")))
	put("auto-floating-ip", b.text("auto_floating_ip"))
}

func (m Model) node(n *resources.StaticNode, path string) {
	port := cmp.Or(n.Login.ConnectionPort, 22)
	identity := fmt.Sprintf("%s@%s:%d", n.Login.Username, cmp.Or(n.Address, n.Name), port)
	put, b := m.in(under(path, "node", identity), n.Source), block(n.Config)
	put("labels", set(n.Labels))
	put("host-key", set(n.HostKeys))
	timeout, err := time.ParseDuration(b.text("timeout"))
	put("timeout", seconds(timeout))
	if err != nil {
		put("timeout", err.Error())
	}
	put("host-key-checking", b.text("host_key_checking"))
	put("connection-type", cmp.Or(n.Login.ConnectionType, "ssh"))
	put("shell-type", orNone(n.Login.ShellType))
	put("python-path", orNone(n.Login.PythonPath))
	put("max-parallel-jobs", strconv.FormatInt(n.Slots, 10))
}

// attributes are the values of a block that a driver, builder or store decodes.
type attributes map[string]cty.Value

func block(config cty.Value) attributes {
	if config == cty.NilVal || config.IsNull() || !config.IsKnown() {
		return nil
	}
	config, _ = config.UnmarkDeep()
	return config.AsValueMap()
}

func (a attributes) value(key string) (cty.Value, bool) {
	v, ok := a[key]
	return v, ok && v != cty.NilVal && v.IsWhollyKnown() && !v.IsNull()
}

func (a attributes) block(key string) attributes {
	v, ok := a.value(key)
	if !ok {
		return nil
	}
	return block(v)
}

func (a attributes) text(key string) string {
	v, _ := a.value(key)
	return asText(v)
}

func asText(v cty.Value) string {
	switch {
	case v == cty.NilVal || v.IsNull():
		return ""
	case v.Type() == cty.String:
		return v.AsString()
	case v.Type() == cty.Bool:
		return strconv.FormatBool(v.True())
	case v.Type() == cty.Number:
		return v.AsBigFloat().Text('f', -1)
	}
	text, err := ctyjson.Marshal(v, v.Type())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func (a attributes) texts(key string) (texts []string) {
	if v, ok := a.value(key); ok {
		for _, one := range v.AsValueSlice() {
			texts = append(texts, asText(one))
		}
	}
	return texts
}

func (a attributes) textMap(key string) map[string]string {
	texts := map[string]string{}
	if v, ok := a.value(key); ok {
		for name, one := range v.AsValueMap() {
			texts[name] = asText(one)
		}
	}
	return texts
}
