package config

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/zclconf/go-cty/cty"
	"pgregory.net/rapid"

	"github.com/npctl/npctl/internal/testutil"
)

func environment(values map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, ok := values[name]
		return value, ok
	}
}

func TestSourceOfAVariableWithHigherPrecedenceWins(t *testing.T) {
	files := map[string]string{
		"main.hcl": `
variable "v" { default = "default" }
label "l" { name = var.v }`,
		"a.auto.vars.hcl": `v = "auto-a"`, "b.auto.vars.hcl": `v = "auto-b"`,
		"prod.vars.hcl": `v = "file-1"`, "more.json": `{"v": "file-2"}`,
	}
	value := func(change func(*Options), without ...string) VariableValue {
		kept := map[string]string{}
		for name, content := range files {
			kept[name] = content
		}
		for _, name := range without {
			delete(kept, name)
		}
		opts := write(t, kept)
		change(&opts)
		result := load(t, opts)
		v := result.Variables["v"]
		same(t, "value in use", result.Desired.Labels[0].Name, v.Value)
		v.From = filepath.Base(v.From)
		return v
	}
	env := func(o *Options) {
		o.LookupEnv = environment(map[string]string{"NPCTL_VAR_v": "env", "NPCTL_VAR_unknown": "x"})
	}
	file := func(names ...string) func(*Options) {
		return func(o *Options) {
			env(o)
			for _, name := range names {
				o.VarFiles = append(o.VarFiles, filepath.Join(o.Path, name))
			}
		}
	}
	auto := []string{"a.auto.vars.hcl", "b.auto.vars.hcl"}
	same(t, "default", value(func(*Options) {}, auto...), VariableValue{Value: "default", From: "default"})
	same(t, "environment", value(env, auto...), VariableValue{Value: "env", From: "NPCTL_VAR_v"})
	same(t, "automatic files", value(env), VariableValue{Value: "auto-b", From: "b.auto.vars.hcl"})
	same(t, "file", value(file("prod.vars.hcl")), VariableValue{Value: "file-1", From: "prod.vars.hcl"})
	same(t, "later file", value(file("prod.vars.hcl", "more.json")), VariableValue{Value: "file-2", From: "more.json"})
	same(t, "command line", value(func(o *Options) {
		file("prod.vars.hcl")(o)
		o.Vars = []string{"v=cli-1", "v=cli-2"}
	}), VariableValue{Value: "cli-2", From: "-var"})
}

func TestVariablesHaveTypes(t *testing.T) {
	opts := write(t, map[string]string{"main.hcl": `
variable "sizes" {
  type = map(object({ ram = number, disk = optional(number, 20), tags = optional(list(string), ["x"]) }))
}
variable "count" { type = number }
variable "on" { type = bool }
variable "any" {}
variable "list" { default = ["a"] }
variable "never_null" {
  default  = "d"
  nullable = false
}
label "sizes" {
  for_each = var.sizes
  name     = "${each.key}-${each.value.ram}-${each.value.disk}-${join("+", each.value.tags)}"
}
label "rest" { name = "c${var.count}-${var.on ? "on" : "off"}-${length(var.any)}-${var.list[0]}-${var.never_null}" }
`, "x.auto.vars.hcl": "sizes = { s = { ram = \"1\" }, l = { ram = 8, disk = 9, tags = [] } }\nnever_null = null\n"})
	opts.Vars = []string{"count=3", "on=true", `any=["a", "b"]`, `list=["z"]`}
	d := load(t, opts).Desired
	same(t, "names", []string{d.Labels[0].Name, d.Labels[1].Name, d.Labels[2].Name}, []string{"c3-on-2-z-d", "l-8-9-", "s-1-20-x"})
}

func TestVariableErrorsAreExplained(t *testing.T) {
	opts := write(t, map[string]string{"main.hcl": `
variable "count" { type = number }
variable "list" { type = list(string) }
variable "region" {
  default = "x"
  validation {
    condition     = length(var.region) == 2
    error_message = "A region such as ${upper("ca")} has two letters, not \"${var.region}\"."
  }
  validation { condition = true }
}
variable "bad name" {}
variable "typo" { defualt = 1 }
`, "x.vars.hcl": "conut = 3\nregion = \"abc\"\nblock {}\n"})
	opts.Vars = []string{"count=many", `list=["a"`, "regin=x", "novalue"}
	opts.VarFiles = []string{opts.Path + "/x.vars.hcl", opts.Path + "/none.vars.hcl"}
	got := loadErrors(t, opts)
	wantText(t, got,
		`no variable "conut". Did you mean "count"?`, `no variable "regin", which -var sets. Did you mean "region"?`,
		"The option -var takes name=value", `the value from -var is not valid: a number is required`, "   1: many\n      ^^^^",
		"on <value of var.list from -var> line 1", `has two letters, not "abc".`, "x.vars.hcl line 2", "needs condition and error_message",
		`"bad name" cannot be the name of a variable`, `Did you mean "default"?`, "none.vars.hcl: no such file", "Blocks are not allowed here")
}

