package config

import (
	"strings"
	"testing"

	"github.com/npctl/npctl/resources"
)

// names lists the objects of a configuration, one per line.
func names(d resources.Desired) string {
	var b strings.Builder
	for _, l := range d.Labels {
		b.WriteString("label " + l.Name + "\n")
	}
	for _, i := range d.Images {
		b.WriteString(i.Ref().String() + "\n")
	}
	for _, p := range d.Providers {
		b.WriteString("provider " + p.Name + "\n")
		for _, pool := range p.Pools {
			b.WriteString("  pool " + pool.Name + "\n")
			for _, o := range pool.Offers {
				b.WriteString("    label " + o.Label + " of " + o.Image.String() + "\n")
			}
			for _, n := range pool.Nodes {
				b.WriteString("    node " + n.Name + " " + strings.Join(n.Labels, ",") + "\n")
			}
		}
		for _, i := range p.CloudImages {
			b.WriteString("  cloud_image " + i.Name + "\n")
		}
	}
	return b.String()
}

func TestForEachRepeatsEveryBlock(t *testing.T) {
	d := source(t, `
locals {
  releases = { bookworm = "12", trixie = "13" }
  regions  = { for r in ["ca", "de"] : r => { sizes = toset(["s", "l"]), region = upper(r) } }
}
diskimage "debian" {
  for_each = local.releases
  builder "dib" {
    elements = ["debian"]
    release  = each.value
  }
}
label "debian" {
  for_each = diskimage.debian
}
label "sized" {
  for_each = { for pair in setproduct(keys(local.regions), ["s", "l"]) : join("-", pair) => pair }
  name     = "cloud-${each.key}"
}
label "host" {}
provider "acme" "vex" {
  for_each = local.regions
  cloud    = "x"
  region   = each.value.region
  pool "main" {
    label "debian" {
      for_each = diskimage.debian
      image    = each.value
    }
  }
  pool "pool" {
    for_each = each.value.sizes
    label "l" {
      name  = "cloud-${local.regions[lower(each.key) == "s" ? "ca" : "de"].region == "CA" ? "ca" : "de"}-${each.key}"
      image = cloud_image.vendor[each.key]
    }
  }
  cloud_image "vendor" {
    for_each   = each.value.sizes
    image_name = "img-${each.key}"
  }
}
provider "static" "lab" {
  pool "a" {
    node "n" {
      for_each = toset(["1", "2"])
      name     = "n${each.key}.example.com"
      labels   = [label.host]
    }
  }
}
`)
	same(t, "names", names(d), `label cloud-ca-l
label cloud-ca-s
label cloud-de-l
label cloud-de-s
label debian-bookworm
label debian-trixie
label host
diskimage.debian-bookworm
diskimage.debian-trixie
provider lab
  pool a
    node n1.example.com host
    node n2.example.com host
provider vex-ca
  pool main
    label debian-bookworm of diskimage.debian-bookworm
    label debian-trixie of diskimage.debian-trixie
  pool pool-l
    label cloud-de-l of cloud_image.vendor-l
  pool pool-s
    label cloud-ca-s of cloud_image.vendor-s
  cloud_image vendor-l
  cloud_image vendor-s
provider vex-de
  pool main
    label debian-bookworm of diskimage.debian-bookworm
    label debian-trixie of diskimage.debian-trixie
  pool pool-l
    label cloud-de-l of cloud_image.vendor-l
  pool pool-s
    label cloud-ca-s of cloud_image.vendor-s
  cloud_image vendor-l
  cloud_image vendor-s
`)
	same(t, "region", d.Providers[1].Config.GetAttr("region").AsString(), "CA")
	same(t, "release", d.Images[1].Config.GetAttr("release").AsString(), "13")
}

func TestEmptyForEachCreatesNoInstance(t *testing.T) {
	d := source(t, `
label "a" { for_each = {} }
diskimage "d" {
  for_each = toset([])
  builder "dib" { elements = [each.key] }
}`)
	same(t, "names", names(d), "")
}

func TestDynamicBlocksSeeEachOfOuterBlocks(t *testing.T) {
	d := source(t, `
label "l" {
  for_each = toset(["a", "b"])
}
diskimage "d" {
  dynamic "builder" {
    for_each = ["dib"]
    labels   = [builder.value]
    content { elements = ["e${builder.key}"] }
  }
}
provider "acme" "p" {
  for_each = { one = ["a", "b"] }
  cloud    = "x"
  dynamic "pool" {
    for_each = each.value
    iterator = letter
    labels   = ["pool-${letter.value}"]
    content {
      max_servers = letter.key + 1
      dynamic "label" {
        for_each = toset([letter.value])
        labels   = ["l-${label.key}"]
        content {
          image  = diskimage.d
          flavor = "${each.key}-${letter.key}-${label.value}"
          dynamic "volume" {
            for_each = range(letter.key + 1)
            content { size = 10 * (volume.value + 1) }
          }
        }
      }
    }
  }
}
`)
	same(t, "names", names(d), `label l-a
label l-b
diskimage.d
provider p-one
  pool pool-a
    label l-a of diskimage.d
  pool pool-b
    label l-b of diskimage.d
`)
	offer := d.Providers[0].Pools[1].Offers[0].Config
	same(t, "flavor", offer.GetAttr("flavor").AsString(), "one-1-b")
	same(t, "volumes", offer.GetAttr("volume").LengthInt(), 2)
	same(t, "size", offer.GetAttr("volume").AsValueSlice()[1].GetAttr("size").AsBigFloat().String(), "20")
	same(t, "elements", d.Images[0].Config.GetAttr("elements").AsValueSlice()[0].AsString(), "e0")
}

func TestDynamicErrorsAreExplained(t *testing.T) {
	got := loadErrors(t, write(t, map[string]string{"main.hcl": `
label "l" {}
provider "static" "p" {
  dynamic "pol" {
    for_each = ["a"]
    content {}
  }
  dynamic "pool" {
    for_each = ["a"]
    labels   = [pool.value]
  }
  dynamic "pool" {
    for_each = ["a"]
    label    = [pool.value]
    content {}
  }
  dynamic "pool" {
    for_each = 3
    content {}
  }
  dynamic "pool" {
    content {}
  }
  dynamic "pool" {
    for_each = ["a"]
    iterator = "x"
    content {}
  }
  dynamic "pool" {
    for_each = ["a"]
    labels   = 3
    content {}
  }
  dynamic "pool" {
    for_each = ["a"]
    content {}
  }
}
`}))
	wantText(t, got, `no block of type "pol". Did you mean "pool"?`, "needs a content block", `no attribute named "label"`,
		`Did you mean "labels"?`, "this is a number", "needs for_each", "written without quotes", "list of strings", "has one label (name)")
}

func TestForEachKeysThatMakeInvalidNamesAreErrors(t *testing.T) {
	got := loadErrors(t, write(t, map[string]string{"main.hcl": `
diskimage "a" {
  for_each = toset(["x/y"])
  builder "dib" { elements = ["x"] }
}
diskimage "../b" {
  builder "dib" { elements = ["x"] }
}
label "c" { name = "" }
label "d" { name = null }
label "e" { for_each = [1] }
label "f" { for_each = "x" }
label "g" { name = sensitive("x") }
label "h" { for_each = sensitive({}) }
`}))
	wantText(t, got, `The name "a-x/y" has characters other than`, `The name "../b" must start with`, `The name "" is empty`,
		"neither null nor sensitive", "this is a tuple", "this is a string", "A for_each cannot be sensitive")
}
