package zuul_test

import (
	"strings"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/builders/buildertest"
	"github.com/npctl/npctl/builders/zuul"
)

var farAway = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)

func TestSchemaIsDocumented(t *testing.T) { buildertest.CheckSchema(t, new(zuul.Builder)) }

func TestSchemaChecks(t *testing.T) {
	for _, test := range []struct {
		attribute string
		value     cty.Value
		want      string // empty: no error
	}{
		{"api_url", cty.StringVal("https://zuul.example.com/sub/"), ""},
		{"api_url", cty.StringVal("zuul.example.com"), "is not a URL"},
		{"api_url", cty.StringVal("ftp://zuul.example.com"), "is not a URL"},
		{"api_url", cty.StringVal("https://me:secret@zuul.example.com"), "the address contains a user name"},
		{"api_url", cty.StringVal("https://zuul.example.com/?x=1"), "has a query or fragment"},
		{"pipelines", cty.ListValEmpty(cty.String), "at least one"},
		{"job", cty.StringVal(""), "empty"},
		{"token_file", cty.StringVal("a\nb"), "line break"},
		{"poll_builds", cty.NumberIntVal(20), ""},
		{"poll_builds", cty.NumberFloatVal(1.5), "not a whole number"},
		{"max_size_gb", cty.NumberIntVal(1 << 40), "too large"},
	} {
		attribute, ok := new(zuul.Builder).Schema().Lookup(test.attribute)
		if !ok {
			t.Fatalf("no attribute %s", test.attribute)
		}
		err := attribute.Check(test.value)
		if (err == nil) != (test.want == "") || err != nil && (!strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%s = %#v: error is %v, want %q", test.attribute, test.value, err, test.want)
		}
	}
}

func TestMistakesOfTheWholeBlock(t *testing.T) {
	d := newDouble(t)
	for _, test := range []struct {
		config cty.Value
		want   string
	}{
		{d.block("token", "a", "token_file", "b"), "at most one of token, token_file and token_command"},
		{d.block("artifact", wants("../../etc/passwd")), "not an image format"},
		{d.block("artifact", wants("qcow", "qcow2")), "two artifact blocks for format qcow2"},
		{d.block("artifact", cty.MapValEmpty(wants("raw").Type().ElementType())), "there is no artifact block"},
		{d.block("api_timeout", "soon"), "not a duration"},
		{cty.StringVal("x"), "not a known object"},
	} {
		_, err := quick().Versions(t.Context(), "", test.config, "")
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("error is %v, want %q", err, test.want)
		}
	}
	if asked, _ := d.calls(); len(asked) > 0 {
		t.Errorf("Zuul was asked for %q", asked)
	}
}
