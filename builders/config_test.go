package builders_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/resources/schema"
)

type settings struct {
	Name     string            `config:"name"`
	List     []string          `config:"list"`
	Map      map[string]string `config:"map"`
	Password string            `config:"password,sensitive"`
}

func TestSecretsAreSensitiveAttributesAndMarkedValues(t *testing.T) {
	var got settings
	secrets, err := builders.Decode(cty.ObjectVal(map[string]cty.Value{
		"name":     cty.StringVal("x").Mark("secret"),
		"list":     cty.ListVal([]cty.Value{cty.StringVal("a")}),
		"map":      cty.MapVal(map[string]cty.Value{"k": cty.StringVal("v"), "t": cty.StringVal("token").Mark("secret")}),
		"password": cty.StringVal("p"),
	}), schema.Of[settings]("", nil), &got)
	if err != nil {
		t.Fatal(err)
	}
	want := settings{Name: "x", List: []string{"a"}, Map: map[string]string{"k": "v", "t": "token"}, Password: "p"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("decoded (-want +got):\n%s", diff)
	}
	// A mark on one element of a map may come out on the whole map: then everything in it is a secret.
	for _, secret := range []string{"x", "p", "token"} {
		if !slices.Contains(secrets, secret) {
			t.Errorf("secrets are %q, want %q among them", secrets, secret)
		}
	}
	if slices.Contains(secrets, "a") {
		t.Errorf("secrets are %q", secrets)
	}
}

func TestNonBlockValuesAreErrors(t *testing.T) {
	block := schema.Of[settings]("", nil)
	for _, value := range []cty.Value{cty.NilVal, cty.StringVal("x"), cty.NullVal(block.Type()), cty.UnknownVal(block.Type()), cty.DynamicVal} {
		if _, err := builders.Decode(value, block, &settings{}); err == nil {
			t.Errorf("%#v was read", value)
		}
	}
}
