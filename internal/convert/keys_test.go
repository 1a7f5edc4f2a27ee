package convert

import (
	"testing"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
)

type acmePool struct {
	Zones []string `config:"zones" doc:"Zones."`
	Fast  bool     `config:"fast" default:"false" doc:"Fast nodes."`
}

type acmeLabel struct {
	Size string   `config:"size,required" doc:"Size."`
	Disk int64    `config:"disk" default:"20" min:"1" doc:"Size of the disk."`
	Pool acmePool `config:",inline"`
}

// acme is a driver that npctl does not have.
func acme() map[string]schema.Driver {
	pool := schema.Of[acmePool]("", nil)
	return map[string]schema.Driver{"acme": {Pool: pool, Label: schema.ForLabels[acmeLabel](pool, nil), HasLabels: true, Nodepool: &schema.Nodepool{
		Guide:    "acme",
		Provider: []schema.NodepoolKey{{Key: "zone", Attr: "zones", For: "pool"}, {Key: "colour", Note: "npctl has no colours"}},
		Pool:     []schema.NodepoolKey{{Key: "fast", Attr: "fast", Default: "true"}},
		Label: []schema.NodepoolKey{
			{Key: "machine.type", Attr: "size"}, {Key: "size", Attr: "size"}, {Key: "disk", Attr: "disk", Default: "10"},
		},
	}}}
}

func TestDriverNeedsOnlyItsTable(t *testing.T) {
	in := Input{Name: "n.yaml", Drivers: acme(), YAML: []byte(`labels: [{name: a}, {name: b}]
providers:
- name: p
  driver: acme
  zone: z1 # the near one
  colour: red
  pools:
  - name: m
    labels:
    - {name: a, machine: {type: big, kind: x}, size: small}
    - {name: b, size: small, disk: 30}
`)}
	r, err := Convert(in)
	if err != nil {
		t.Fatal(err)
	}
	text := string(r.Files[0].Data)
	wantLines(t, text, `provider "acme" "p" {`, `zones = ["z1"] # the near one`, `fast = true # Nodepool's default`, `size = "big"`, `disk = 10 # Nodepool's default`, `disk = 30`)
	for path, want := range map[string]Verdict{"providers[p].zone": Converted, "providers[p].colour": NoEffect, "providers[p].pools[m].labels[a].machine.type": Converted,
		"providers[p].pools[m].labels[a].machine.kind": Unsupported, "providers[p].pools[m].labels[a].size": NoEffect} {
		if e := entryOf(t, r, path); e.Verdict != want {
			t.Errorf("entry: %+v", e)
		}
	}
	c, err := Compare(in, nil, resources.Desired{})
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for _, d := range c.Differences {
		values[d.Path] = d.Nodepool
	}
	for key, want := range map[string]string{"size": "big", "disk": "10", "zone": `["z1"]`, "fast": "true"} {
		if got := values[`provider "p".pool "m".label "a".`+key]; got != want {
			t.Errorf("%s of the label is %q, not %q", key, got, want)
		}
	}
}

func TestMissingKeysAreReportedByTheirNames(t *testing.T) {
	_, err := Convert(Input{Name: "n.yaml", Drivers: acme(), YAML: []byte("labels: [{name: a}]\nproviders: [{name: p, driver: acme, pools: [{name: m, labels: [{name: a}]}]}]\n")})
	if err == nil || err.Error() != "n.yaml:2: the label has no size" {
		t.Errorf("error %v", err)
	}
}
