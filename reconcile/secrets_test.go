package reconcile

import (
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
)

// E7: a value marked sensitive in a nested block, and an attribute that is sensitive two blocks deep.
func TestSecretsInNestedBlocksAreNotRemembered(t *testing.T) {
	inner := schema.Block{Attributes: []schema.Attribute{{Name: "password", Type: cty.String, Sensitive: true}}}
	body := schema.Block{Blocks: []schema.NestedBlock{{Name: "tls", Max: 1, Schema: schema.Block{
		Attributes: []schema.Attribute{{Name: "token", Type: cty.String}},
		Blocks:     []schema.NestedBlock{{Name: "key", Max: 1, Schema: inner}}}}}}
	config := cty.ObjectVal(map[string]cty.Value{"tls": cty.ObjectVal(map[string]cty.Value{
		"token": cty.StringVal("hunter2").Mark("sensitive"),
		"key":   cty.ObjectVal(map[string]cty.Value{"password": cty.StringVal("hunter3")})})})
	record, err := Remember(&resources.Provider{Name: "p", Driver: "d", Config: config}, body)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"hunter2", "hunter3"} {
		if strings.Contains(string(record.Config), secret) {
			t.Errorf("%s is kept in %s", secret, record.Config)
		}
	}
}
