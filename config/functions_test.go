package config

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

func TestFunctions(t *testing.T) {
	files := map[string]string{
		"a.txt": "hello\n", "t.tpl": "%{ for n in names ~}\n${upper(n)};%{ endfor }${file(\"a.txt\")}", "sub/b.sh": "", "sub/c.sh": "", "sub/d.txt": "",
	}
	cases := map[string]string{
		`upper("a")`: "A", `lower("A")`: "a", `title("a b")`: "A B", `chomp("a\n")`: "a", `indent(2, "a\nb")`: "a\n  b",
		`join("-", ["a", "b"])`: "a-b", `join("", split(",", "a,b"))`: "ab", `replace("aXb", "X", "-")`: "a-b",
		`replace("a12b", "/[0-9]+/", "<$0>")`: "a<12>b", `regex("[a-z]+", "12ab")`: "ab", `join(",", regexall("[0-9]", "1a2"))`: "1,2",
		`strlen("é")`: "1", `strrev("ab")`: "ba", `substr("hello", 1, 2)`: "el", `trim("xax", "x")`: "a", `trimspace(" a ")`: "a",
		`trimprefix("ab", "a")`: "b", `trimsuffix("ab", "b")`: "a", `startswith("ab", "a")`: "true", `endswith("ab", "a")`: "false",
		`strcontains("abc", "b")`: "true", `format("%03d-%s", 7, "x")`: "007-x", `join(",", formatlist("%s!", ["a", "b"]))`: "a!,b!",
		`abs(-1)`: "1", `ceil(1.2)`: "2", `floor(1.8)`: "1", `log(8, 2)`: "3", `max(1, 3, 2)`: "3", `min(2, 1)`: "1",
		`parseint("ff", 16)`: "255", `pow(2, 3)`: "8", `signum(-3)`: "-1", `sum([1, 2, 3])`: "6", `sum([])`: "0",
		`alltrue([true, false])`: "false", `anytrue([true, false])`: "true", `alltrue([])`: "true",
		`length(chunklist([1, 2, 3], 2))`: "2", `coalesce(null, "b")`: "b", `coalescelist([], ["a"])[0]`: "a",
		`length(compact(["a", "", "b"]))`: "2", `length(concat([1], [2]))`: "2", `contains(["a"], "a")`: "true",
		`length(distinct(["a", "a"]))`: "1", `element(["a", "b"], 3)`: "b", `length(flatten([[1], [[2]]]))`: "2",
		`index(["a", "b"], "b")`: "1", `join(",", keys({ b = 1, a = 2 }))`: "a,b", `length("abc")`: "3", `length({ a = 1 })`: "1",
		`lookup({ a = "x" }, "a")`: "x", `lookup({ a = "x" }, "b", "y")`: "y", `merge({ a = 1 }, { a = 2 }).a`: "2", `one(["a"])`: "a",
		`one([]) == null`: "true", `length(range(3))`: "3", `join("", reverse(["a", "b"]))`: "ba",
		`length(setintersection(["a", "b"], ["b"]))`: "1", `length(setunion(["a"], ["b"]))`: "2", `length(setsubtract(["a", "b"], ["a"]))`: "1",
		`length(setproduct(["a", "b"], [1, 2]))`: "4", `join("", slice(["a", "b", "c"], 1, 2))`: "b", `join("", sort(["b", "a"]))`: "ab",
		`join("", values({ b = "1", a = "2" }))`: "21", `zipmap(["a"], ["b"]).a`: "b",
		`can(tonumber("x"))`: "false", `try(tonumber("x"), 3)`: "3", `try(local.none, "fallback")`: "fallback",
		`issensitive(sensitive(1))`: "true", `nonsensitive(sensitive("a"))`: "a", `issensitive("${sensitive("a")}b")`: "true",
		`tobool("true")`: "true", `tonumber("3") + 1`: "4", `tostring(3)`: "3", `length(toset(["a", "a"]))`: "1", `tolist(["a"])[0]`: "a",
		`tomap({ a = "b" })["a"]`: "b", `length(toset([]))`: "0", `length(tolist([1, "a"]))`: "2", `tomap({ a = 1, b = "x" })["a"]`: "1",
		`base64encode("a")`: "YQ==", `base64decode("YQ==")`: "a", `csvdecode("a,b\n1,2")[0].b`: "2", `jsondecode("{\"a\": [1]}").a[0]`: "1",
		`jsonencode({ a = [1, null] })`: `{"a":[1,null]}`, `urlencode("a b&")`: "a+b%26", `yamldecode("a: [1, 2]\nb: &x c\nd: *x").d`: "c",
		`trimspace(yamlencode({ a = 1 }))`: `"a": 1`, `md5("a")`: "0cc175b9c0f1b6a831c399e269772661", `sha1("a")`: "86f7e437faa5a7fce15d1ddcb9eaeaea377667b8",
		`sha256("a")`: "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb", `substr(sha512("a"), 0, 8)`: "1f40fc92",
		`formatdate("YYYY-MM-DD", "2026-01-02T03:04:05Z")`: "2026-01-02", `timeadd("2026-01-02T03:04:05Z", "1h")`: "2026-01-02T04:04:05Z",
		`basename("a/b.txt")`: "b.txt", `dirname("a/b.txt")`: "a", `env("HOME_OF_TEST")`: "/home", `env("NONE", "d")`: "d",
		`env("NONE", null) == null`: "true", `file("a.txt")`: "hello\n", `file("${path.config}/a.txt")`: "hello\n", `filebase64("a.txt")`: "aGVsbG8K",
		`fileexists("a.txt")`: "true", `fileexists("b.txt")`: "false", `join(",", fileset("sub", "*.sh"))`: "b.sh,c.sh",
		`substr(filesha256("a.txt"), 0, 8)`: "5891b5b5", `templatefile("t.tpl", { names = ["x", "y"] })`: "X;Y;hello\n",
		`cidrhost("10.0.0.0/16", 258)`: "10.0.1.2", `cidrhost("fd00::/64", -1)`: "fd00::ffff:ffff:ffff:ffff", `cidrnetmask("10.0.0.0/20")`: "255.255.240.0",
		`cidrsubnet("10.0.0.0/16", 8, 3)`: "10.0.3.0/24", `join(",", cidrsubnets("10.0.0.0/16", 8, 4))`: "10.0.0.0/24,10.0.16.0/20",
		`"${"a"}%{ if true }b%{ endif }"`: "ab",
	}
	var main strings.Builder
	main.WriteString("locals {\n")
	keys := slices.Sorted(maps.Keys(cases))
	for i, expression := range keys {
		main.WriteString(sprintf("  x%d = tostring(%s)\n", i, expression))
	}
	main.WriteString("}\n")
	for i := range keys {
		main.WriteString(sprintf("label \"l%d\" {}\n", i))
	}
	main.WriteString("provider \"acme\" \"p\" {\n cloud = \"x\"\n cloud_image \"i\" {}\n pool \"a\" {\n")
	for i := range keys {
		main.WriteString(sprintf("  label \"l%d\" {\n image = cloud_image.i\n user_data = local.x%d\n }\n", i, i))
	}
	main.WriteString(" }\n}\n")
	files["main.hcl"] = main.String()
	opts := write(t, files)
	opts.LookupEnv = environment(map[string]string{"HOME_OF_TEST": "/home"})
	got := map[string]string{}
	for _, offer := range load(t, opts).Desired.Providers[0].Pools[0].Offers {
		got[offer.Label] = offer.Config.GetAttr("user_data").AsString()
	}
	for i, expression := range keys {
		if text := got[sprintf("l%d", i)]; text != cases[expression] {
			t.Errorf("%s: got %q, want %q", expression, text, cases[expression])
		}
	}
	used := strings.Join(keys, " ")
	for name := range functions(fileReader{}, nil, newMeter(nil)) {
		if !strings.Contains(used, name+"(") {
			t.Errorf("the function %s is not tested", name)
		}
	}
}

