package config

import (
	"maps"

	"github.com/hashicorp/go-cty-funcs/cidr"
	"github.com/hashicorp/go-cty-funcs/crypto"
	"github.com/hashicorp/go-cty-funcs/encoding"
	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	yaml "github.com/zclconf/go-cty-yaml"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"

	"github.com/npctl/npctl/internal/syntax"
)

// The functions have the names and semantics of Terraform's. None depends on the time or on random values: the same
// files, variables and environment always give the same configuration.

// functionGroups lists all functions by topic, in the order of the reference.
var functionGroups = []struct {
	Topic string
	Names []string
}{
	{"Text", []string{"chomp", "endswith", "format", "formatlist", "indent", "join", "lower", "regex", "regexall", "replace",
		"reverse", "split", "startswith", "strcontains", "strlen", "strrev", "substr", "title", "trim", "trimprefix",
		"trimspace", "trimsuffix", "upper"}},
	{"Numbers", []string{"abs", "ceil", "floor", "log", "max", "min", "parseint", "pow", "signum", "sum"}},
	{"Collections", []string{"alltrue", "anytrue", "chunklist", "coalesce", "coalescelist", "compact", "concat", "contains",
		"distinct", "element", "flatten", "index", "keys", "length", "lookup", "merge", "one", "range", "setintersection",
		"setproduct", "setsubtract", "setunion", "slice", "sort", "values", "zipmap"}},
	{"Types", []string{"can", "issensitive", "nonsensitive", "sensitive", "tobool", "tolist", "tomap", "tonumber", "toset",
		"tostring", "try"}},
	{"Encoding", []string{"base64decode", "base64encode", "csvdecode", "jsondecode", "jsonencode", "urlencode", "yamldecode",
		"yamlencode"}},
	{"Digests", []string{"filesha256", "md5", "sha1", "sha256", "sha512"}},
	{"Networks", []string{"cidrhost", "cidrnetmask", "cidrsubnet", "cidrsubnets"}},
	{"Dates", []string{"formatdate", "timeadd"}},
	{"Files and environment", []string{"basename", "dirname", "env", "file", "filebase64", "fileexists", "fileset",
		"templatefile"}},
}

// functions returns the function table of one Load. Functions that read files resolve paths relative to the
// configuration's directory.
func functions(dir fileReader, lookupEnv func(string) (string, bool), m *meter) map[string]function.Function {
	all := plainFunctions()
	maps.Copy(all, dir.fileFunctions())
	all["env"] = envFunction(lookupEnv)
	// Templates have every function except templatefile, so that a template cannot include itself.
	templates := maps.Clone(all)
	all["templatefile"] = templateFunction(dir, templates, m)
	return all
}

func plainFunctions() map[string]function.Function {
	return map[string]function.Function{
		"abs": stdlib.AbsoluteFunc, "ceil": stdlib.CeilFunc, "floor": stdlib.FloorFunc, "log": stdlib.LogFunc,
		"max": stdlib.MaxFunc, "min": stdlib.MinFunc, "parseint": stdlib.ParseIntFunc, "pow": stdlib.PowFunc,
		"signum": stdlib.SignumFunc, "sum": sumFunction,

		"chomp": stdlib.ChompFunc, "format": formatFunction(stdlib.FormatFunc), "formatlist": formatFunction(stdlib.FormatListFunc),
		"indent": indentFunction, "join": joinFunction, "lower": stdlib.LowerFunc, "regex": stdlib.RegexFunc,
		"regexall": stdlib.RegexAllFunc, "replace": replaceFunction, "split": stdlib.SplitFunc, "strlen": stdlib.StrlenFunc,
		"strrev": stdlib.ReverseFunc, "substr": stdlib.SubstrFunc, "title": stdlib.TitleFunc, "trim": stdlib.TrimFunc,
		"trimprefix": stdlib.TrimPrefixFunc, "trimspace": stdlib.TrimSpaceFunc, "trimsuffix": stdlib.TrimSuffixFunc,
		"upper": stdlib.UpperFunc, "startswith": startsWithFunction, "endswith": endsWithFunction,
		"strcontains": containsTextFunction,

		"alltrue": allTrueFunction, "anytrue": anyTrueFunction, "chunklist": stdlib.ChunklistFunc,
		"coalesce": stdlib.CoalesceFunc, "coalescelist": stdlib.CoalesceListFunc, "compact": stdlib.CompactFunc,
		"concat": stdlib.ConcatFunc, "contains": stdlib.ContainsFunc, "distinct": distinctFunction,
		"element": stdlib.ElementFunc, "flatten": stdlib.FlattenFunc, "index": indexFunction, "keys": stdlib.KeysFunc,
		"length": lengthFunction, "lookup": lookupFunction, "merge": stdlib.MergeFunc, "one": oneFunction,
		"range": rangeFunction, "reverse": stdlib.ReverseListFunc, "setintersection": stdlib.SetIntersectionFunc,
		"setproduct": setProductFunction, "setsubtract": stdlib.SetSubtractFunc, "setunion": stdlib.SetUnionFunc,
		"slice": stdlib.SliceFunc, "sort": stdlib.SortFunc, "values": stdlib.ValuesFunc, "zipmap": stdlib.ZipmapFunc,

		"can": tryfunc.CanFunc, "try": tryfunc.TryFunc, "sensitive": sensitiveFunction, "nonsensitive": nonsensitiveFunction,
		"issensitive": isSensitiveFunction, "tobool": conversion(cty.Bool), "tonumber": conversion(cty.Number),
		"tostring": conversion(cty.String), "tolist": conversion(cty.List(cty.DynamicPseudoType)),
		"toset": conversion(cty.Set(cty.DynamicPseudoType)), "tomap": conversion(cty.Map(cty.DynamicPseudoType)),

		"base64decode": base64DecodeFunction, "base64encode": encoding.Base64EncodeFunc, "csvdecode": stdlib.CSVDecodeFunc,
		"jsondecode": bounded(stdlib.JSONDecodeFunc, syntax.CheckDepth), "jsonencode": stdlib.JSONEncodeFunc,
		"urlencode": encoding.URLEncodeFunc, "yamldecode": bounded(yaml.YAMLDecodeFunc, checkYAML), "yamlencode": yaml.YAMLEncodeFunc,

		"cidrhost": cidr.HostFunc, "cidrnetmask": cidr.NetmaskFunc, "cidrsubnet": cidr.SubnetFunc, "cidrsubnets": cidr.SubnetsFunc,

		"md5": crypto.Md5Func, "sha1": crypto.Sha1Func, "sha256": crypto.Sha256Func, "sha512": crypto.Sha512Func,
		"formatdate": stdlib.FormatDateFunc, "timeadd": stdlib.TimeAddFunc,
		"basename": basenameFunction, "dirname": dirnameFunction,
	}
}
