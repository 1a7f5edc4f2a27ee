package block

import (
	"slices"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources/schema"
)

var example = schema.Block{Attributes: []schema.Attribute{
	{Name: "name", Type: cty.String},
	{Name: "list", Type: cty.List(cty.String)},
	{Name: "map", Type: cty.Map(cty.String)},
	{Name: "password", Type: cty.String, Sensitive: true},
	{Name: "yes", Type: cty.Bool},
	{Name: "time", Type: cty.String, Format: schema.FormatDuration},
}}

func TestAttributesAreRead(t *testing.T) {
	b, err := Read(cty.ObjectVal(map[string]cty.Value{
		"name":     cty.StringVal("x").Mark("secret"),
		"list":     cty.ListVal([]cty.Value{cty.StringVal("a"), cty.StringVal("b")}),
		"map":      cty.MapVal(map[string]cty.Value{"k": cty.StringVal("v"), "t": cty.StringVal("token").Mark("secret")}),
		"password": cty.StringVal("p"),
		"yes":      cty.True,
		"time":     cty.StringVal("1d"),
	}), example)
	testutil.Must(t, err)
	if d, err := b.Duration("time"); d != 24*time.Hour || err != nil {
		t.Errorf("time is %s, %v", d, err)
	}
	if b.String("name") != "x" || !slices.Equal(b.Strings("list"), []string{"a", "b"}) || b.Map("map")["t"] != "token" || !b.Bool("yes") {
		t.Errorf("read %q, %q, %q, %t", b.String("name"), b.Strings("list"), b.Map("map"), b.Bool("yes"))
	}
	// A mark on one element of a map may come out on the whole map: then everything in it is a secret.
	for _, secret := range []string{"x", "p", "token"} {
		if !slices.Contains(b.Secrets(), secret) {
			t.Errorf("secrets are %q, want %q among them", b.Secrets(), secret)
		}
	}
	if slices.Contains(b.Secrets(), "a") {
		t.Errorf("secrets are %q", b.Secrets())
	}
}

func TestNullAttributesAreZero(t *testing.T) {
	b, err := Read(example.Null(), example)
	testutil.Must(t, err)
	d, err := b.Duration("time")
	if b.String("name")+b.String("no-such") != "" || b.Strings("list") != nil || b.Map("map") != nil || b.Bool("yes") || d != 0 || err != nil || len(b.Secrets()) > 0 {
		t.Errorf("a null block is %+v", b)
	}
}

func TestNonBlockValuesAreErrors(t *testing.T) {
	for _, value := range []cty.Value{cty.NilVal, cty.StringVal("x"), cty.NullVal(example.Type()), cty.UnknownVal(example.Type()), cty.DynamicVal} {
		if _, err := Read(value, example); err == nil {
			t.Errorf("%#v was read", value)
		}
	}
	b, err := Read(cty.ObjectVal(map[string]cty.Value{"time": cty.StringVal("soon")}), example)
	testutil.Must(t, err)
	if _, err := b.Duration("time"); err == nil {
		t.Error("a duration of \"soon\" was read")
	}
}