func TestJSONValuesAreLiteral(t *testing.T) {
	opts := write(t, map[string]string{"main.hcl": `
variable "v" {}
label "l" { name = "${replace(var.v.text, "/\\W/", "_")}-${var.v.list[1]}" }`, "x.json": `{"v": {"text": "${a}", "list": [1, 2]}}`})
	opts.VarFiles = []string{opts.Path + "/x.json"}
	same(t, "name", load(t, opts).Desired.Labels[0].Name, "__a_-2")

	opts = write(t, map[string]string{"main.hcl": "", "x.json": `{"v": `})
	opts.VarFiles = []string{opts.Path + "/x.json"}
	wantText(t, loadErrors(t, opts), "x.json line 1")
}

// A plan file stores the values of variables as text; the same text given as -var must have the same value.
func TestShownVariableValueCanBePassedAgain(t *testing.T) {
	dir := write(t, map[string]string{"main.hcl": `
variable "s" { default = "" }
variable "n" { default = 0 }
variable "b" { default = false }
variable "l" { type = list(string) }
variable "o" { type = object({ a = string, b = optional(number) }) }
variable "m" { type = map(any) }
variable "any" {}
`})
	rapid.Check(t, func(rt *rapid.T) {
		word := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"${a}", "%{if}", "$${", "\"", "\\", "\n", "[", "{", "null", "true", "é", "\ufeffA"}))
		values := map[string]cty.Value{
			"s":   cty.StringVal(word.Draw(rt, "s")),
			"n":   cty.NumberIntVal(rapid.Int64().Draw(rt, "n")),
			"b":   cty.BoolVal(rapid.Bool().Draw(rt, "b")),
			"l":   cty.ListVal([]cty.Value{cty.StringVal(word.Draw(rt, "l")), cty.StringVal(word.Draw(rt, "l2"))}),
			"o":   cty.ObjectVal(map[string]cty.Value{"a": cty.StringVal(word.Draw(rt, "o")), "b": cty.NullVal(cty.Number)}),
			"m":   cty.MapVal(map[string]cty.Value{word.Draw(rt, "key"): cty.StringVal(word.Draw(rt, "m"))}),
			"any": cty.TupleVal([]cty.Value{cty.StringVal(word.Draw(rt, "any")), cty.True}),
		}
		opts := dir
		for name, value := range values {
			opts.Vars = append(opts.Vars, name+"="+argumentText(value))
		}
		first, diags := Load(opts)
		if diags.HasErrors() {
			rt.Fatalf("%v", diags)
		}
		for name, value := range values {
			if got := first.Variables[name].Value; got != argumentText(value) {
				rt.Errorf("%s: gave %q, shown %q", name, argumentText(value), got)
			}
		}
	})
}

func TestShownKeyWithByteOrderMarkCanBePassedAgain(t *testing.T) {
	opts := write(t, map[string]string{"main.hcl": `variable "m" { type = map(any) }`})
	want := argumentText(cty.MapVal(map[string]cty.Value{"\ufeffA": cty.StringVal("x")}))
	opts.Vars = []string{"m=" + want}
	same(t, "value", load(t, opts).Variables["m"].Value, want)
}

func TestValuesMayComeFromAPipe(t *testing.T) {
	opts := write(t, map[string]string{"main.hcl": `
variable "v" {}
label "l" { name = var.v }`})
	pipe := filepath.Join(opts.Path, "pipe")
	testutil.Must(t, syscall.Mkfifo(pipe, 0o600))
	written := make(chan error, 1)
	go func() { written <- os.WriteFile(pipe, []byte(`v = "piped"`), 0o600) }()
	opts.VarFiles = []string{pipe}
	same(t, "name", load(t, opts).Desired.Labels[0].Name, "piped")
	testutil.Must(t, <-written)
}
