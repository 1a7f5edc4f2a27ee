package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/npctl/npctl/config"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

// compileJSONSchema compiles a value of encoding/json.
func compileJSONSchema(t *testing.T, schema any) *jsonschema.Schema {
	t.Helper()
	text, err := json.Marshal(schema)
	testutil.Must(t, err)
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	testutil.Must(t, err)
	c := jsonschema.NewCompiler()
	testutil.Must(t, c.AddResource("npctl.schema.json", doc))
	compiled, err := c.Compile("npctl.schema.json")
	testutil.Must(t, err)
	return compiled
}

func configurationSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	return compileJSONSchema(t, config.DescribeLanguage(newRegistry().languageOptions()).JSONSchema())
}

func TestExamplesAsJSONMatchTheJSONSchema(t *testing.T) {
	schema := configurationSchema(t)
	examples, err := filepath.Glob(filepath.Join(examplesDir, "*.hcl"))
	if err != nil || len(examples) < 4 {
		t.Fatalf("examples are %q, %v", examples, err)
	}
	for _, path := range append(examples, "testdata/fleet.hcl") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			src, err := os.ReadFile(path)
			testutil.Must(t, err)
			doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON(t, src)))
			testutil.Must(t, err)
			if err := schema.Validate(doc); err != nil {
				t.Error(err)
			}
		})
	}
}

// valuesOfExamples are values for the variables of examples that have no default.
var valuesOfExamples = map[string][]string{
	"aws.hcl":         {"key_name=ci"},
	"ibmvpc.hcl":      {"vpc=ci", "key=ci"},
	"gce.hcl":         {"project=ci-project"},
	"azure.hcl":       {"resource_group=ci", "network=ci", "ssh_public_key=key"},
	"openstack.hcl":   {"cloud=one"},
	"qemu.hcl":        {"image=/srv/image.qcow2", "ssh_key=ssh-ed25519 AAAA"},
	"multi-cloud.hcl": {`clouds={ here = { cloud = "one", networks = ["private"] }, there = { cloud = "two" } }`},
	"zuul-images.hcl": {"cloud=one"},
	"zuul.hcl":        {"cloud=one"},
}

// The JSON form of a configuration describes the same desired state as the native form, attribute by attribute.
func TestExamplesAsJSONDescribeTheSameState(t *testing.T) {
	examples, err := filepath.Glob(filepath.Join(examplesDir, "*.hcl"))
	testutil.Must(t, err)
	for _, path := range append(examples, "testdata/fleet.hcl", "testdata/hashes/npctl.hcl") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			src, err := os.ReadFile(path)
			testutil.Must(t, err)
			opts := newRegistry().languageOptions()
			opts.Vars, opts.LookupEnv = valuesOfExamples[filepath.Base(path)], func(string) (string, bool) { return "", false }
			desired := func(name string, text []byte) resources.Desired {
				opts.Path = t.TempDir()
				testutil.WriteFile(t, filepath.Join(opts.Path, name), string(text))
				result, diags := config.Load(opts)
				if diags.HasErrors() {
					config.WriteDiagnostics(os.Stderr, diags, result.Files, false, 0)
					t.Fatalf("%s has errors", name)
				}
				result.Desired.Settings.Dir = ""
				return result.Desired
			}
			native, fromJSON := desired("npctl.hcl", src), desired("npctl.hcl.json", asJSON(t, src))
			if len(native.Providers)+len(native.Images) == 0 {
				t.Fatal("the desired state is empty")
			}
			if diff := cmp.Diff(native, fromJSON, cmp.Exporter(func(reflect.Type) bool { return true }), cmp.Comparer(cty.Value.RawEquals),
				cmp.FilterPath(func(p cmp.Path) bool { return p.Last().Type() == reflect.TypeFor[resources.Source]() }, cmp.Ignore())); diff != "" {
				t.Errorf("the desired states differ (-HCL +JSON):\n%s", diff)
			}
		})
	}
}

