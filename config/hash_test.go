package config

import (
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"
	"pgregory.net/rapid"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
)

// whole has every type of block; %s marks the position at which tests insert an attribute.
const whole = `
label "small" {}
label "fixed" {}
diskimage "debian" {
  builder "dib" {
    elements = ["vm"]
    <builder>
  }
  <diskimage>
}
provider "acme" "one" {
  cloud = "x"
  <provider>
  pool "main" {
    <pool>
    label "small" {
      image = diskimage.debian
      <label>
    }
  }
}
provider "static" "lab" {
  pool "main" {
    node "n1" {
      labels = ["fixed"]
      <node>
    }
  }
}
`

// with inserts attributes into the blocks of whole.
func with(attributes map[string]string) string {
	pairs := []string{}
	for _, block := range []string{"builder", "diskimage", "provider", "pool", "label", "node"} {
		pairs = append(pairs, "<"+block+">", attributes[block])
	}
	return strings.NewReplacer(pairs...).Replace(whole)
}

type hashes struct{ Image, Offer, Node resources.Hash }

func hashesOf(d resources.Desired) hashes {
	acme, static := d.Providers[1], d.Providers[0]
	return hashes{
		d.Images[0].Hashes.Current(), acme.Pools[0].Offers[0].Hashes.Current(), static.Pools[0].Nodes[0].Hashes.Current(),
	}
}

// A change of a replacing attribute changes the hashes of the objects that it replaces and no other hash; a change of
// any other attribute changes no hash. Every change changes the digest.
func TestHashesFollowTheClassesOfAttributes(t *testing.T) {
	before := source(t, with(nil))
	cases := []struct {
		block, attribute   string
		image, offer, node bool
	}{
		{"builder", `release = "bookworm"`, true, false, false},
		{"builder", `env = { A = "1" }`, true, false, false},
		{"diskimage", `keep = 5`, false, false, false},
		{"diskimage", `username = "root"`, false, false, false},
		{"diskimage", `properties = { a = "b" }`, false, false, false},
		{"diskimage", `formats = ["raw"]`, false, false, false},
		{"provider", `region = "ca"`, false, true, false},
		{"provider", `password = "x"`, false, false, false},
		{"provider", `rate = 3`, false, false, false},
		{"pool", `networks = ["a"]`, false, true, false},
		{"pool", `zones = ["a"]`, false, false, false},
		{"pool", `max_servers = 3`, false, false, false},
		{"pool", `host_key_checking = false`, false, false, false},
		{"label", `flavor = "m1"`, false, true, false},
		{"label", `size = "large"`, false, true, false},
		{"label", `properties = { a = "b" }`, false, false, false},
		{"label", "volume {\n size = 3\n }", false, true, false},
		{"node", `address = "192.0.2.1"`, false, false, true},
		{"node", `username = "root"`, false, false, true},
		{"node", `slots = 2`, false, false, false},
		{"node", `timeout = "9s"`, false, false, false},
	}
	for _, c := range cases {
		t.Run(c.block+" "+c.attribute, func(t *testing.T) {
			after := source(t, with(map[string]string{c.block: c.attribute}))
			old, now := hashesOf(before), hashesOf(after)
			same(t, "image changed", old.Image != now.Image, c.image)
			same(t, "offer changed", old.Offer != now.Offer, c.offer)
			same(t, "node changed", old.Node != now.Node, c.node)
			if before.Digests.Current() == after.Digests.Current() {
				t.Error("the digest is the same")
			}
		})
	}
}

func TestExplicitDefaultsChangeNoHash(t *testing.T) {
	plain := source(t, with(nil))
	written := source(t, with(map[string]string{
		"label": "size = \"small\"\nnetworks = null", "node": "username = \"zuul\"\naddress = null", "builder": "release = null",
	}))
	same(t, "hashes", hashesOf(written), hashesOf(plain))
}

// A later npctl has attributes that this version does not have. No configuration sets them, so nothing may be
// replaced.
func TestAttributesAddedLaterChangeNoHash(t *testing.T) {
	opts := write(t, map[string]string{"main.hcl": with(map[string]string{"pool": `networks = ["a"]`})})
	before := load(t, opts).Desired
	driver := acme()
	added := []schema.Attribute{
		{Name: "new_null", Type: cty.String, Class: schema.Replacing, Doc: "New."},
		{Name: "new_default", Type: cty.String, Default: cty.StringVal("d"), Class: schema.Replacing, Doc: "New."},
	}
	driver.Provider.Attributes = append(driver.Provider.Attributes, added...)
	driver.Pool.Attributes = append(driver.Pool.Attributes, added...)
	driver.Label.Attributes = append(driver.Label.Attributes, added...)
	driver.Label.Attributes = append(driver.Label.Attributes, schema.Attribute{Name: "of_pool", Type: cty.Bool, Class: schema.Replacing})
	driver.Pool.Attributes = append(driver.Pool.Attributes, schema.Attribute{Name: "of_pool", Type: cty.Bool, Class: schema.Replacing, Default: cty.False})
	driver.Label.Blocks = append(driver.Label.Blocks, schema.NestedBlock{Name: "new_block", Max: 1, Schema: schema.Block{Attributes: added}})
	opts.Drivers["acme"] = driver
	dib := opts.Builders["dib"]
	dib.Attributes = append(dib.Attributes, added...)
	opts.Builders["dib"] = dib
	same(t, "hashes", hashesOf(load(t, opts).Desired), hashesOf(before))
}

