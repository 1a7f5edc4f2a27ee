package config

import (
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/resources"
)

func TestSampleIsDecodedCompletely(t *testing.T) {
	result, diags := Load(testOptions("testdata/sample"))
	if len(diags) != 1 || diags[0].Summary != "Unused image" {
		t.Fatalf("want just the warning of the unused zuul_image, got:\n%s", text(t, diags, result.Files))
	}
	golden(t, "testdata/sample/desired.json", dump(t, result.Desired))
}

const offering = `
label "small" { min_ready = 1 }
diskimage "debian" {
  builder "dib" { elements = ["vm"] }
}
provider "acme" "one" {
  cloud = "x"
  pool "main" {
    %s
    label "small" {
      image = diskimage.debian
      %s
    }
  }
}
`

func TestMinReadyOfMinusOneMeansNone(t *testing.T) {
	d := source(t, `label "small" { min_ready = -1 }`)
	same(t, "min_ready", d.Labels[0].MinReady, int64(0))
	if got := loadErrors(t, write(t, map[string]string{"a.hcl": `label "small" { min_ready = -2 }`})); !strings.Contains(got, "-1") {
		t.Errorf("the limit is missing in:\n%s", got)
	}
}

func TestPricesHaveACurrencyAndALimit(t *testing.T) {
	prices := func(attributes string) string {
		return `provider "acme" "one" {
  cloud = "x"
  ` + attributes + `
}`
	}
	d := source(t, prices(`prices = { a = 0.5, b = 100000000 }
  currency = "₿"`))
	same(t, "currency", d.Providers[0].Currency, "₿")
	for attributes, want := range map[string]string{
		`currency = "EURO DOLLARS"`:                "is not a currency",
		`currency = "euros and more"`:              "is not a currency",
		`currency = ""`:                            "is not a currency",
		`currency = "E\u001b"`:                     "is not a currency",
		`prices = { small = 1, huge = 100000001 }`: `the price of "huge" is more than 100000000`,
		`prices = { small = -1 }`:                  "0",
	} {
		if got := loadErrors(t, write(t, map[string]string{"a.hcl": prices(attributes)})); !strings.Contains(got, want) {
			t.Errorf("%s: %q is missing in:\n%s", attributes, want, got)
		}
	}
}

func TestListedImageOfProviderIsUsed(t *testing.T) {
	for upload, warnings := range map[string]int{"": 1, "upload = false": 1, "upload = true": 0} {
		files := map[string]string{"a.hcl": `
diskimage "debian" {
  builder "dib" { elements = ["vm"] }
}
provider "acme" "one" {
  cloud = "x"
  image "debian" {
    ` + upload + `
  }
}
`}
		result, diags := Load(write(t, files))
		if got := strings.Count(text(t, diags, result.Files), "Unused image"); got != warnings || diags.HasErrors() {
			t.Fatalf("%q: want %d warnings of unused images, got:\n%s", upload, warnings, text(t, diags, result.Files))
		}
		d := result.Desired
		same(t, "used with "+upload, d.Providers[0].Uses(d.Images[0].Ref()), warnings == 0)
	}
}

func TestEmptyBlocksGetDefaults(t *testing.T) {
	d := source(t, `label "small" {}`)
	same(t, "labels", len(d.Labels), 1)
	d.Settings.Dir = ""
	same(t, "leak limit", d.Settings.LeakLimit, 10)
	same(t, "leak age", d.Settings.LeakSightings, 10*time.Minute)
	same(t, "state", d.Settings.State.Kind, "bolt")
	same(t, "state path", d.Settings.State.Config.GetAttr("path").AsString(), "npctl.db")
	same(t, "images", d.Settings.ImagesDir, "images")
	same(t, "work on images", d.Settings.ImageWork, resources.ImageWork{Builds: 1, Fetches: 2, Snapshots: 2, Conversions: 1})
}

