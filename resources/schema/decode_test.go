package schema_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/resources/schema"
)

type disk struct {
	Name string `config:",label"`
	Size int64  `config:"size"`
}

type limits struct {
	Cores *int64 `config:"cores"`
	RAM   *int64 `config:"ram"`
}

type machine struct {
	Name    string            `config:"name"`
	Fast    *bool             `config:"fast"`
	Rate    float64           `config:"rate"`
	Wait    time.Duration     `config:"wait"`
	Zones   []string          `config:"zones"`
	Tags    map[string]string `config:"tags"`
	Limits  limits            `config:",inline"`
	TLS     *disk             `config:"tls"`
	Disks   []disk            `config:"disk"`
	Faults  []disk            `config:"fault"`
	Default string            `config:"default"`
	Other   string
}

func TestDecodeReadsEveryType(t *testing.T) {
	size := func(n int64) cty.Value { return cty.ObjectVal(map[string]cty.Value{"size": cty.NumberIntVal(n)}) }
	got := machine{Default: "kept", Other: "kept", Zones: []string{"removed"}}
	err := schema.Decode(cty.ObjectVal(map[string]cty.Value{
		"name": cty.StringVal("x").Mark("sensitive"), "fast": cty.False, "rate": cty.NumberFloatVal(0.5), "wait": cty.StringVal("1d"),
		"zones": cty.ListValEmpty(cty.String), "tags": cty.MapVal(map[string]cty.Value{"a": cty.StringVal("b").Mark("sensitive")}),
		"cores": cty.NumberIntVal(0), "ram": cty.NullVal(cty.Number), "tls": size(1),
		"disk":  cty.MapVal(map[string]cty.Value{"b": size(2), "a": size(1)}),
		"fault": cty.ListVal([]cty.Value{size(4), size(3)}), "default": cty.UnknownVal(cty.String),
	}), &got)
	if err != nil {
		t.Fatal(err)
	}
	fast, cores := false, int64(0)
	want := machine{
		Name: "x", Fast: &fast, Rate: 0.5, Wait: 24 * time.Hour, Tags: map[string]string{"a": "b"}, Limits: limits{Cores: &cores},
		TLS: &disk{Size: 1}, Disks: []disk{{"a", 1}, {"b", 2}}, Faults: []disk{{"", 4}, {"", 3}}, Default: "kept", Other: "kept",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("decoded (-want +got):\n%s", diff)
	}
}

func TestDecodeOfNoBlockChangesNothing(t *testing.T) {
	for _, value := range []cty.Value{cty.NilVal, cty.NullVal(cty.EmptyObject), cty.DynamicVal, cty.EmptyObjectVal} {
		got := machine{Name: "kept"}
		if err := schema.Decode(value, &got); err != nil || got.Name != "kept" {
			t.Errorf("%#v: %+v, %v", value, got, err)
		}
	}
}

func TestDecodeReportsInvalidValues(t *testing.T) {
	for name, value := range map[string]cty.Value{"wait": cty.StringVal("soon"), "cores": cty.StringVal("x"), "zones": cty.StringVal("x").Mark("m")} {
		if err := schema.Decode(cty.ObjectVal(map[string]cty.Value{name: value}), &machine{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
