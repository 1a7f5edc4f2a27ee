package convert

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
)

// fromDesired returns the model of a configuration of npctl, with the paths and values of effectiveModel. Line is that of the
// block in the configuration.
func fromDesired(d resources.Desired, drivers map[string]schema.Driver) model {
	t := desired{model{}, newTranslator(drivers).drivers}
	t.settings(&d.Settings)
	for _, l := range d.Labels {
		path, values := under("", "label", l.Name), attributesOf(l, cty.NilVal)
		values.put(t.model, path, l.Source.Line, labelTable.names, labelTable)
		t.put(path, "min-ready", schema.Attribute{}, float64(l.MinReady), l.Source.Line, true)
	}
	for i := range d.Images {
		t.image(&d.Images[i])
	}
	for i := range d.Providers {
		t.provider(&d, &d.Providers[i])
	}
	return t.model
}

type desired struct {
	model
	drivers map[string]driverTables
}

// attributes are the values of a block by attribute, with the types of valueOf.
type attributes struct {
	native map[string]any
	config cty.Value
}

// attributesOf returns the attributes of a block of the language, which may be nil, and of its part for a driver.
func attributesOf(block any, config cty.Value) attributes {
	a := attributes{map[string]any{}, cty.EmptyObjectVal}
	if block != nil {
		a.native = schema.Values(block)
	}
	if config != cty.NilVal && !config.IsNull() && config.IsKnown() {
		a.config, _ = config.UnmarkDeep()
	}
	return a
}

// value returns the value of an attribute, such as object_storage.bucket.
func (a attributes) value(of schema.Attribute, name string) any {
	v := a.config
	for part := range strings.SplitSeq(name, ".") {
		if v.IsNull() || !v.Type().HasAttribute(part) {
			return native(a.native[name])
		}
		v = v.GetAttr(part)
	}
	return plain(of, v)
}

func (a attributes) text(name string) string {
	text, _ := a.value(schema.Attribute{}, name).(string)
	return text
}

// put adds attributes to a model.
func (a attributes) put(m model, path string, line int, names []string, tables ...table) {
	for _, name := range names {
		of := attributeIn(tables, name)
		v := a.value(of, name)
		if rowOf(name, func(row) bool { return true }, tables...).Form == schema.AsJSON {
			v = canonical(v)
		}
		m.put(path, keyOf(name, tables...), of, v, line, true)
	}
}

func (t desired) settings(s *resources.Settings) {
	line := s.Source.Line
	attributesOf(*s, cty.NilVal).put(t.model, "", line, settingsTable.names, settingsTable)
	for _, l := range s.TenantLimits {
		path := under("", "tenant", l.Tenant)
		attributesOf(l, cty.NilVal).put(t.model, path, line, tenantTable.names, tenantTable)
		t.put(path, "max-resources", schema.Attribute{}, native(l.MaxResources), line, true)
	}
	if s.State.Kind != "zookeeper" {
		return
	}
	b := attributesOf(nil, s.State.Config)
	texts, _ := b.value(schema.Attribute{}, "hosts").([]string)
	var hosts []string
	for _, host := range texts {
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), "2281")
		}
		hosts = append(hosts, host)
	}
	t.put("", "zookeeper-servers", schema.Attribute{Name: "zookeeper-servers"}, hosts, line, true)
	t.put("", "zookeeper-servers.chroot", schema.Attribute{}, strings.Trim(b.text("chroot"), "/"), line, true)
	t.put("", "zookeeper-timeout", schema.Attribute{}, b.value(schema.Attribute{Format: schema.FormatDuration}, "session_timeout"), line, true)
	if b.config.Type().HasAttribute("tls") && !b.config.GetAttr("tls").IsNull() {
		tls := attributesOf(nil, b.config.GetAttr("tls"))
		for _, k := range tlsTable.rows {
			t.put("zookeeper-tls.", k.Key, schema.Attribute{}, tls.text(k.Attr), line, true)
		}
	}
}

