package resources_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/resources"
)

// TestHashesStayTheSame guards against hashes that would replace every node and image at an upgrade.
func TestHashesStayTheSame(t *testing.T) {
	value := cty.ObjectVal(map[string]cty.Value{
		"image": cty.StringVal("tiny"), "none": cty.NullVal(cty.String),
		"label": cty.ObjectVal(map[string]cty.Value{"flavor": cty.StringVal("small"), "userdata": cty.StringVal("geheim").Mark("sensitive"), "volume": cty.NumberIntVal(80)}),
	})
	if got := resources.HashValue(value); !got.Match("v1:5f1d715fc0fbe8740055b95b2db24a8d") {
		t.Errorf("hashes are %s", got)
	}
}

func offerWith(flavor string, userdata cty.Value) resources.HashSource {
	return resources.SourceOfHash(cty.ObjectVal(map[string]cty.Value{"flavor": cty.StringVal(flavor), "label": cty.TupleVal([]cty.Value{
		cty.ObjectVal(map[string]cty.Value{"userdata": userdata}), cty.ListVal([]cty.Value{cty.StringVal("x")})})}))
}

func TestHashesOfSensitiveValuesAreKeyed(t *testing.T) {
	secret := func(text string) cty.Value { return cty.StringVal(text).Mark("sensitive") }
	own, other := resources.NewHashKey(), resources.NewHashKey()
	recorded := offerWith("small", secret("geheim")).Hashes(own).Current()
	unkeyed := offerWith("small", secret("geheim")).Hashes("").Current()
	for name, test := range map[string]struct {
		now      resources.Hashes
		recorded resources.Hash
		match    bool
	}{
		"unchanged":                           {offerWith("small", secret("geheim")).Hashes(own), recorded, true},
		"another value":                       {offerWith("small", secret("guess")).Hashes(own), recorded, false},
		"another flavor":                      {offerWith("large", secret("geheim")).Hashes(own), recorded, false},
		"without the key":                     {offerWith("small", secret("geheim")).Hashes(""), recorded, true},
		"a guess without the key":             {offerWith("small", secret("guess")).Hashes(""), recorded, true},
		"a guess with another key":            {offerWith("small", secret("guess")).Hashes(other), recorded, true},
		"another flavor with another key":     {offerWith("large", secret("geheim")).Hashes(other), recorded, false},
		"a guess at what has no key":          {offerWith("small", secret("guess")).Hashes(own), unkeyed, true},
		"not sensitive any more":              {offerWith("small", cty.StringVal("geheim")).Hashes(own), recorded, true},
		"not sensitive, and another value":    {offerWith("small", cty.StringVal("guess")).Hashes(own), recorded, false},
		"made by an older npctl":              {offerWith("small", secret("geheim")).Hashes(own), offerWith("small", cty.StringVal("geheim")).Hashes("").Current(), true},
		"made by an older npctl, and changed": {offerWith("small", secret("guess")).Hashes(own), offerWith("small", cty.StringVal("geheim")).Hashes("").Current(), false},
		"made by a newer npctl":               {offerWith("small", secret("geheim")).Hashes(own), "v9:00", true},
	} {
		if got := test.now.Match(test.recorded); got != test.match {
			t.Errorf("%s: match is %v, want %v", name, got, test.match)
		}
	}
	if public := offerWith("small", secret("guess")).Hashes("").Current(); unkeyed != public || !strings.HasPrefix(string(recorded), string(public)+":") {
		t.Errorf("the public part depends on the sensitive value: %s, %s, %s", recorded, unkeyed, public)
	}
}

func TestHashesWithoutSensitiveValuesDoNotDependOnTheKey(t *testing.T) {
	source := offerWith("small", cty.StringVal("x"))
	if with, without := source.Hashes(resources.NewHashKey()).Current(), source.Hashes("").Current(); with != without || !strings.HasPrefix(string(with), "v1:") {
		t.Errorf("hash is %s with a key and %s without", with, without)
	}
}

func TestMatchDoesNotAllocate(t *testing.T) {
	now := offerWith("small", cty.StringVal("x").Mark("sensitive")).Hashes("key")
	for _, recorded := range []resources.Hash{now.Current(), now[1], "v1:00", "v2:00", "v2:00:00:00", "v9:00", "", "00"} {
		if allocations := testing.AllocsPerRun(10, func() { now.Match(recorded) }); allocations > 0 {
			t.Errorf("comparing with %q makes %g allocations", recorded, allocations)
		}
	}
}

func TestKeysAreNotPrinted(t *testing.T) {
	identity := struct{ HashKey resources.HashKey }{"geheim"}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		if text := fmt.Sprintf(verb, identity); strings.Contains(text, "geheim") {
			t.Errorf("%s prints %s", verb, text)
		}
	}
}
