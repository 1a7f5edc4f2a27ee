package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

// cloudModule is a module with one provider.
const cloudModule = `variable "name" { type = string }
variable "region" {
  type    = string
  default = "r0"
  validation {
    condition     = var.region != "mars"
    error_message = "There is no cloud on ${var.region}."
  }
}
variable "image" { default = null }
variable "password" {
  default   = ""
  sensitive = true
}
locals { tenant = "${var.name}-tenant" }
provider "acme" "this" {
  name     = var.name
  cloud    = local.tenant
  region   = var.region
  password = var.password
  cloud_image "vendor" {}
  pool "main" {
    label "small" {
      image = var.image == null ? cloud_image.vendor : var.image
    }
  }
}
output "provider" { value = provider.this }
output "place" { value = "${path.module}:${file("${path.module}/motd")}" }
output "password" { value = var.password }
check "named" {
  assert {
    condition     = var.name != "c-b"
    error_message = "The name is ${var.name}."
  }
}
`

// withModule returns a configuration that calls cloudModule.
func withModule(main string) map[string]string {
	return map[string]string{"main.hcl": "label \"small\" {}\n" + main, "modules/cloud/main.hcl": cloudModule, "modules/cloud/motd": "hello"}
}

func TestModuleHasAnInstanceForEachElement(t *testing.T) {
	opts := write(t, withModule(`
locals { regions = { a = "r1", b = "r2" } }
diskimage "debian" {
  builder "dib" { elements = [] }
}
module "cloud" {
  source   = "./modules/cloud"
  for_each = local.regions
  name     = "c-${each.key}"
  region   = each.value
  image    = diskimage.debian
}
module "single" {
  source = "./modules/cloud"
  name   = module.cloud["a"].provider == "c-a" ? "last" : ""
}
output "all" { value = { for key, c in module.cloud : key => c.provider } }
output "place" { value = module.single.place }
`))
	result, diags := Load(opts)
	if diags.HasErrors() {
		t.Fatal(text(t, diags, result.Files))
	}
	d := result.Desired
	type place struct{ cloud, region, image, module string }
	got := map[string]place{}
	for _, p := range d.Providers {
		got[p.Name] = place{p.Config.GetAttr("cloud").AsString(), p.Config.GetAttr("region").AsString(), p.Pools[0].Offers[0].Image.String(), p.Source.Module}
	}
	if diff := cmp.Diff(map[string]place{
		"c-a":  {"c-a-tenant", "r1", "diskimage.debian", `module.cloud["a"]`},
		"c-b":  {"c-b-tenant", "r2", "diskimage.debian", `module.cloud["b"]`},
		"last": {"last-tenant", "r0", "cloud_image.vendor", "module.single"},
	}, got, cmp.AllowUnexported(place{})); diff != "" {
		t.Errorf("providers (-want +got):\n%s", diff)
	}
	same(t, "outputs", ExpressionText(result.Outputs["all"].Value), "{\n  a = \"c-a\"\n  b = \"c-b\"\n}")
	same(t, "path.module", result.Outputs["place"].Value.AsString(), "modules/cloud:hello")
	var failed []string
	for _, c := range result.Checks {
		if !c.Passed {
			failed = append(failed, c.Address)
		}
	}
	same(t, "failed checks", failed, []string{`module.cloud["b"].check.named`})
	wantText(t, text(t, diags, result.Files), "Check failed", "The name is c-b.", `In module.cloud["b"], called at `+filepath.Join(opts.Path, "main.hcl")+":7.")
}