func TestStaticTextsShowWhatChanged(t *testing.T) {
	d := source(t, with(map[string]string{
		"provider": `region = "ca"`, "pool": `networks = ["a"]`,
		"label": "user_data = \"" + strings.Repeat("x", 300) + "\"\nvolume {\n size = 3\n }",
	}))
	static := d.Providers[1].Pools[0].Offers[0].Static
	same(t, "static", static, map[string]string{
		"image": "diskimage.debian", "networks": `["a"]`, "provider.cloud": `"x"`, "provider.region": `"ca"`, "size": `"small"`,
		"volume":    `[{"size":3}]`,
		"user_data": `"` + strings.Repeat("x", 99) + `… (302 bytes, sha256 d24923841d98)`,
	})
}

func TestDigestDoesNotDependOnLayout(t *testing.T) {
	a := write(t, map[string]string{"main.hcl": with(nil)})
	b := write(t, map[string]string{"b.hcl": "# moved\n\n" + with(map[string]string{"label": `flavor = null`}), "a.hcl": "locals { unused = 1 }"})
	same(t, "digest", load(t, b).Desired.Digests, load(t, a).Desired.Digests)
}

// The order of blocks in the files does not affect the result.
func TestOrderOfBlocksDoesNotMatter(t *testing.T) {
	blocks := []string{
		`locals { a = local.b }`, `locals { b = var.c }`, `variable "c" { default = "m1" }`,
		"diskimage \"debian\" {\n builder \"dib\" { elements = [\"vm\"] }\n}", `label "small" {}`, `label "other" {}`,
		"provider \"acme\" \"p\" {\n cloud = \"x\"\n pool \"a\" {\n label \"small\" {\n image = diskimage.debian\n flavor = local.a\n }\n }\n}",
		"provider \"acme\" \"q\" {\n cloud = \"x\"\n pool \"a\" {\n label \"other\" { image = diskimage.debian }\n }\n}",
	}
	want := source(t, strings.Join(blocks, "\n"))
	opts := write(t, map[string]string{"main.hcl": ""})
	rapid.Check(t, func(rt *rapid.T) {
		shuffled := rapid.Permutation(blocks).Draw(rt, "order")
		got := write(t, map[string]string{"main.hcl": strings.Join(shuffled, "\n")})
		opts.Path = got.Path
		result, diags := Load(opts)
		if diags.HasErrors() {
			rt.Fatal(diags)
		}
		if result.Desired.Digests.Current() != want.Digests.Current() {
			rt.Errorf("another digest for %q", shuffled)
		}
	})
}

// TestFormerHashesOfStaticNodeHaveEarlierLabels renames a label twice, and the node whose address was its name.
func TestFormerHashesOfStaticNodeHaveEarlierLabels(t *testing.T) {
	node := func(name, attributes, label, moved string) resources.StaticNode {
		d := source(t, `label "`+label+`" {}
label "other" {}
provider "static" "lab" {
  pool "main" {
    node "`+name+`" {
      labels = ["other", "`+label+`"]
      `+attributes+`
    }
  }
}
`+moved)
		return d.WithHashKey("key").Providers[0].Pools[0].Nodes[0]
	}
	labels := `
moved {
  from = label.first
  to   = label.second
}
moved {
  from = label.second
  to   = label.third
}
`
	now := node("n1", "", "third", labels)
	renamed := node("n2", `address = "n1"`, "third", labels+`
moved {
  from = provider.lab.pool.main.node.n1
  to   = provider.lab.pool.main.node.n2
}
`)
	for _, label := range []string{"first", "second"} {
		before := node("n1", "", label, "").Hashes.Current()
		if now.Hashes.Same(before) || !now.Former.Same(before) || !renamed.Former.Same(before) {
			t.Errorf("label %s had the hash %s; the hashes are %v, the former ones %v and, with the name, %v", label, before, now.Hashes, now.Former, renamed.Former)
		}
	}
	if before := node("n1", `username = "root"`, "first", "").Hashes.Current(); now.Former.Same(before) {
		t.Error("a former hash ignores another attribute")
	}
}