func (t desired) image(img *resources.Image) {
	if img.Builder != "dib" {
		return
	}
	path, line, b := under("", "diskimage", img.Name), img.Source.Line, attributesOf(*img, img.Config)
	b.put(t.model, path, line, compared(imageTable, dibTable), imageTable, dibTable)
	env := map[string]string{}
	for _, name := range []string{"env", "secret_env"} {
		variables, _ := b.value(schema.Attribute{}, name).(map[string]string)
		maps.Copy(env, variables)
	}
	if dir := b.text("tmp_dir"); dir != "" { // npctl rejects TMPDIR in env
		env["TMPDIR"] = dir
	}
	t.put(path, "env-vars", dibTable.known["env"], env, line, true)
	t.put(path, "elements-dir", listOfTexts, b.value(listOfTexts, "element_paths"), line, true)
}

func (t desired) provider(d *resources.Desired, p *resources.Provider) {
	tables, known := t.drivers[p.Driver]
	if !known {
		return
	}
	path, line := under("", "provider", p.Name), p.Source.Line
	t.put(path, "driver", schema.Attribute{}, p.Driver, line, true)
	b := attributesOf(*p, p.Config)
	b.put(t.model, path, line, compared(tables.provider), tables.provider)
	if tables.Project != "" {
		t.put(path, tables.Project, schema.Attribute{}, b.text(tables.Project), line, true)
	}
	t.put(path, "max-concurrency", schema.Attribute{}, float64(cmp.Or(p.MaxConcurrency, -1)), line, true)
	if tables.Image != nil {
		for i := range d.Images {
			if img := &d.Images[i]; p.Uses(img.Ref()) {
				t.upload(under(path, "diskimage", img.Name), tables, p, img)
			}
		}
	}
	for _, img := range p.CloudImages {
		t.cloudImage(under(path, "cloud-image", img.Name), tables.cloudImage, img)
	}
	for i := range p.Pools {
		t.pool(path, tables, &p.Pools[i])
	}
}

func (t desired) upload(path string, tables driverTables, p *resources.Provider, img *resources.Image) {
	own, line := resources.ProviderImage{}, p.Source.Line
	for i := range p.Images {
		if p.Images[i].Image == img.Ref() {
			own, line = p.Images[i], p.Images[i].Source.Line
		}
	}
	if own.Config == cty.NilVal {
		own.Config = tables.image.blocks[0].Null()
	}
	own.Login = withPort(img.LoginIn(p))
	properties := maps.Clone(img.Properties)
	if properties == nil {
		properties = map[string]string{}
	}
	maps.Copy(properties, own.Properties)
	own.Properties = properties
	attributesOf(own, own.Config).put(t.model, path, line, compared(tables.image), tables.image)
}

// withPort fills in the defaults of a connection.
func withPort(l resources.Login) resources.Login {
	l.ConnectionType = cmp.Or(l.ConnectionType, "ssh")
	l.ConnectionPort = cmp.Or(l.ConnectionPort, 22)
	return l
}

func (t desired) cloudImage(path string, tab table, img resources.CloudImageSpec) {
	if img.ImageID == "" && len(img.Filters) == 0 {
		img.Image = cmp.Or(img.Image, img.Name)
	}
	img.Login = withPort(img.Login)
	attributesOf(img, img.Config).put(t.model, path, img.Source.Line, compared(tab), tab)
}

func (t desired) pool(path string, tables driverTables, pool *resources.Pool) {
	if len(pool.Offers)+len(pool.Nodes) == 0 {
		return
	}
	path = under(path, "pool", pool.Name)
	attributesOf(*pool, pool.Config).put(t.model, path, pool.Source.Line, tables.ownOfPools(), tables.pool, tables.ofPools)
	for i := range pool.Offers {
		o := &pool.Offers[i]
		path := under(path, "label", o.Label)
		attributesOf(nil, o.Config).put(t.model, path, o.Source.Line, tables.ofOffers(), tables.offerTables()...)
		if o.Image != (resources.ImageRef{}) {
			t.put(path, "image", schema.Attribute{}, strings.ReplaceAll(string(o.Image.Kind), "_", "-")+" "+o.Image.Name, o.Source.Line, true)
		}
	}
	for i := range pool.Nodes {
		n := pool.Nodes[i]
		n.Login = withPort(n.Login)
		identity := fmt.Sprintf("%s@%s:%s", n.Login.Username, cmp.Or(n.Address, n.Name), strconv.FormatInt(n.Login.ConnectionPort, 10))
		attributesOf(n, n.Config).put(t.model, under(path, "node", identity), n.Source.Line, ofMachines(tables.node), tables.node)
	}
}