// A block that moves into a module keeps its address, so that nothing changes.
func TestBlockInAModuleEqualsTheBlockOutside(t *testing.T) {
	const block = `provider "acme" "c" {
  cloud = "x"
  pool "main" {
    label "small" { image = diskimage.debian }
  }
}
diskimage "debian" {
  builder "dib" { elements = ["a"] }
}
`
	outside := load(t, write(t, map[string]string{"main.hcl": "label \"small\" {}\n" + block})).Desired
	inside := load(t, write(t, map[string]string{"main.hcl": "label \"small\" {}\nmodule \"m\" { source = \"./m\" }", "m/main.hcl": block})).Desired
	outside.Settings.Dir, inside.Settings.Dir = "", ""
	sameHash := cmp.Comparer(func(a, b resources.HashSource) bool { return cmp.Equal(a.Hashes(""), b.Hashes("")) })
	if diff := cmp.Diff(outside, inside, cmpopts.IgnoreTypes(resources.Source{}), sameHash, cmpopts.IgnoreFields(resources.StateSettings{}, "Config"),
		cmpopts.IgnoreFields(resources.Provider{}, "Config"), cmpopts.IgnoreFields(resources.Pool{}, "Config"), cmpopts.IgnoreFields(resources.Offer{}, "Config"),
		cmpopts.IgnoreFields(resources.Image{}, "Config")); diff != "" {
		t.Errorf("in a module the configuration differs (-outside +inside):\n%s", diff)
	}
	same(t, "digests", inside.Digests, outside.Digests)
	if inside.Providers[0].Source.Module != "module.m" {
		t.Errorf("the provider is from %s", inside.Providers[0].Source)
	}
}

func TestSensitivityPassesThroughModules(t *testing.T) {
	files := withModule(`
module "cloud" {
  source   = "./modules/cloud"
  name     = "c"
  password = "geheim"
}
output "password" {
  value     = module.cloud.password
  sensitive = true
}
`)
	result := load(t, write(t, files))
	if password := result.Outputs["password"]; !password.Sensitive || password.Value.AsString() != "geheim" {
		t.Errorf("the output is %#v", password)
	}
	value, _ := result.Scope.Evaluate([]byte("module.cloud"), "x", nil)
	if shown := ExpressionText(value); strings.Contains(shown, "geheim") || !strings.Contains(shown, "(sensitive value)") {
		t.Errorf("module.cloud is shown as %s", shown)
	}
	files["main.hcl"] = strings.ReplaceAll(files["main.hcl"], "sensitive = true", "") + "garbage {}\n"
	got := loadErrors(t, write(t, files))
	wantText(t, got, "Sensitive output", "Set sensitive = true")
	if strings.Contains(got, "geheim") {
		t.Errorf("the secret is shown:\n%s", got)
	}
	got = loadErrors(t, write(t, withModule("module \"cloud\" {\n  source = \"./modules/cloud\"\n  name   = \"c\"\n  region = sensitive(\"geheim\")\n}\n")))
	wantText(t, got, "Sensitive value", `attribute "region"`, "In module.cloud, called at")
}

func TestModulesCallModules(t *testing.T) {
	result := load(t, write(t, map[string]string{
		"main.hcl":       "module \"outer\" {\n  source = \"./a\"\n  for_each = toset([\"x\"])\n  name = each.key\n}\noutput \"o\" { value = module.outer[\"x\"].o }",
		"a/main.hcl":     "variable \"name\" {}\nmodule \"inner\" {\n  source = \"../b/c\"\n  name = \"${var.name}-inner\"\n}\noutput \"o\" { value = module.inner.o }",
		"b/c/main.hcl":   "variable \"name\" {}\nlabel \"l\" { name = var.name }\noutput \"o\" { value = \"${label.l} ${path.module} ${local.x}\" }\n",
		"b/c/more.hcl":   "locals { x = 1 }",
		"b/c/x.vars.hcl": "name = 2",
	}))
	same(t, "output", result.Outputs["o"].Value.AsString(), "x-inner b/c 1")
	same(t, "source", result.Desired.Labels[0].Source.Module, `module.outer["x"].module.inner`)
}

