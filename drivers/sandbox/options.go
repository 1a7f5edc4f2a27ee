package sandbox

import (
	"fmt"
	"time"

	str2duration "github.com/xhit/go-str2duration/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/gocty"

	"github.com/npctl/npctl/drivers/sandbox/sandboxcloud"
)

// optionsOf converts the provider's configuration to options of the cloud. A null configuration means the defaults.
func optionsOf(config cty.Value) (sandboxcloud.Options, error) {
	if config.IsNull() {
		config = providerSchema().Null()
	}
	r := reader{}
	o := sandboxcloud.Options{
		BuildTime: r.duration(config, "build_time"), DeleteTime: r.duration(config, "delete_time"),
		ImageTime: r.duration(config, "image_time"), AddressTime: r.duration(config, "address_time"),
		Zones: r.texts(config, "zones"), FaultFile: text(config, "fault_file"), Seed: uint64(r.number(config, "seed", 0)), //nolint:gosec // not negative, by the schema
		Quota: r.quota(attribute(config, "quota")),
	}
	for _, name := range blocks(config, "flavor") {
		o.Flavors = append(o.Flavors, sandboxcloud.Flavor{
			Name: name.label, VCPUs: r.number(name.body, "vcpus", 1), RAM: r.number(name.body, "ram", 1),
			Disk: r.number(name.body, "disk", 20), NoHost: truth(name.body, "no_host"),
		})
	}
	for _, name := range blocks(config, "network") {
		o.Networks = append(o.Networks, sandboxcloud.Network{
			Name: name.label, CIDRs: r.texts(name.body, "cidrs"), External: truth(name.body, "external"), Shared: truth(name.body, "shared"),
		})
	}
	for _, name := range blocks(config, "public_image") {
		o.Images = append(o.Images, sandboxcloud.PublicImage{
			Name: name.label, MinDisk: r.number(name.body, "min_disk", 0), MinRAM: r.number(name.body, "min_ram", 0),
			Properties: r.mapped(name.body, "properties"),
		})
	}
	for _, name := range blocks(config, "foreign_server") {
		o.Foreign = append(o.Foreign, sandboxcloud.ForeignServer{
			Name: name.label, Flavor: text(name.body, "flavor"), Project: text(name.body, "project"), Metadata: r.mapped(name.body, "metadata"),
		})
	}
	for _, f := range blocks(config, "fault") {
		o.Faults = append(o.Faults, r.fault(f.body))
	}
	return o, r.err
}

// reader keeps the first error.
type reader struct{ err error }

func (r *reader) note(name string, err error) {
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("%s: %w", name, err)
	}
}

func (r *reader) duration(object cty.Value, name string) time.Duration {
	written := text(object, name)
	if written == "" || written == "0" {
		return 0
	}
	d, err := str2duration.ParseDuration(written)
	r.note(name, err)
	return d
}

func (r *reader) number(object cty.Value, name string, otherwise int64) int64 {
	v := attribute(object, name)
	if v.IsNull() {
		return otherwise
	}
	var n int64
	r.note(name, gocty.FromCtyValue(v, &n))
	return n
}

func (r *reader) fraction(object cty.Value, name string) float64 {
	v := attribute(object, name)
	if v.IsNull() {
		return 0
	}
	var n float64
	r.note(name, gocty.FromCtyValue(v, &n))
	return n
}

func (r *reader) texts(object cty.Value, name string) []string {
	v := attribute(object, name)
	if v.IsNull() {
		return nil
	}
	var list []string
	r.note(name, gocty.FromCtyValue(v, &list))
	return list
}

func (r *reader) mapped(object cty.Value, name string) map[string]string {
	v := attribute(object, name)
	if v.IsNull() {
		return nil
	}
	var m map[string]string
	r.note(name, gocty.FromCtyValue(v, &m))
	return m
}

func (r *reader) quota(body cty.Value) *sandboxcloud.Quota {
	q := sandboxcloud.DefaultQuota()
	if body.IsNull() {
		return &q
	}
	for name, limit := range map[string]*int64{
		"instances": &q.Instances, "cores": &q.Cores, "ram": &q.RAM, "key_pairs": &q.KeyPairs, "floating_ips": &q.FloatingIPs,
		"ports": &q.Ports, "networks": &q.Networks, "security_groups": &q.SecurityGroups,
		"security_group_rules": &q.SecurityGroupRules, "volumes": &q.Volumes, "gigabytes": &q.Gigabytes,
	} {
		*limit = r.number(body, name, *limit)
	}
	return &q
}

func (r *reader) fault(body cty.Value) sandboxcloud.Fault {
	return sandboxcloud.Fault{
		Operation: text(body, "operation"), Method: text(body, "method"), Path: text(body, "path"), Name: text(body, "name"),
		After: int(r.number(body, "after", 0)), Every: int(r.number(body, "every", 0)), Times: int(r.number(body, "times", 0)),
		Probability: r.fraction(body, "probability"), Action: sandboxcloud.Action(text(body, "action")),
		Status: int(r.number(body, "status", 0)), RetryAfter: r.duration(body, "retry_after"), Message: text(body, "message"),
		Delay: r.duration(body, "delay"),
	}
}

// attribute returns an attribute, or null if the object does not have it.
func attribute(object cty.Value, name string) cty.Value {
	object, _ = object.Unmark()
	if object.IsNull() || !object.Type().IsObjectType() || !object.Type().HasAttribute(name) {
		return cty.NullVal(cty.DynamicPseudoType)
	}
	v, _ := object.GetAttr(name).UnmarkDeep()
	return v
}

func text(object cty.Value, name string) string {
	v := attribute(object, name)
	if v.IsNull() || v.Type() != cty.String {
		return ""
	}
	return v.AsString()
}

func truth(object cty.Value, name string) bool {
	v := attribute(object, name)
	return !v.IsNull() && v.Type() == cty.Bool && v.True()
}

// block is a nested block with its label, if it has one.
type block struct {
	label string
	body  cty.Value
}

// blocks returns nested blocks, sorted by label if they have labels, else in source order.
func blocks(config cty.Value, name string) []block {
	v := attribute(config, name)
	if v.IsNull() {
		return nil
	}
	var list []block
	for it := v.ElementIterator(); it.Next(); {
		key, body := it.Element()
		b := block{body: body}
		if key.Type() == cty.String {
			b.label = key.AsString()
		}
		list = append(list, b)
	}
	return list
}