func TestSettingsAreDecoded(t *testing.T) {
	d := source(t, `
npctl {
  required_version    = ">= 0.3, < 1"
  images_dir          = "./img"
  build_log_dir       = "/var/log/npctl"
  build_log_retention = -1
  max_hold_age        = "7d"
  leak_limit          = 0
  leak_age            = "1h30m"
  state "zookeeper" { hosts = ["zk1:2281"] }
  gearman {
    servers = ["g1", "g2:4731"]
    tls {
      ca   = "ca.pem"
      cert = "cert.pem"
      key  = "key.pem"
    }
  }
  tenant_limit "b" { max_servers = 3 }
  tenant_limit "a" {
    max_cores = 10
    max_ram   = 0
    max_volumes   = 4
    max_volume_gb = 10
  }
  max_builds          = 2
  max_fetches         = 3
  max_snapshot_builds = 4
  max_conversions     = 5
}
`)
	s := d.Settings
	if hosts := s.State.Config.GetAttr("hosts").AsValueSlice(); s.State.Kind != "zookeeper" || hosts[0].AsString() != "zk1:2281" {
		t.Errorf("state: got %s %#v", s.State.Kind, s.State.Config)
	}
	ten, zero, three, four := int64(10), int64(0), int64(3), int64(4)
	same(t, "tenant limits", s.TenantLimits, []resources.TenantLimit{
		{Tenant: "a", Limits: resources.Limits{MaxCores: &ten, MaxRAM: &zero, MaxVolumes: &four, MaxVolumeGB: &ten}}, {Tenant: "b", Limits: resources.Limits{MaxServers: &three}},
	})
	same(t, "gearman", s.Gearman, &resources.Gearman{
		Servers: []string{"g1", "g2:4731"}, TLS: &resources.TLS{CA: "ca.pem", Cert: "cert.pem", Key: "key.pem"},
	})
	same(t, "hold", s.MaxHoldAge, 7*24*time.Hour)
	same(t, "leak age", s.LeakSightings, 90*time.Minute)
	same(t, "logs kept", s.BuildLogKeep, -1)
	same(t, "work on images", s.ImageWork, resources.ImageWork{Builds: 2, Fetches: 3, Snapshots: 4, Conversions: 5})
}

func TestRequiredVersionIsChecked(t *testing.T) {
	for version, fits := range map[string]bool{
		"0.3.0": true, "0.2.9": false, "1.0.0": false, "0.3.0-dev": true, "": true, "(devel)": true,
	} {
		opts := write(t, map[string]string{"main.hcl": `npctl { required_version = ">= 0.3, < 1" }`})
		opts.Version = version
		result, diags := Load(opts)
		if diags.HasErrors() == fits {
			t.Errorf("npctl %q: fits %v, got:\n%s", version, fits, text(t, diags, result.Files))
		}
	}
	opts := write(t, map[string]string{"main.hcl": `npctl { required_version = "new" }`})
	wantText(t, loadErrors(t, opts), `"new" is not a version constraint`)
}

func TestOfferInheritsAttributesOfItsPool(t *testing.T) {
	config := func(pool, label string) map[string]any {
		d := source(t, sprintf(offering, pool, label))
		c := d.Providers[0].Pools[0].Offers[0].Config
		networks := []string{}
		if v := c.GetAttr("networks"); !v.IsNull() {
			for _, n := range v.AsValueSlice() {
				networks = append(networks, n.AsString())
			}
		}
		return map[string]any{"networks": networks, "keys": c.GetAttr("host_key_checking").True()}
	}
	same(t, "nothing", config("", ""), map[string]any{"networks": []string{}, "keys": true})
	same(t, "pool", config("networks = [\"a\"]\nhost_key_checking = false", ""), map[string]any{"networks": []string{"a"}, "keys": false})
	same(t, "label", config("networks = [\"a\"]\nhost_key_checking = false", "networks = [\"b\"]\nhost_key_checking = true"),
		map[string]any{"networks": []string{"b"}, "keys": true})
	same(t, "null is the same as not written", config("networks = [\"a\"]", "networks = null"),
		map[string]any{"networks": []string{"a"}, "keys": true})
}

func TestPoolInheritsPriorityOfItsProvider(t *testing.T) {
	d := source(t, `
label "l" {}
provider "static" "s" {
  priority = 7
  pool "a" {
    node "n" { labels = ["l"] }
  }
  pool "b" {
    priority = 3
    node "m" { labels = ["l"] }
  }
}`)
	same(t, "priorities", []int64{d.Providers[0].Pools[0].Priority, d.Providers[0].Pools[1].Priority}, []int64{7, 3})
}

