package sandbox

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers/sandbox/sandboxcloud"
	"github.com/npctl/npctl/resources/schema"
)

const driverDoc = "An OpenStack inside npctl, stored in one file, for trials, examples and tests. It has " +
	"the flavors `small` (1 core, 2 GiB), `medium` (2, 4 GiB), `large` (8, 8 GiB) and `toobig` (for which no host has " +
	"capacity), the network `private`, the external network `public` and the zones `az1` and `az2`. Servers are records only, " +
	"so nodes do not respond to SSH unless `ssh_port` is set; then set `host_key_checking = true` to read their host keys."

func ptr(n int64) *int64 { return &n }

func checkPort(v cty.Value) error {
	if n, _ := v.AsBigFloat().Int64(); n > 65535 {
		return fmt.Errorf("%d is not a TCP port; write one from 1 to 65535, such as 2222", n)
	}
	return nil
}

func providerSchema() schema.Block {
	return schema.Block{
		Attributes: []schema.Attribute{
			{Name: "file", Type: cty.String, Class: schema.InPlace,
				Doc: "File of the cloud, relative to npctl's data directory; providers with the same absolute path share a cloud. The default is `sandbox.json`, one for each provider."},
			duration("build_time", "2s", "Time from the creation of a server to ACTIVE."),
			duration("delete_time", "1s", "Time from the deletion of a server to its disappearance."),
			duration("image_time", "0s", "Time during which an uploaded image is in state saving."),
			duration("address_time", "0s", "Time until a floating IP appears in the addresses of its server."),
			{Name: "zones", Type: cty.List(cty.String), Class: schema.InPlace,
				Doc: "Availability zones; the default is `az1` and `az2`."},
			{Name: "fault_file", Type: cty.String, Class: schema.InPlace,
				Doc: "JSON file with a list of faults, as in `fault` blocks; npctl reads it again when it changes."},
			{Name: "ssh_port", Type: cty.Number, Class: schema.InPlace, Min: ptr(1), Check: checkPort,
				Doc: "TCP port on which servers respond to SSH while npctl runs, at their addresses, which are local to this machine; the default is none. " +
					"Each server presents a host key and accepts every client; it does not execute commands, but prints them to its console. Linux only."},
			{Name: "seed", Type: cty.Number, Default: cty.Zero, Class: schema.InPlace, Min: new(int64),
				Doc: "Seed of faults with a probability: the same seed and calls cause the same faults."},
		},
		Blocks: []schema.NestedBlock{
			{Name: "quota", Max: 1, Schema: quotaSchema()},
			{Name: "flavor", Label: "name", Schema: flavorSchema()},
			{Name: "network", Label: "name", Schema: networkSchema()},
			{Name: "public_image", Label: "name", Schema: publicImageSchema()},
			{Name: "foreign_server", Label: "name", Schema: foreignSchema()},
			{Name: "fault", Schema: faultSchema()},
		},
	}
}

func duration(name, otherwise, doc string) schema.Attribute {
	return schema.Attribute{
		Name: name, Type: cty.String, Format: schema.FormatDuration, Default: cty.StringVal(otherwise), Class: schema.InPlace, Doc: doc,
	}
}

func number(name, doc string, least int64) schema.Attribute {
	return schema.Attribute{Name: name, Type: cty.Number, Class: schema.InPlace, Min: &least, Doc: doc}
}

func needed(a schema.Attribute) schema.Attribute {
	a.Required = true
	return a
}

func word(name, doc string) schema.Attribute {
	return schema.Attribute{Name: name, Type: cty.String, Class: schema.InPlace, Doc: doc}
}

func quotaSchema() schema.Block {
	d := sandboxcloud.DefaultQuota()
	limit := func(name, of string, otherwise int64) schema.Attribute {
		a := number(name, of+"; -1 means no limit.", -1)
		a.Default = cty.NumberIntVal(otherwise)
		return a
	}
	return schema.Block{Doc: "Quota of the project.", Attributes: []schema.Attribute{
		limit("instances", "Servers", d.Instances), limit("cores", "Cores of all servers", d.Cores),
		limit("ram", "MiB of RAM of all servers", d.RAM), limit("key_pairs", "Key pairs of a user", d.KeyPairs),
		limit("floating_ips", "Floating IPs", d.FloatingIPs), limit("ports", "Ports", d.Ports), limit("networks", "Networks", d.Networks),
		limit("security_groups", "Security groups", d.SecurityGroups),
		limit("security_group_rules", "Security group rules", d.SecurityGroupRules), limit("volumes", "Volumes", d.Volumes),
		limit("gigabytes", "GB of all volumes", d.Gigabytes),
	}}
}

func flavorSchema() schema.Block {
	noHost := schema.Attribute{Name: "no_host", Type: cty.Bool, Default: cty.False, Class: schema.InPlace,
		Doc: "Servers of this flavor end as ERROR because no host has capacity."}
	return schema.Block{Doc: "An additional flavor. Later changes of the block do not change it.", Attributes: []schema.Attribute{
		needed(number("vcpus", "Cores.", 1)), needed(number("ram", "MiB of RAM.", 1)),
		{Name: "disk", Type: cty.Number, Default: cty.NumberIntVal(20), Class: schema.InPlace, Min: new(int64), Doc: "GB of disk."},
		noHost,
	}}
}