func TestMistakesInModuleBlocksAreExplained(t *testing.T) {
	const m = "module \"m\" {\n  source = \"./m\"\n"
	for name, c := range map[string]struct {
		main, module string
		want         []string
	}{
		"no source":        {"module \"m\" {}", "", []string{"Missing attribute", "main.hcl line 1", `needs the attribute "source"`}},
		"reference":        {"locals { x = \"./m\" }\nmodule \"m\" { source = local.x }", "", []string{"Invalid source", "without references"}},
		"number":           {"module \"m\" { source = 1 }", "", []string{"Invalid source"}},
		"empty source":     {"module \"m\" { source = \"\" }", "", []string{"The source is empty."}},
		"absolute":         {"module \"m\" { source = \"/srv/m\" }", "", []string{`The source "/srv/m" is an absolute path`}},
		"url":              {"module \"m\" { source = \"https://example.com/m.zip\" }", "", []string{"npctl downloads no modules", "git submodule"}},
		"git":              {"module \"m\" { source = \"git::ssh://git@example.com/m\" }", "", []string{"npctl downloads no modules"}},
		"host":             {"module \"m\" { source = \"github.com/a/m\" }", "", []string{"npctl downloads no modules"}},
		"without dot":      {"module \"m\" { source = \"m\" }", "", []string{`Write "./m".`}},
		"missing":          {"module \"m\" { source = \"./n\" }", "label \"l\" {}", []string{"Module not found", `Did you mean "m"?`}},
		"a file":           {"module \"m\" { source = \"./main.hcl\" }", "", []string{`main.hcl" is a file`}},
		"no files":         {"module \"m\" { source = \"./m/empty\" }", "", []string{"No configuration", "main.hcl line 1"}},
		"itself":           {"module \"m\" { source = \"./\" }", "", []string{"The module calls itself: ", " -> "}},
		"cycle of sources": {m + "}", "module \"again\" { source = \"../m\" }", []string{"The module calls itself: ", "/m -> ", "m/main.hcl line 1"}},
		"cycle of values": {"module \"a\" {\n  source = \"./m\"\n  x = module.b.y\n}\nmodule \"b\" {\n  source = \"./m\"\n  x = module.a.y\n}", "variable \"x\" {}\noutput \"y\" { value = var.x }",
			[]string{"Reference cycle", "module.a -> module.b -> module.a"}},
		"missing input":      {m + "}", "variable \"size\" {}", []string{"Missing input", "main.hcl line 1", `needs the input "size"`, "m/main.hcl:1"}},
		"unknown input":      {m + "  sice = 1\n}", "variable \"size\" { default = 1 }", []string{"Unknown input", "main.hcl line 3", `Did you mean "size"?`}},
		"no input":           {m + "  sice = 1\n}", "label \"l\" {}", []string{`has no variable "sice".`}},
		"wrong type":         {m + "  size = \"big\"\n}", "variable \"size\" { type = number }", []string{"Wrong type", "main.hcl line 3", "the value from the module block", "In module.m, called at"}},
		"validation":         {m + "  size = 3\n}", "variable \"size\" {\n  validation {\n    condition = var.size < 2\n    error_message = \"Too big.\"\n  }\n}", []string{"Too big.", "main.hcl line 3", "m/main.hcl:2"}},
		"null":               {m + "  size = null\n}", "variable \"size\" { nullable = false }", []string{"Value is null", "main.hcl line 3"}},
		"nested block":       {m + "  size {}\n}", "variable \"size\" { default = 1 }", []string{"Unsupported block", "A module block has no block of type"}},
		"npctl":              {m + "}", "npctl {}", []string{"Unsupported block", "m/main.hcl line 1", "A module has no npctl block."}},
		"moved":              {m + "}", "moved {\n  from = label.a\n  to = label.b\n}", []string{"A module has no moved block."}},
		"import":             {m + "}", "import {\n  to = provider.a.image.b\n  id = \"1\"\n}", []string{"A module has no import block."}},
		"variable source":    {m + "}", "variable \"source\" { default = 1 }", []string{`cannot have the name "source"`}},
		"list":               {m + "  for_each = [1]\n}", "label \"l\" {}", []string{"Invalid for_each"}},
		"name":               {"module \"m n\" { source = \"./m\" }", "label \"l\" {}", []string{`"m n" cannot be the name of a module`}},
		"twice":              {m + "}\n" + m + "}", "label \"l\" {}", []string{"Duplicate block", "main.hcl:1"}},
		"no such output":     {m + "}\nlocals { x = module.m.siz }", "output \"size\" { value = 1 }", []string{`The module "m" has no output "siz". Did you mean "size"?`}},
		"no outputs":         {m + "}\nlocals { x = module.m.size }", "label \"l\" {}", []string{`The module "m" has no outputs.`}},
		"no such instance":   {m + "  for_each = {a = 1}\n}\nlocals { x = module.m.size }", "output \"size\" { value = 1 }", []string{`The module "m" has no instance "size".`}},
		"no such module":     {m + "}\nlocals { x = module.n.size }", "label \"l\" {}", []string{`There is no module named "n". Did you mean "m"?`}},
		"local of caller":    {m + "}\nlocals { x = 1 }", "locals { y = local.x }", []string{`There is no local value named "x"`, "m/main.hcl line 1", "In module.m, called at"}},
		"block of caller":    {m + "}\ndiskimage \"d\" {\n  builder \"dib\" { elements = [] }\n}", "diskimage \"e\" { parent = diskimage.d }", []string{`There is no diskimage named "d"`}},
		"each of caller":     {m + "  for_each = {a = 1}\n}", "label \"l\" { name = each.key }", []string{"The name each is defined only in a block with for_each."}},
		"same name":          {m + "}\nlabel \"l\" {}", "label \"l\" {}", []string{"Duplicate name", `a label named "l"`, "main.hcl:4", "Names are global: set the attribute name"}},
		"same image":         {m + "  for_each = toset([\"a\", \"b\"])\n}", "diskimage \"d\" {\n  builder \"dib\" { elements = [] }\n}", []string{`m/main.hcl:1 in module.m["a"]`, `In module.m["b"], called at`}},
		"rule of the caller": {m + "}", "provider \"acme\" \"p\" {\n  cloud = \"x\"\n  pool \"main\" {\n    label \"none\" { image = cloud_image.d }\n  }\n  cloud_image \"d\" {}\n}", []string{`There is no label "none"`, "In module.m, called at"}},
		"syntax":             {m + "  size = 1\n}", "label \"l\" {", []string{"m/main.hcl line 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			opts := write(t, map[string]string{"main.hcl": c.main, "m/main.hcl": c.module, "m/empty/x": ""})
			got := loadErrors(t, opts)
			wantText(t, got, c.want...)
			if n := strings.Count(got, "Error: "); n != 1 {
				t.Errorf("%d errors:\n%s", n, got)
			}
			opts.CheckOnly = true
			loadErrors(t, opts)
		})
	}
}

