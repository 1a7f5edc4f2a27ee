package config

import (
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
)

// oddValues are values that people and generators write by mistake.
var oddValues = []string{
	`null`, `""`, `"x"`, `"\u0000"`, `0`, `-1`, `1.5`, `1e400`, `-1e400`, `true`, `[]`, `[null]`, `["a", 1, null]`, `{}`, `{ a = null }`,
	`{ "" = "" }`, `[[]]`, `toset(["a"])`, `tomap({ a = "b" })`, `sensitive("x")`, `sensitive(["x"])`, `[sensitive("x")]`,
	`{ a = sensitive("x") }`, `sensitive(null)`, `var.unset`, `[var.unset]`, `local.failed`, `diskimage.debian`, `diskimage`,
	`sensitive(diskimage.debian)`, `[diskimage.debian]`, `{ type = null, name = null }`, `{ type = "cloud_image", name = "nope" }`,
	`{ type = "diskimage", name = sensitive("debian") }`, `label.small`, `each.key`, `path.config`, `1 / 0`, `"99999999999999999999h"`,
}

// everywhere has a position for an attribute in every block type.
const everywhere = `
variable "unset" {}
variable "typed" {
  <variable>
}
locals { failed = tonumber("x") }
npctl {
  <npctl>
  gearman {
    <gearman>
  }
  tenant_limit "t" {
    <tenant_limit>
  }
  state "bolt" {
    <state>
  }
}
label "small" {
  <label>
}
diskimage "debian" {
  builder "dib" {
    <builder>
  }
}
diskimage "child" {
  parent = diskimage.debian
  builder "dib" {
    <builder>
  }
  <diskimage>
}
zuul_image "z" {
  artifact "raw" {
    <artifact>
  }
  <zuul_image>
}
provider "acme" "one" {
  <provider>
  cloud_image "c" {
    <cloud_image>
  }
  image "debian" {
    <image>
  }
  pool "main" {
    <pool>
    label "small" {
      <offer>
      volume {
        <volume>
      }
    }
  }
}
provider "static" "lab" {
  pool "main" {
    node "n1" {
      <node>
    }
  }
}
`

// attributesOf lists the attributes of the block at each position of everywhere.
func attributesOf(s *specs) map[string][]string {
	acme, static := s.drivers["acme"], s.drivers["static"]
	list := func(s *spec) []string {
		attrs, _ := s.words()
		return attrs
	}
	return map[string][]string{
		"npctl": list(s.npctl), "gearman": list(s.npctl.blocks["gearman"].spec), "tenant_limit": list(s.npctl.blocks["tenant_limit"].spec),
		"state": list(s.states["bolt"]), "label": list(s.label), "builder": list(s.builders["dib"]), "diskimage": list(s.diskimage),
		"artifact": list(s.zuulImage.blocks["artifact"].spec), "zuul_image": list(s.zuulImage), "provider": list(acme.provider),
		"cloud_image": list(acme.cloudImage), "image": list(acme.providerImage), "pool": list(acme.pool), "offer": list(acme.offer),
		"volume": list(acme.offer.blocks["volume"].spec), "node": list(static.node), "variable": list(s.variable),
	}
}

// written are the attributes that fill sets in each block, unless one of them is under test.
var written = map[string]map[string]string{
	"variable": {"type": "string", "default": `"x"`}, "gearman": {"servers": `["a"]`}, "builder": {"elements": `["x"]`},
	"zuul_image": {"api_url": `"https://zuul.example.com"`, "project": `"p"`, "pipelines": `["x"]`, "job": `"j"`},
	"provider":   {"cloud": `"x"`}, "offer": {"image": "diskimage.debian"}, "volume": {"size": "1"}, "node": {"labels": `["small"]`},
}

// fill writes the i-th attribute of every block with the same value.
func fill(places map[string][]string, i int, value string) string {
	pairs := []string{}
	for place, attributes := range places {
		lines := maps.Clone(written[place])
		if lines == nil {
			lines = map[string]string{}
		}
		lines[attributes[i%len(attributes)]] = value
		text := ""
		for name, value := range lines {
			text += name + " = " + value + "\n"
		}
		pairs = append(pairs, "<"+place+">", text)
	}
	return strings.NewReplacer(pairs...).Replace(everywhere)
}

// Any value in any attribute is either valid or an error with a position. It never causes a panic.
func TestAnyValueOfAnyAttributeIsAcceptedOrExplained(t *testing.T) {
	opts := write(t, map[string]string{"main.hcl": ""})
	places := attributesOf(newSpecs(opts))
	longest := 0
	for _, attributes := range places {
		longest = max(longest, len(attributes))
	}
	for i := range longest {
		for j, value := range oddValues {
			if raceDetector && (i+j)%5 != 0 {
				continue // a fifth of the pairs
			}
			src := fill(places, i, value)
			if err := os.WriteFile(opts.Path+"/main.hcl", []byte(src), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, unset := range []string{"unset=x", "none=x"} {
				opts.Vars = []string{unset}
				checkOutcome(t, opts, src)
			}
		}
	}
}

func checkOutcome(t *testing.T, opts Options, src string) {
	t.Helper()
	result, diags := Load(opts)
	for _, diag := range diags {
		if diag.Summary == internalError || diag.Subject == nil && diag.Summary != "Unknown variable" {
			t.Fatalf("%s\nof:\n%s", text(t, hcl.Diagnostics{diag}, result.Files), src)
		}
	}
}