func TestEveryFunctionIsInTheReference(t *testing.T) {
	var listed []string
	for _, group := range functionGroups {
		if !slices.IsSorted(group.Names) {
			t.Errorf("%s: not sorted", group.Topic)
		}
		listed = append(listed, group.Names...)
	}
	slices.Sort(listed)
	same(t, "functions", listed, slices.Sorted(maps.Keys(functions(fileReader{}, nil, newMeter(nil)))))
}

func TestFunctionErrorsAreExplained(t *testing.T) {
	got := loadErrors(t, write(t, map[string]string{"main.hcl": `
locals {
  a = env("NOT_SET")
  b = file("none.txt")
  c = lookup({}, "x")
  d = one([1, 2])
  e = templatefile("none.tpl", {})
  f = tonumber("x")
  g = upper(["a"])
  h = fileset(".", "[")
  i = sum(["a"])
  j = length(3)
  k = cidrhost("10.0.0.0/24", 300)
  n = cidrsubnets("10.0.0.0", 4)
  o = base64decode("%")
}`}))
	wantText(t, got, `the environment variable NOT_SET is not set; set it, or add a default: env("NOT_SET", "")`, "none.txt", "no such key",
		"the list has 2 elements; at most one is allowed", "none.tpl", "parameter: there is no file ", "cannot convert string to number", "string required",
		"the pattern is not valid", "a number is required", "not a number",
		"prefix of 24 does not accommodate a host numbered 300", "invalid CIDR address: 10.0.0.0", "the text is not base64")
}

func TestRangeIsThatOfTheStandardLibraryWithAHigherLimit(t *testing.T) {
	number := cty.NumberIntVal
	compare := func(args ...cty.Value) {
		t.Helper()
		want, wantErr := stdlib.RangeFunc.Call(args)
		got, err := rangeFunction.Call(args)
		if (err == nil) != (wantErr == nil) || err == nil && !got.RawEquals(want) {
			t.Errorf("range(%#v) = %#v, %v; the standard library has %#v, %v", args, got, err, want, wantErr)
		}
	}
	compare()
	compare(number(1), number(2), number(3), number(4))
	for a := int64(-3); a <= 3; a++ {
		compare(number(a))
		for b := int64(-3); b <= 3; b++ {
			compare(number(a), number(b))
			for _, step := range []float64{-2, -0.5, 0.5, 2} {
				compare(number(a), number(b), cty.NumberFloatVal(step))
			}
		}
	}
	if _, err := rangeFunction.Call([]cty.Value{number(1), number(1), number(0)}); err == nil {
		t.Error("a step of 0 is accepted")
	}
	if most, err := rangeFunction.Call([]cty.Value{number(maxExpansion)}); err != nil || most.LengthInt() != maxExpansion {
		t.Errorf("a range of %d numbers: %v", maxExpansion, err)
	}
	if _, err := rangeFunction.Call([]cty.Value{number(maxExpansion + 1)}); err == nil {
		t.Error("a longer range is accepted")
	}
}
