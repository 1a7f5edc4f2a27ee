package schema_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/resources/schema"
)

type volume struct {
	Name string `config:",label"`
	Size int64  `config:"size,required" min:"1" doc:"Size in GB."`
}

type volumes struct {
	Boot    *volume  `config:"boot" doc:"The first one."`
	More    []volume `config:"volume" label:"name" min:"1" doc:"More."`
	Unnamed []limits `config:"unnamed"`
}

type server struct {
	Name    string            `config:"name,replacing,nonempty" doc:"The server's name, as in 'servers' or '\"x\"'."`
	Zones   []string          `config:"zones,new" default:"a b" oneof:"a b c"`
	Tags    map[string]string `config:"tags,sensitive,hashed" default:""`
	Rate    *float64          `config:"rate" default:"0.5"`
	Volumes volumes           `config:",inline"`
	Own     string
}

func TestSchemaOfStructHasItsTags(t *testing.T) {
	one := int64(1)
	size := schema.Attribute{Name: "size", Type: cty.Number, Required: true, Min: &one, Doc: "Size in GB."}
	number := func(name string) schema.Attribute { return schema.Attribute{Name: name, Type: cty.Number} }
	want := schema.Block{
		Doc: "A server.",
		Attributes: []schema.Attribute{
			{Name: "name", Type: cty.String, Class: schema.Replacing, Doc: "The server's name, as in `servers` or `\"x\"`."},
			{Name: "zones", Type: cty.List(cty.String), Class: schema.AppliedToNew, OneOf: []string{"a", "b", "c"},
				Default: cty.ListVal([]cty.Value{cty.StringVal("a"), cty.StringVal("b")})},
			{Name: "tags", Type: cty.Map(cty.String), Sensitive: true, Hashed: true, Default: cty.MapValEmpty(cty.String)},
			{Name: "rate", Type: cty.Number, Default: cty.NumberFloatVal(0.5)},
		},
		Blocks: []schema.NestedBlock{
			{Name: "boot", Max: 1, Schema: schema.Block{Doc: "The first one.", Attributes: []schema.Attribute{size}}},
			{Name: "volume", Label: "name", Min: 1, Schema: schema.Block{Doc: "More.", Attributes: []schema.Attribute{size}}},
			{Name: "unnamed", Schema: schema.Block{Attributes: []schema.Attribute{number("cores"), number("ram")}}},
		},
	}
	got := schema.Of[server]("A server.", nil)
	opts := []cmp.Option{cmpopts.IgnoreFields(schema.Attribute{}, "Check"), cmpopts.EquateEmpty(), cmp.Comparer(cty.Type.Equals),
		cmp.Comparer(func(a, b cty.Value) bool { return fmt.Sprintf("%#v", a) == fmt.Sprintf("%#v", b) })}
	if diff := cmp.Diff(want, got, opts...); diff != "" {
		t.Errorf("schema (-want +got):\n%s", diff)
	}
}

func TestSchemaOfStructChecksValues(t *testing.T) {
	errOdd := errors.New("odd")
	b := schema.Of[server]("", map[string]schema.Check{"volume.size": func(v cty.Value) error {
		if n, _ := v.AsBigFloat().Int64(); n%2 != 0 {
			return errOdd
		}
		return nil
	}})
	size := b.Find("volume.size").Check
	if err := size(cty.NumberIntVal(3)); !errors.Is(err, errOdd) {
		t.Errorf("size 3: %v, want the error of its own check", err)
	}
	if size(cty.NumberFloatVal(2.5)) == nil || size(cty.NumberIntVal(1<<60)) == nil || size(cty.NumberIntVal(2)) != nil {
		t.Error("a field of an integer type accepts other numbers than whole ones")
	}
	if name := b.Find("name").Check; name(cty.StringVal("")) == nil || name(cty.StringVal("x")) != nil {
		t.Error("nonempty does not reject exactly the empty text")
	}
}

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

type defaults struct {
	Name  string            `config:"name" default:"a name"`
	Fast  bool              `config:"fast" default:"true"`
	Cores int64             `config:"cores" default:"2"`
	Rate  *float64          `config:"rate" default:"0.5"`
	Wait  time.Duration     `config:"wait" default:"90s"`
	Zones []string          `config:"zones" default:"a b"`
	Tags  map[string]string `config:"tags" default:""`
}

func TestDecodeReadsDefaultsFromTags(t *testing.T) {
	half, zero := 0.5, 0.0
	unset := defaults{Name: "a name", Fast: true, Cores: 2, Rate: &half, Wait: 90 * time.Second, Zones: []string{"a", "b"}}
	types := schema.Of[defaults]("", nil).Type()
	null := map[string]cty.Value{}
	for name, t := range types.AttributeTypes() {
		null[name] = cty.NullVal(t)
	}
	for name, test := range map[string]struct {
		block cty.Value
		want  defaults
	}{
		"no block": {cty.NilVal, unset}, "null block": {cty.NullVal(types), unset}, "empty block": {cty.EmptyObjectVal, unset},
		"null":           {cty.ObjectVal(null), unset},
		"of Null":        {schema.Of[defaults]("", nil).Null(), unset},
		"sensitive null": {cty.ObjectVal(map[string]cty.Value{"name": cty.NullVal(cty.String).Mark("sensitive")}), unset},
		"unknown":        {cty.UnknownVal(types), defaults{}},
		"given": {cty.ObjectVal(map[string]cty.Value{"name": cty.StringVal("b"), "cores": cty.NumberIntVal(8), "zones": cty.ListVal([]cty.Value{cty.StringVal("c")})}),
			defaults{Name: "b", Fast: true, Cores: 8, Rate: &half, Wait: 90 * time.Second, Zones: []string{"c"}}},
		"zero": {cty.ObjectVal(map[string]cty.Value{"name": cty.StringVal(""), "fast": cty.False, "cores": cty.Zero, "rate": cty.Zero, "wait": cty.StringVal("0s"),
			"zones": cty.ListValEmpty(cty.String)}), defaults{Rate: &zero}},
	} {
		var got defaults
		if err := schema.Decode(test.block, &got); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	got := defaults{Name: "kept"}
	if err := schema.Decode(cty.ObjectVal(map[string]cty.Value{"name": cty.UnknownVal(cty.String)}), &got); err != nil || got.Name != "kept" || !got.Fast {
		t.Errorf("unknown attribute: %+v, %v", got, err)
	}
}

type poolOf struct {
	Cores int64 `config:"cores" default:"2"`
}

type labelOf struct {
	Slots int64  `config:"slots" default:"1"`
	Pool  poolOf `config:",inline"`
}

func TestLabelsHaveTheAttributesOfTheirPool(t *testing.T) {
	errOdd := errors.New("odd")
	refuse := func(cty.Value) error { return errOdd }
	pool := schema.Of[poolOf]("", map[string]schema.Check{"cores": refuse})
	label := schema.ForLabels[labelOf](pool, map[string]schema.Check{"slots": refuse})
	if got := label.Find("cores").Default; got != cty.NilVal {
		t.Errorf("the default %#v of a label hides the value of the pool", got)
	}
	if !pool.Find("cores").Default.RawEquals(cty.NumberIntVal(2)) || !label.Find("slots").Default.RawEquals(cty.NumberIntVal(1)) {
		t.Error("the attributes of the pool, and those of labels only, lack their defaults")
	}
	for _, name := range []string{"cores", "slots"} {
		if err := label.Find(name).Check(cty.NumberIntVal(1)); !errors.Is(err, errOdd) {
			t.Errorf("%s: %v, want the error of its check", name, err)
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
