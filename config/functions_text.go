package config

import (
	"encoding/base64"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"

	"github.com/npctl/npctl/internal/syntax"
	plaintext "github.com/npctl/npctl/internal/text"
)

// textFunction returns a function from string to string.
func textFunction(do func(string) (string, error)) function.Function {
	return stringFunction("text", do)
}

// stringFunction returns a function from string to string; error messages use the given name of its parameter.
func stringFunction(parameter string, do func(string) (string, error)) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: parameter, Type: cty.String}},
		Type:   function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			text, err := do(args[0].AsString())
			if err != nil {
				return cty.UnknownVal(cty.String), function.NewArgError(0, err)
			}
			return cty.StringVal(text), nil
		},
	})
}

// testFunction returns a function from two strings to a bool.
func testFunction(do func(text, part string) bool) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "text", Type: cty.String}, {Name: "part", Type: cty.String}},
		Type:   function.StaticReturnType(cty.Bool),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			return cty.BoolVal(do(args[0].AsString(), args[1].AsString())), nil
		},
	})
}

var (
	startsWithFunction   = testFunction(strings.HasPrefix)
	endsWithFunction     = testFunction(strings.HasSuffix)
	containsTextFunction = testFunction(strings.Contains)

	basenameFunction = textFunction(func(s string) (string, error) { return path.Base(s), nil })
	dirnameFunction  = textFunction(func(s string) (string, error) { return path.Dir(s), nil })

	base64DecodeFunction = textFunction(decodeBase64) // that of go-cty-funcs prints the text in its errors
)

func decodeBase64(s string) (string, error) {
	raw, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return "", errors.New("the text is not base64")
	}
	if !utf8.Valid(raw) {
		return "", errors.New("the decoded data is not UTF-8 text")
	}
	return string(raw), nil
}

// replaceFunction replaces a substring, or the matches of a /regular expression/.
var replaceFunction = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "text", Type: cty.String}, {Name: "old", Type: cty.String}, {Name: "new", Type: cty.String}},
	Type:   function.StaticReturnType(cty.String),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		text, old, replacement := args[0].AsString(), args[1].AsString(), args[2].AsString()
		if growth := len(replacement) * (len(text) + 1); growth > maxValueBytes {
			return cty.UnknownVal(cty.String), errors.New("the result could be larger than " + plaintext.Bytes(maxValueBytes))
		}
		if len(old) > 1 && strings.HasPrefix(old, "/") && strings.HasSuffix(old, "/") {
			pattern, err := regexp.Compile(old[1 : len(old)-1])
			if err != nil {
				return cty.UnknownVal(cty.String), function.NewArgError(1, err)
			}
			return cty.StringVal(pattern.ReplaceAllString(text, replacement)), nil
		}
		return cty.StringVal(strings.ReplaceAll(text, old, replacement)), nil
	},
})

// widths finds the width and precision numbers in a format.
var widths = regexp.MustCompile(`%[-+ #0]*(\d*)(?:\[\d+\])?\.?(\d*)`)

// formatFunction rejects formats with a width or precision above 10,000.
func formatFunction(f function.Function) function.Function {
	return wrap(f, func(args []cty.Value) error {
		format, _ := args[0].Unmark()
		if !format.IsKnown() || format.IsNull() || format.Type() != cty.String {
			return nil
		}
		for _, match := range widths.FindAllStringSubmatch(format.AsString(), -1) {
			for _, digits := range match[1:] {
				if n, err := strconv.Atoi(digits); digits != "" && (err != nil || n > 10_000) {
					return function.NewArgErrorf(0, "the width %s is larger than 10000", digits)
				}
			}
		}
		return nil
	})
}

// setProductFunction rejects products with too many elements.
var setProductFunction = wrap(stdlib.SetProductFunc, func(args []cty.Value) error {
	total := 1
	for _, arg := range args {
		arg, _ = arg.Unmark()
		if !arg.IsKnown() || arg.IsNull() || !arg.CanIterateElements() {
			return nil
		}
		if total *= arg.LengthInt(); total > maxExpansion {
			return fmt.Errorf("the product has more than %d elements", maxExpansion)
		}
		if total == 0 {
			return nil
		}
	}
	return nil
})