func publicImageSchema() schema.Block {
	least := func(name, doc string) schema.Attribute {
		a := number(name, doc, 0)
		a.Default = cty.Zero
		return a
	}
	return schema.Block{Doc: "A public image, for `cloud_image`. It is a small raw image without content. Later changes of the block " +
		"do not change it.", Attributes: []schema.Attribute{
		least("min_disk", "Minimum disk of its flavors in GB."), least("min_ram", "Minimum RAM of its flavors in MiB."),
		{Name: "properties", Type: cty.Map(cty.String), Class: schema.InPlace, Doc: "Its properties, such as `os_distro`."},
	}}
}

func networkSchema() schema.Block {
	yes := func(name, doc string) schema.Attribute {
		return schema.Attribute{Name: name, Type: cty.Bool, Default: cty.False, Class: schema.InPlace, Doc: doc}
	}
	return schema.Block{Doc: "An additional network. Later changes of the block do not change it.", Attributes: []schema.Attribute{
		{Name: "cidrs", Type: cty.List(cty.String), Required: true, Class: schema.InPlace, Check: checkPrefixes,
			Doc: "Address ranges, one subnet for each, of IP version 4 or 6."},
		yes("external", "It provides floating IPs."), yes("shared", "It belongs to another project and is shared with all projects."),
	}}
}

func checkPrefixes(v cty.Value) error {
	for _, e := range v.AsValueSlice() {
		if e.IsNull() || !e.IsKnown() {
			continue
		}
		if _, err := netip.ParsePrefix(e.AsString()); err != nil {
			return fmt.Errorf("%q is not an address range; write one such as 10.1.0.0/16", e.AsString())
		}
	}
	return nil
}

func foreignSchema() schema.Block {
	return schema.Block{Doc: "A server of another program, to show that npctl does not change it. The sandbox creates it once.",
		Attributes: []schema.Attribute{
			word("flavor", "Its flavor; the default is `small`."),
			{Name: "project", Type: cty.String, OneOf: []string{sandboxcloud.User, sandboxcloud.Other}, Default: cty.StringVal(sandboxcloud.User),
				Class: schema.InPlace, Doc: "Its project: that of npctl or another one."},
			{Name: "metadata", Type: cty.Map(cty.String), Class: schema.InPlace, Doc: "Its metadata."},
		}}
}

func faultSchema() schema.Block {
	actions := make([]string, 0, len(sandboxcloud.Actions()))
	for _, a := range sandboxcloud.Actions() {
		actions = append(actions, string(a))
	}
	operation := word("operation", "Pattern of operations, such as `server.create` or `image.*`; the default is all.")
	operation.Check = checkOperation
	return schema.Block{
		Doc: "A fault of the cloud: of the calls that match all patterns, the first `after` succeed; " +
			"of the rest every `every`-th fails, at most `times`. In patterns `*` stands for any text and `?` for one character.",
		Attributes: []schema.Attribute{
			operation, word("method", "Pattern of HTTP methods."), word("path", "Pattern of URL paths."),
			word("name", "Pattern of names of servers, images, ports and volumes, or of descriptions of floating IPs."),
			number("after", "Number of matching calls that succeed first.", 0), number("every", "Every Nth matching call fails.", 1),
			number("times", "Maximum number of calls that fail; the default is no limit.", 1),
			{Name: "probability", Type: cty.Number, Class: schema.InPlace, Doc: "Probability that a matching call fails, 0 to 1."},
			{Name: "action", Type: cty.String, Required: true, OneOf: actions, Class: schema.InPlace, Doc: actionDoc},
			number("status", "HTTP status of `answer`.", 300), word("message", "Text of `answer` and `server_error`."),
			{Name: "retry_after", Type: cty.String, Format: schema.FormatDuration, Class: schema.InPlace, Doc: "`Retry-After` of `answer`."},
			{Name: "delay", Type: cty.String, Format: schema.FormatDuration, Class: schema.InPlace,
				Doc: "Delay of `slow`, `late_effect`, `late_listing` and `late_address`."},
		},
	}
}

const actionDoc = "What happens: `answer` an HTTP status; `over_quota`; `server_error` at the end of the build; `lost_before` and " +
	"`lost_after`: the connection is cut before or after the effect; `slow`; `hang_before` and `hang_after`: no response until " +
	"npctl times out; `late_effect`: the response is lost and the object appears later; `late_listing`: lists show an earlier state; " +
	"`delete_fails`: 204, yet the server ends as ERROR; `late_address` of a floating IP; `cut_upload` in its middle; " +
	"`stuck_saving` of an image; `truncate` the response; `corrupt` a downloaded image."

func checkOperation(v cty.Value) error {
	if sandboxcloud.KnownOperation(v.AsString()) {
		return nil
	}
	return fmt.Errorf("unknown operation %q; one of %s", v.AsString(), strings.Join(sandboxcloud.Operations(), ", "))
}
