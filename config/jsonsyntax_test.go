package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"

	"github.com/npctl/npctl/internal/syntax"
	"github.com/npctl/npctl/internal/testutil"
)

// Each part of a JSON file has a counterpart in HCL's native syntax with the same digest.
func TestJSONSyntaxEqualsNativeSyntax(t *testing.T) {
	const around = `, "label": {"small": {}}, "diskimage": {"debian": {"builder": {"dib": {"elements": ["vm"]}}}}`
	const aroundNative = "\nlabel \"small\" {}\ndiskimage \"debian\" {\n  builder \"dib\" { elements = [\"vm\"] }\n}\n"
	provider := func(pool string) string {
		return `"provider": {"acme": {"one": {"cloud": "x", "pool": ` + pool + `}}}`
	}
	offer := `{"image": "${diskimage.debian}"}`
	native := func(pools string) string { return "provider \"acme\" \"one\" {\n  cloud = \"x\"\n" + pools + "\n}\n" }
	const main = "pool \"main\" {\n label \"small\" { image = diskimage.debian }\n}"
	for name, c := range map[string]struct{ json, native string }{
		"object":                   {provider(`{"main": {"label": {"small": ` + offer + `}}}`), native(main)},
		"lists on each level":      {provider(`[{"main": [{"label": [{"small": [` + offer + `]}]}]}]`), native(main)},
		"null stands for no block": {provider(`{"main": {"label": {"small": ` + offer + `, "no": null}}, "no": null}`), native(main)},
		"comments":                 {provider(`{"main": {"//": 1, "label": {"small": {"//": {"a": []}, "//": "b", "image": "${diskimage.debian}"}}}}`), native(main)},
		"repeated blocks": {provider(`[{"main": {"label": {"small": ` + offer + `}}}, {"other": {"label": {"small": ` + offer + `}}}]`),
			native(main + strings.Replace("\n"+main, "main", "other", 1))},
		"dynamic": {provider(`{"main": {"dynamic": {"label": {"for_each": ["small"], "iterator": "l", "labels": ["${l.value}"], "content": ` + offer + `}}}}`), native(main)},
		"for_each": {provider(`{"p": {"for_each": {"a": 1, "${upper("b")}": 2}, "name": "m-${each.key}", "max_servers": "${each.value}", "label": {"small": ` + offer + `}}}`),
			native("pool \"p\" {\n for_each = { a = 1, B = 2 }\n name = \"m-${each.key}\"\n max_servers = each.value\n label \"small\" { image = diskimage.debian }\n}")},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.ReplaceAll(c.json, `upper("b")`, `upper(\"b\")`)
			want := source(t, c.native+aroundNative)
			got := load(t, write(t, map[string]string{"a.hcl.json": "{" + text + around + "}"})).Desired
			same(t, "names", names(got), names(want))
			same(t, "digests", got.Digests, want.Digests)
		})
	}
}

func TestTextsInJSONAreTemplates(t *testing.T) {
	opts := write(t, map[string]string{"a.hcl.json": `{
  "variable": {
    "typed": {"type": "map(list(number))", "default": {"a": ["1", 2]}},
    "object": {"type": "object({a = optional(string, \"x\")})", "default": {}}
  },
  "output": {
    "plain": {"value": "a\tb\u00e9"},
    "escaped": {"value": "$${a} %%{b}"},
    "template": {"value": "<${var.typed.a[1]}>"},
    "reference": {"value": "${var.typed}"},
    "nested": {"value": {"${var.object.a}": [true, null, 1.5, {"//": "no comment in a value"}]}},
    "directive": {"value": "%{ for n in var.typed.a }${n},%{ endfor }"}
  }
}`})
	got := map[string]string{}
	for name, output := range load(t, opts).Outputs {
		got[name] = strings.Join(strings.Fields(ExpressionText(output.Value)), " ")
	}
	same(t, "outputs", got, map[string]string{
		"plain": `"a\tbé"`, "escaped": `"$${a} %%{b}"`, "template": `"<2>"`, "reference": `{ a = [1, 2] }`, "directive": `"1,2,"`,
		"nested": `{ x = [true, null, 1.5, { "//" = "no comment in a value" }] }`,
	})
}

func TestValuesOfVariablesInJSON(t *testing.T) {
	opts := write(t, map[string]string{
		"a.hcl.json":      `{"variable": {"a": {}, "b": {}, "c": {"default": 1}}, "output": {"all": {"value": "${var.a} ${var.b} ${var.c}"}}}`,
		"a.auto.vars.hcl": `a = "native"` + "\n" + `b = "native"`, "b.auto.vars.hcl.json": `{"a": "${not a template}"}`,
		"c.vars.hcl.json": `{"c": 2}`, "d.vars.hcl.json": `{"c": 3}`, "x.test.hcl.json": `{`,
	})
	opts.VarFiles = []string{filepath.Join(opts.Path, "c.vars.hcl.json")}
	same(t, "values", load(t, opts).Outputs["all"].Value.AsString(), "${not a template} native 2")
	testutil.WriteFile(t, filepath.Join(opts.Path, "b.auto.vars.hcl.json"), strings.Repeat("[", 300)+strings.Repeat("]", 300))
	wantText(t, loadErrors(t, opts), "b.auto.vars.hcl.json line 1", "nested more than 200 levels deep")
}