// indentFunction rejects results that would be larger than any value may be.
var indentFunction = wrap(stdlib.IndentFunc, func(args []cty.Value) error {
	width, _ := args[0].Unmark()
	text, _ := args[1].Unmark()
	if !known(width, cty.Number) || !known(text, cty.String) {
		return nil
	}
	spaces, _ := width.AsBigFloat().Float64()
	if spaces*float64(strings.Count(text.AsString(), "\n")) > maxValueBytes {
		return function.NewArgErrorf(0, "the text would have more than %s", plaintext.Bytes(maxValueBytes))
	}
	return nil
})

// joinFunction rejects results that would be larger than any value may be.
var joinFunction = wrap(stdlib.JoinFunc, func(args []cty.Value) error {
	separator, _ := args[0].Unmark()
	if !known(separator, cty.String) {
		return nil
	}
	size := 0
	for _, list := range args[1:] {
		list, _ = list.Unmark()
		if !list.IsKnown() || list.IsNull() || !list.CanIterateElements() {
			return nil
		}
		for it := list.ElementIterator(); it.Next(); {
			_, element := it.Element()
			if element, _ = element.Unmark(); known(element, cty.String) {
				size += len(element.AsString())
			}
			if size += len(separator.AsString()); size > maxValueBytes {
				return fmt.Errorf("the text would have more than %s", plaintext.Bytes(maxValueBytes))
			}
		}
	}
	return nil
})

// distinctFunction rejects lists that would take minutes to compare.
var distinctFunction = wrap(stdlib.DistinctFunc, func(args []cty.Value) error {
	list, _ := args[0].Unmark()
	if list.IsKnown() && !list.IsNull() && list.CanIterateElements() && list.LengthInt() > maxDistinct {
		return function.NewArgErrorf(0, "the list has more than %d elements; toset removes duplicates too", maxDistinct)
	}
	return nil
})

// known reports whether a value is known, not null and of the given type.
func known(value cty.Value, as cty.Type) bool {
	return value.IsKnown() && !value.IsNull() && value.Type() == as
}

// wrap returns a function that runs a check before another function.
func wrap(f function.Function, check func([]cty.Value) error) function.Function {
	return function.New(&function.Spec{
		Params: allowAll(f.Params()), VarParam: allowAllVar(f.VarParam()),
		Type: func(args []cty.Value) (cty.Type, error) {
			if err := check(args); err != nil {
				return cty.DynamicPseudoType, err
			}
			return f.ReturnTypeForValues(args)
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) { return f.Call(args) },
	})
}

// allowAll makes parameters accept null, unknown and marked values, so that the wrapped function handles them.
func allowAll(params []function.Parameter) []function.Parameter {
	open := make([]function.Parameter, len(params))
	for i, p := range params {
		p.AllowNull, p.AllowUnknown, p.AllowDynamicType, p.AllowMarked = true, true, true, true
		open[i] = p
	}
	return open
}

func allowAllVar(param *function.Parameter) *function.Parameter {
	if param == nil {
		return nil
	}
	return &allowAll([]function.Parameter{*param})[0]
}

// bounded checks the argument of a decoding function.
func bounded(f function.Function, check func(string) error) function.Function {
	return wrap(f, func(args []cty.Value) error {
		text, _ := args[0].Unmark()
		if !text.IsKnown() || text.IsNull() || text.Type() != cty.String {
			return nil
		}
		return check(text.AsString())
	})
}

// checkYAML rejects data with too much nesting or too many aliases, which could expand exponentially. It scans lines
// without parsing, so it overestimates and does not underestimate.
func checkYAML(text string) error {
	brackets, aliases := 0, 0
	for line := range strings.Lines(text) {
		if indent := len(line) - len(strings.TrimLeft(line, " \t-?:")); indent > 2*syntax.MaxDataDepth {
			return fmt.Errorf("the data is nested more than %d deep", syntax.MaxDataDepth)
		}
		brackets += strings.Count(line, "[") + strings.Count(line, "{")
		brackets = max(0, brackets-strings.Count(line, "]")-strings.Count(line, "}"))
		if brackets > syntax.MaxDataDepth || strings.Count(line, "[[")+strings.Count(line, "{{") > syntax.MaxDataDepth {
			return fmt.Errorf("the data is nested more than %d deep", syntax.MaxDataDepth)
		}
		aliases += aliasesIn(line)
	}
	if aliases > maxAliases {
		return fmt.Errorf("the data has more than %d aliases", maxAliases)
	}
	return nil
}

func aliasesIn(line string) int {
	n := 0
	for i := range len(line) {
		if line[i] == '*' && (i == 0 || strings.IndexByte(" \t-?:,[{", line[i-1]) >= 0) {
			n++
		}
	}
	return n
}