func TestErrorInAllInstancesIsReportedOnce(t *testing.T) {
	got := loadErrors(t, write(t, map[string]string{
		"main.hcl":   "module \"m\" {\n  source = \"./m\"\n  for_each = toset([\"a\", \"b\", \"c\"])\n  name = each.key\n}",
		"m/main.hcl": "variable \"name\" {}\nlabel \"l\" {\n  name = var.name\n  min_ready = \"many\"\n}",
	}))
	wantText(t, got, `In module.m["a"] and 2 more instances, called at `)
	if n := strings.Count(got, "Error: "); n != 1 {
		t.Errorf("%d errors:\n%s", n, got)
	}
}

func TestDepthOfModulesIsLimited(t *testing.T) {
	files := map[string]string{"main.hcl": "module \"m\" { source = \"./m1\" }"}
	for i := range 10 {
		files[fmt.Sprintf("m%d/main.hcl", i)] = fmt.Sprintf("module \"m\" { source = \"../m%d\" }", i+1)
	}
	wantText(t, loadErrors(t, write(t, files)), "m8/main.hcl line 1", "more than 8 levels deep", "/m1 -> ")
	files["m8/main.hcl"] = "label \"l\" {}"
	load(t, write(t, files))
}

func TestLinksDoNotHideCycles(t *testing.T) {
	opts := write(t, map[string]string{"main.hcl": "module \"m\" { source = \"./m\" }", "m/main.hcl": "module \"n\" { source = \"./link\" }"})
	testutil.Must(t, os.Symlink(".", filepath.Join(opts.Path, "m", "link")))
	wantText(t, loadErrors(t, opts), "The module calls itself")
}