func TestMistakesDoNotMatchTheJSONSchema(t *testing.T) {
	schema := configurationSchema(t)
	for name, text := range map[string]string{
		"unknown block":               `{"labels": {"small": {}}}`,
		"unknown attribute":           `{"label": {"small": {"min_redy": 1}}}`,
		"wrong type":                  `{"label": {"small": {"min_ready": [1]}}}`,
		"text that is no number":      `{"label": {"small": {"min_ready": "one"}}}`,
		"below the minimum":           `{"diskimage": {"a": {"keep": 0}}}`,
		"missing label":               `{"label": {"min_ready": 1}}`,
		"missing attribute":           `{"provider": {"sandbox": {"a": {"pool": {"main": {"label": {"small": {"flavor": "small"}}}}}}}}`,
		"unknown driver":              `{"provider": {"openstak": {"a": {}}}}`,
		"attribute of another driver": `{"provider": {"static": {"a": {"cloud": "x"}}}}`,
		"block that a driver lacks":   `{"provider": {"static": {"a": {"cloud_image": {"x": {}}}}}}`,
		"no duration":                 `{"diskimage": {"a": {"rebuild_age": "one day"}}}`,
		"not an allowed value":        `{"diskimage": {"a": {"connection_type": "telnet"}}}`,
		"list for a text":             `{"diskimage": {"a": {"username": ["zuul"]}}}`,
		"text for a reference":        `{"diskimage": {"a": {"parent": "base"}}}`,
		"unknown builder":             `{"diskimage": {"a": {"builder": {"packer": {}}}}}`,
		"neither flavor nor min_ram":  `{"provider": {"openstack": {"a": {"pool": {"main": {"label": {"small": {"image": "${diskimage.a}"}}}}}}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
			testutil.Must(t, err)
			if schema.Validate(doc) == nil {
				t.Errorf("the schema accepts %s", text)
			}
		})
	}
}

// asJSON converts HCL to its JSON syntax.
func asJSON(t *testing.T, src []byte) []byte {
	t.Helper()
	file, diags := hclsyntax.ParseConfig(src, "a.hcl", hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	text, err := json.MarshalIndent(bodyAsJSON(t, "", file.Body.(*hclsyntax.Body), src), "", "  ")
	testutil.Must(t, err)
	return text
}

func bodyAsJSON(t *testing.T, blockType string, body *hclsyntax.Body, src []byte) map[string]any {
	t.Helper()
	made := map[string]any{}
	for name, attr := range body.Attributes {
		text := string(attr.Expr.Range().SliceBytes(src))
		value, diags := attr.Expr.Value(nil)
		switch {
		case blockType == "variable" && name == "type", blockType == "dynamic" && name == "iterator":
			made[name] = text
		case diags.HasErrors() || !value.IsWhollyKnown():
			made[name] = "${" + text + "}"
		default:
			constant, err := ctyjson.Marshal(value, value.Type())
			testutil.Must(t, err)
			made[name] = json.RawMessage(strings.NewReplacer("${", "$${", "%{", "%%{").Replace(string(constant)))
		}
	}
	for _, block := range body.Blocks {
		var inner any = bodyAsJSON(t, block.Type, block.Body, src)
		for i := len(block.Labels) - 1; i >= 0; i-- {
			inner = map[string]any{block.Labels[i]: inner}
		}
		earlier, _ := made[block.Type].([]any)
		made[block.Type] = append(earlier, inner)
	}
	return made
}

func TestProvidersSchemaMatchesItsJSONSchema(t *testing.T) {
	file, err := os.Open("../../docs/schemas/providers.json")
	testutil.Must(t, err)
	defer file.Close() //nolint:errcheck // read-only
	doc, err := jsonschema.UnmarshalJSON(file)
	testutil.Must(t, err)
	schema := compileJSONSchema(t, closedSchema(doc))
	text, err := json.Marshal(config.DescribeLanguage(newRegistry().languageOptions()))
	testutil.Must(t, err)
	language, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	testutil.Must(t, err)
	if err := schema.Validate(language); err != nil {
		t.Error(err)
	}
}

// The reference and the description have the same attributes.
func TestProvidersSchemaHasEveryAttributeOfTheReference(t *testing.T) {
	o := newRegistry().languageOptions()
	described := map[string]bool{}
	var collect func(config.BlockSyntax)
	collect = func(b config.BlockSyntax) {
		for name := range b.Attributes {
			described[name] = true
		}
		for _, inner := range b.Blocks {
			collect(inner)
		}
		for _, inner := range b.Kinds {
			collect(inner)
		}
	}
	collect(config.BlockSyntax{Blocks: config.DescribeLanguage(o).Blocks})
	count := 0
	for line := range strings.Lines(config.Reference(o.Drivers, o.Builders, o.States)) {
		cell, isRow := strings.CutPrefix(line, "| `")
		name, _, _ := strings.Cut(cell, "`")
		if !isRow {
			continue
		}
		if count++; !described[name] {
			t.Errorf("providers schema has no attribute %q", name)
		}
	}
	if count < 100 {
		t.Errorf("the reference has only %d attributes", count)
	}
}
