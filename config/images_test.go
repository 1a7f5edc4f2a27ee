package config

import (
	"testing"
	"time"

	"github.com/npctl/npctl/builders/zuul"
	"github.com/npctl/npctl/resources"
)

func TestChildInheritsFromItsParents(t *testing.T) {
	d := source(t, `
diskimage "base" {
  abstract     = true
  username     = "root"
  rebuild_age  = "7d"
  properties   = { a = "1", b = "1" }
  tags         = ["base"]
  prevent_destroy = true
  builder "dib" {
    elements = ["vm"]
    env      = { A = "1", B = "1" }
    release  = "x"
  }
}
diskimage "middle" {
  parent   = diskimage.base
  abstract = true
  builder "dib" { elements = ["growroot"] }
}
diskimage "child" {
  parent      = diskimage.middle
  username    = "debian"
  properties  = { b = "2" }
  tags        = []
  rebuild_age = "0s"
  builder "dib" {
    elements = ["debian"]
    env      = { B = "2" }
  }
}
diskimage "same" { parent = diskimage.base }
label "l" {}
label "m" {}
provider "acme" "p" {
  cloud = "x"
  pool "a" {
    label "l" { image = diskimage.child }
    label "m" { image = diskimage.same }
  }
}`)
	same(t, "names", []string{d.Images[0].Name, d.Images[1].Name}, []string{"child", "same"})
	child := d.Images[0]
	same(t, "login", child.Login.Username, "debian")
	same(t, "rebuild", child.RebuildAge, time.Duration(0))
	same(t, "properties", child.Properties, map[string]string{"a": "1", "b": "2"})
	same(t, "tags", child.Tags, []string(nil))
	same(t, "prevent_destroy is not inherited", child.PreventDestroy, false)
	var elements []string
	for _, e := range child.Config.GetAttr("elements").AsValueSlice() {
		elements = append(elements, e.AsString())
	}
	same(t, "elements", elements, []string{"vm", "growroot", "debian"})
	env := child.Config.GetAttr("env").AsValueMap()
	same(t, "env", []string{env["A"].AsString(), env["B"].AsString()}, []string{"1", "2"})
	same(t, "release", child.Config.GetAttr("release").AsString(), "x")
	same(t, "all of the parent", d.Images[1].Login.Username, "root")
}

func TestZuulImageIsDecoded(t *testing.T) {
	d := source(t, `
zuul_image "z" {
  api_url   = "https://zuul.example.com/sub/"
  project   = "org/images"
  branch    = "main"
  pipelines = ["periodic"]
  job       = "build"
  token     = "hunter2"
  artifact "raw" {}
  artifact "qcow2" {
    type = "image-qcow"
    name = "big"
  }
  tls { ca = "ca.pem" }
  keep = 3
}
label "l" {}
provider "acme" "p" {
  cloud = "x"
  pool "a" {
    label "l" { image = zuul_image.z }
  }
}`)
	image := d.Images[0]
	same(t, "ref", image.Ref(), resources.ImageRef{Kind: resources.ZuulImage, Name: "z"})
	same(t, "builder", image.Builder, "zuul")
	same(t, "keep", image.Keep, 3)
	same(t, "offer", d.Providers[0].Pools[0].Offers[0].Image, image.Ref())
	c := image.Config
	same(t, "token", c.GetAttr("token").AsString(), "hunter2")
	artifacts := c.GetAttr("artifact").AsValueMap()
	same(t, "artifact types", []string{artifacts["raw"].GetAttr("type").AsString(), artifacts["qcow2"].GetAttr("type").AsString()},
		[]string{"zuul_image", "image-qcow"})
	same(t, "tls", c.GetAttr("tls").GetAttr("ca").AsString(), "ca.pem")
	same(t, "type", c.Type().Equals(new(zuul.Builder).Schema().Type()), true)
	if _, shown := image.Static["token"]; shown {
		t.Error("the token is among the static attributes")
	}
}

func TestFormatsHaveTheNamesOfZuul(t *testing.T) {
	d := source(t, `
zuul_image "z" {
  api_url      = "https://zuul.example.com/"
  project      = "org/images"
  pipelines    = ["periodic"]
  job          = "build"
  formats      = ["qcow", "vpc"]
  keep_formats = ["qcow"]
  artifact "qcow" {}
}
label "l" {}
provider "acme" "p" {
  cloud = "x"
  pool "a" {
    label "l" { image = zuul_image.z }
  }
}`)
	same(t, "formats", d.Images[0].Formats, []string{"qcow2", "vhd"})
	same(t, "keep_formats", d.Images[0].KeepFormats, []string{"qcow2"})
}

func TestConfigsHaveTheTypesOfTheirSchemas(t *testing.T) {
	d := source(t, sprintf(offering, "", ""))
	o := testOptions("")
	p := d.Providers[0]
	same(t, "provider", p.Config.Type().Equals(o.Drivers["acme"].Provider.Type()), true)
	same(t, "pool", p.Pools[0].Config.Type().Equals(o.Drivers["acme"].Pool.Type()), true)
	same(t, "label", p.Pools[0].Offers[0].Config.Type().Equals(o.Drivers["acme"].Label.Type()), true)
	same(t, "builder", d.Images[0].Config.Type().Equals(o.Builders["dib"].Type()), true)
}

// newBuilds is an image with blocks about its new builds, in a provider with one label.
func newBuilds(blocks string) string {
	return "label \"l\" {}\ndiskimage \"d\" {\n" + blocks + `
  builder "dib" { elements = ["vm"] }
}
provider "acme" "p" {
  cloud = "x"
  pool "a" {
    label "l" { image = diskimage.d }
  }
}`
}

func TestValidationAndRolloutAreDecoded(t *testing.T) {
	d := source(t, newBuilds(`
  validate {
    label   = "l"
    program = ["./test.sh"]
  }
  rollout {
    stage { share = 10 }
    stage {
      share     = 50
      successes = 3
      pause     = "1h"
    }
  }`))
	same(t, "validate", *d.Images[0].Validate, resources.Validation{Label: "l", Nodes: 1, Attempts: 3, Program: []string{"./test.sh"}, Timeout: 30 * time.Minute})
	same(t, "rollout", d.Images[0].Rollout.Stages, []resources.RolloutStage{{Share: 10, Successes: 1}, {Share: 50, Successes: 3, Pause: time.Hour}})
	if none := source(t, newBuilds("")).Images[0]; none.Validate != nil || none.Rollout != nil {
		t.Errorf("without the blocks: %+v, %+v", none.Validate, none.Rollout)
	}
}

func TestMistakesAboutNewBuilds(t *testing.T) {
	for blocks, want := range map[string]string{
		`validate { label = "m" }`:             `There is no label "m"`,
		`validate { nodes = 0 }`:               "less than the minimum of 1",
		`validate { timeout = "soon" }`:        "timeout",
		`rollout {}`:                           "needs a stage",
		`rollout { share = 10 }`:               "share",
		"rollout {\n stage { share = 0 }\n}":   "less than the minimum of 1",
		"rollout {\n stage { share = 101 }\n}": "the maximum is 100 percent",
		"rollout {\n stage {}\n}":              "share",
		"validate {}\nvalidate {}":             "validate",
	} {
		wantText(t, loadErrors(t, write(t, map[string]string{"main.hcl": newBuilds(blocks)})), want)
	}
}