func TestBlocksOfModulesAreLimited(t *testing.T) {
	l := newLoader(write(t, map[string]string{
		"main.hcl":   "module \"m\" {\n  source = \"./m\"\n  for_each = toset([for i in range(100) : tostring(i)])\n  name = each.key\n}",
		"m/main.hcl": "variable \"name\" {}\nlabel \"l\" { name = var.name }",
	}))
	l.expansion.budget = 350
	l.load()
	wantText(t, text(t, l.diags, l.sources.files), "Too many blocks", "With this module")
}

// Without the value of a variable, the number of instances is unknown: what is certain is still checked.
func TestModuleIsCheckedWithoutValues(t *testing.T) {
	files := withModule("variable \"regions\" { type = map(string) }\nmodule \"cloud\" {\n  source   = \"./modules/cloud\"\n  for_each = var.regions\n  name     = each.key\n}\n" +
		"output \"o\" { value = [for m in module.cloud : m.provider] }\nprovider \"acme\" \"this\" { cloud = \"x\" }\n")
	opts := write(t, files)
	opts.CheckOnly = true
	result := load(t, opts)
	same(t, "unset variables", result.Unset, []string{"regions"})
	files["modules/cloud/main.hcl"] += "provider \"acme\" \"that\" {}\n"
	opts = write(t, files)
	opts.CheckOnly = true
	wantText(t, loadErrors(t, opts), `needs the attribute "cloud"`, "In module.cloud[each.key], called at")
}

func TestFilesOfModulesAreInputs(t *testing.T) {
	opts := write(t, withModule("module \"cloud\" {\n  source = \"./modules/cloud\"\n  name   = \"c\"\n}\n"))
	opts.Inputs = &Inputs{}
	reload := func() {
		opts.Inputs.Begin()
		load(t, opts)
		opts.Inputs.Complete()
	}
	reload()
	at := func(name string) string { return filepath.Join(opts.Path, "modules/cloud", name) }
	for name, want := range map[string]string{"main.hcl": "main.hcl", "more.hcl": "*.hcl", "motd": "motd"} {
		before, _ := os.ReadFile(at(name))
		testutil.WriteFile(t, at(name), string(before)+"\n")
		if names, _ := opts.Inputs.Changes(); !slices.Equal(names, []string{at(want)}) {
			t.Errorf("after a change of %s: %q", name, names)
		}
		reload()
	}
}

func TestOverrideAndJSONFilesWorkInModules(t *testing.T) {
	result := load(t, write(t, map[string]string{
		"main.hcl.json":       `{"module": {"m": {"source": "./m", "for_each": {"a": 3}, "name": "${each.key}", "size": "${each.value}"}}}`,
		"m/main.hcl":          "variable \"name\" {}\nvariable \"size\" { type = number }\nlabel \"l\" { min_ready = 1 }",
		"m/main_override.hcl": "label \"l\" {\n  name = var.name\n  min_ready = var.size\n}",
	}))
	labels := map[string]int64{}
	for _, l := range result.Desired.Labels {
		labels[l.Name] = l.MinReady
	}
	if !maps.Equal(labels, map[string]int64{"a": 3}) {
		t.Errorf("labels are %v", labels)
	}
}

func BenchmarkLoadModules(b *testing.B) {
	var module strings.Builder
	module.WriteString("variable \"name\" {}\nprovider \"acme\" \"this\" {\n  name  = var.name\n  cloud = \"x\"\n  cloud_image \"debian\" {}\n  pool \"main\" {\n")
	var labels strings.Builder
	for i := range 20 {
		fmt.Fprintf(&module, "    label \"label%d\" {\n      image  = cloud_image.debian\n      flavor = \"m%d\"\n    }\n", i, i)
		fmt.Fprintf(&labels, "label \"label%d\" {}\n", i)
	}
	module.WriteString("  }\n}\n")
	opts := write(b, map[string]string{"m/main.hcl": module.String(),
		"main.hcl": labels.String() + "module \"m\" {\n  source   = \"./m\"\n  for_each = toset([for i in range(200) : tostring(i)])\n  name     = \"cloud${each.key}\"\n}\n"})
	b.ReportAllocs()
	for b.Loop() {
		if result, diags := Load(opts); diags.HasErrors() || len(result.Desired.Providers) != 200 {
			b.Fatal(diags)
		}
	}
}