func TestStaticNodeIsDecoded(t *testing.T) {
	d := source(t, `
label "l" {}
label "m" {}
provider "static" "s" {
  pool "a" {
    node "win.example.com" {
      labels          = [label.l, "m"]
      address         = "192.0.2.7"
      connection_type = "winrm"
      username        = "Administrator"
      shell_type      = "powershell"
      slots           = 2
    }
    node "fd00::1" { labels = ["l"] }
  }
}`)
	nodes := d.Providers[0].Pools[0].Nodes
	same(t, "login", nodes[1].Login, resources.Login{
		Username: "Administrator", PythonPath: "auto", ShellType: "powershell", ConnectionType: "winrm", ConnectionPort: 5986,
	})
	same(t, "labels", nodes[1].Labels, []string{"l", "m"})
	same(t, "address", nodes[1].Address, "192.0.2.7")
	same(t, "slots", nodes[1].Slots, int64(2))
	same(t, "address from the name", nodes[0].Address, "fd00::1")
	same(t, "driver's attribute", nodes[0].Config.GetAttr("timeout").AsString(), "5s")
}

func TestCloudImageNameDefaultsToTheLabel(t *testing.T) {
	d := source(t, `
label "l" {}
label "m" {}
provider "acme" "p" {
  cloud = "x"
  pool "a" {
    label "l" { image = cloud_image.noble }
    label "m" { image = cloud_image["by-id"] }
  }
  cloud_image "noble" { username = "ubuntu" }
  cloud_image "by-id" { image_id = "4711" }
}`)
	images := d.Providers[0].CloudImages
	same(t, "by id", []string{images[0].ImageID, images[0].Image}, []string{"4711", ""})
	same(t, "by name", []string{images[1].ImageID, images[1].Image, images[1].Login.Username}, []string{"", "noble", "ubuntu"})
}

func TestProviderImageGetsTheKindOfItsImage(t *testing.T) {
	d := source(t, `
label "l" {}
diskimage "debian" {
  for_each = toset(["12"])
  builder "dib" { elements = [each.key] }
}
provider "acme" "p" {
  cloud = "x"
  pool "a" {
    label "l" { image = diskimage.debian["12"] }
  }
  image "debian" {
    for_each     = diskimage.debian
    pause        = true
    config_drive = true
    properties   = { of = each.value.name }
  }
}`)
	image := d.Providers[0].Images[0]
	same(t, "ref", image.Image, resources.ImageRef{Kind: resources.DiskImage, Name: "debian-12"})
	same(t, "properties", image.Properties, map[string]string{"of": "debian-12"})
	same(t, "no login of its own", image.Login, resources.Login{})
	same(t, "driver's attribute", image.Config.GetAttr("config_drive").True(), true)
}

func TestSingleFileIsLoadedAlone(t *testing.T) {
	opts := write(t, map[string]string{
		"one.hcl": `variable "v" { default = "d" }` + "\nlabel \"one\" {}", "two.hcl": `label "two" {}`, "x.auto.vars.hcl": `v = "auto"`,
	})
	opts.Path += "/one.hcl"
	result := load(t, opts)
	same(t, "labels", len(result.Desired.Labels), 1)
	same(t, "variable", result.Variables["v"], VariableValue{Value: "d", From: "default"})
}

func TestMissingConfigurationIsExplained(t *testing.T) {
	wantText(t, loadErrors(t, write(t, map[string]string{"readme.md": "", "x.vars.hcl": ""})), "has no file that ends with .hcl")
	opts := testOptions("testdata/none")
	wantText(t, loadErrors(t, opts), "testdata/none: no such file or directory")
	opts = write(t, map[string]string{"sub.hcl/x": ""})
	wantText(t, loadErrors(t, opts), "has no file that ends with .hcl")
}

func TestReferencesCrossFiles(t *testing.T) {
	result := load(t, write(t, map[string]string{
		"a.hcl": sprintf(offering, "", `flavor = local.flavor`), "b.hcl": `locals { flavor = local.other }`, "c.hcl": `locals { other = "m1" }`,
	}))
	same(t, "flavor", result.Desired.Providers[0].Pools[0].Offers[0].Config.GetAttr("flavor").AsString(), "m1")
}