func TestSensitiveTextsInJSONAreMasked(t *testing.T) {
	opts := write(t, map[string]string{"main.hcl.json": `{"variable": {
  "quoted": {"sensitive": true, "default": "hunter2\"\u00e9-Hunter2", "nope": 1},
  "mixed": {"sensitive": true, "default": "${1}\t\"\thunter2-Hunter2", "nope": 1},
  "nested": {"sensitive": true, "default": {"a": ["\"hunter2-Hunter2"], "b": 81818}, "nope": 1}
}}`})
	got := loadErrors(t, opts)
	wantText(t, got, `has no attribute named "nope"`, "********")
	for _, part := range []string{"unter2", "81818"} {
		if strings.Contains(strings.ToLower(got), part) {
			t.Errorf("%q is in:\n%s", part, got)
		}
	}
}

func TestHostileJSONIsRejected(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"nested":             {`{"locals": {"x": ` + strings.Repeat("[", 5_000) + strings.Repeat("]", 5_000) + `}}`, "nested more than 200 levels deep"},
		"unclosed":           {strings.Repeat("[", 1<<20), "is not JSON"},
		"broken string":      {"[\"\n," + strings.Repeat("[", 1<<20), "is not JSON"},
		"nested template":    {`{"locals": {"x": "${` + strings.Repeat("[", 5_000) + strings.Repeat("]", 5_000) + `}"}}`, "nested more than 1000 levels deep"},
		"huge number":        {`{"locals": {"x": 1e999999999}}`, "Number too large"},
		"many digits":        {`{"locals": {"x": ` + strings.Repeat("9", 100_000) + `}}`, "Number too large"},
		"too much":           {`{"locals": {"x": [` + strings.Repeat("0,", 3<<20) + `0]}}`, "Configuration too large"},
		"no object":          {`1`, "An object or a list of objects is required here"},
		"nothing":            {``, "a.hcl.json line 1"},
		"binary":             {"\x00\xff", "not UTF-8 text"},
		"long text":          {`{"locals": {"x": "` + strings.Repeat("a\\\"", 1<<18) + `${y}"}}`, `nothing named "y"`},
		"native syntax":      {"label \"x\" {\n}\n", "a.hcl.json line 1"},
		"sum of small texts": {`{"locals": {"x": ["` + strings.Repeat(`${[[[[[[[[1]]]]]]]]}", "`, 100_000) + `"]}}`, "Configuration too large"},
	} {
		t.Run(name, func(t *testing.T) {
			soon(t, func() { wantText(t, loadErrors(t, write(t, map[string]string{"a.hcl.json": c.text})), c.want) })
		})
	}
}

func TestTestsHaveNoJSONSyntax(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a"+syntax.TestSuffix+".json")
	testutil.WriteFile(t, path, `{"run": {"a": {}}}`)
	if found, err := FindTests(filepath.Dir(path)); err != nil || len(found) != 1 {
		t.Fatalf("found %q, %v", found, err)
	}
	file, diags := ReadTests(path, nil)
	wantText(t, text(t, diags, file.Files), path, "Write tests in HCL's native syntax")
}

// FuzzJSON searches for JSON on which Load panics, reports a place that does not exist, or returns neither a
// configuration nor an error.
func FuzzJSON(f *testing.F) {
	seeds, err := filepath.Glob("testdata/mistakes/*.hcl.json")
	if err != nil || len(seeds) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, path := range seeds {
		src, err := os.ReadFile(path)
		testutil.Must(f, err)
		f.Add(src)
	}
	for _, src := range []string{
		`{"locals": {"a": "${[for x in [1,2] : x]}", "b": "%{ if true }\u00e9%{ endif }"}, "label": {"${1}": {"for_each": {"a": "${each}"}}}}`,
		`[{"provider": {"acme": {"p": {"pool": {"dynamic": {"label": {"for_each": [1], "labels": null}}}}}}}, {"npctl": {"state": {"x": {}}}}]`,
		`{"variable": {"v": {"type": "object({a=optional(any)})", "default": "${sensitive(\"x\")}"}}, "output": {"o": {"value": "${var.v[*].a}"}}}`,
		`{"a": 1e5, "a": -0, "//": "\ud800\udc00\ud800"}`,
	} {
		f.Add([]byte(src))
	}
	opts := testOptions(filepath.Join(f.TempDir(), "main.hcl.json"))
	opts.Vars = []string{"v=1"}
	f.Fuzz(func(t *testing.T, src []byte) {
		if len(src) > 1<<16 {
			return
		}
		testutil.Must(t, os.WriteFile(opts.Path, src, 0o600))
		result, diags := Load(opts)
		got := text(t, diags, result.Files)
		if strings.Contains(got, internalError) {
			t.Fatalf("panic:\n%s", got)
		}
		JSON(diags, result.Files)
		if len(result.Desired.Digests) == 0 != diags.HasErrors() {
			t.Fatalf("digests %q with:\n%s", result.Desired.Digests, got)
		}
		for _, diag := range diags {
			if err := placeFault(src, diag.Subject); err != nil && diag.Subject.Filename == opts.Path {
				t.Fatalf("%s: %s is at %v: %v", diag.Summary, diag.Detail, diag.Subject, err)
			}
		}
	})
}

// placeFault returns why a range is not a part of the text.
func placeFault(src []byte, at *hcl.Range) error {
	switch {
	case at == nil:
		return nil
	case at.Start.Byte > at.End.Byte || at.End.Byte > len(src)+1:
		return fmt.Errorf("the text has %d bytes", len(src))
	case at.Start.Byte <= len(src) && at.Start.Line != 1+strings.Count(string(src[:at.Start.Byte]), "\n"):
		return fmt.Errorf("the byte is in another line")
	}
	return nil
}
