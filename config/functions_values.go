package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// sensitiveFunction marks a value, so that npctl never shows it.
var sensitiveFunction = function.New(&function.Spec{
	Params: []function.Parameter{{
		Name: "value", Type: cty.DynamicPseudoType, AllowNull: true, AllowUnknown: true, AllowMarked: true, AllowDynamicType: true,
	}},
	Type: func(args []cty.Value) (cty.Type, error) { return args[0].Type(), nil },
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) { return args[0].Mark(sensitive), nil },
})

// nonsensitiveFunction removes all marks.
var nonsensitiveFunction = function.New(&function.Spec{
	Params: []function.Parameter{{
		Name: "value", Type: cty.DynamicPseudoType, AllowNull: true, AllowUnknown: true, AllowMarked: true, AllowDynamicType: true,
	}},
	Type: func(args []cty.Value) (cty.Type, error) { return args[0].Type(), nil },
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		plain, _ := args[0].UnmarkDeep()
		return plain, nil
	},
})

var isSensitiveFunction = function.New(&function.Spec{
	Params: []function.Parameter{{
		Name: "value", Type: cty.DynamicPseudoType, AllowNull: true, AllowUnknown: true, AllowMarked: true, AllowDynamicType: true,
	}},
	Type: function.StaticReturnType(cty.Bool),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		return cty.BoolVal(args[0].ContainsMarked()), nil
	},
})

// conversion returns tostring and the other conversion functions.
func conversion(want cty.Type) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{
			Name: "value", Type: cty.DynamicPseudoType, AllowNull: true, AllowMarked: true, AllowDynamicType: true,
		}},
		Type: func(args []cty.Value) (cty.Type, error) {
			exact := withElements(want, args[0].Type())
			if !exact.HasDynamicTypes() && args[0].Type().Equals(exact) {
				return exact, nil
			}
			converted, err := convert.Convert(args[0], exact)
			if err != nil {
				return cty.NilType, function.NewArgErrorf(0, "cannot convert %s to %s", args[0].Type().FriendlyName(), want.FriendlyNameForConstraint())
			}
			return converted.Type(), nil
		},
		Impl: func(args []cty.Value, result cty.Type) (cty.Value, error) {
			converted, err := convert.Convert(args[0], withElements(want, args[0].Type()))
			if err != nil {
				return cty.UnknownVal(result), function.NewArgErrorf(0, "cannot convert this value to %s", want.FriendlyNameForConstraint())
			}
			return converted, nil
		},
	})
}

// withElements sets the element type of a collection when all elements of the source have the same type. Otherwise
// the conversion compares every pair of elements to find a common type.
func withElements(want, source cty.Type) cty.Type {
	if !want.IsCollectionType() || want.ElementType() != cty.DynamicPseudoType {
		return want
	}
	var elements []cty.Type
	switch {
	case source.IsTupleType():
		elements = source.TupleElementTypes()
	case source.IsObjectType():
		elements = slices.Collect(maps.Values(source.AttributeTypes()))
	}
	if len(elements) == 0 {
		return want
	}
	for _, t := range elements[1:] {
		if !t.Equals(elements[0]) {
			return want
		}
	}
	switch {
	case want.IsSetType():
		return cty.Set(elements[0])
	case want.IsMapType():
		return cty.Map(elements[0])
	default:
		return cty.List(elements[0])
	}
}

// lengthFunction counts the characters of a string and the elements of any other value.
var lengthFunction = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "value", Type: cty.DynamicPseudoType, AllowDynamicType: true, AllowUnknown: true, AllowMarked: true}},
	Type: func(args []cty.Value) (cty.Type, error) {
		t := args[0].Type()
		if t != cty.String && t != cty.DynamicPseudoType && !t.IsCollectionType() && !t.IsTupleType() && !t.IsObjectType() {
			return cty.Number, function.NewArgErrorf(0, "a string, list, set, map or object is required, not %s", article(t.FriendlyName()))
		}
		return cty.Number, nil
	},
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		value, marks := args[0].Unmark()
		switch t := value.Type(); {
		case !value.IsKnown():
			return cty.UnknownVal(cty.Number).WithMarks(marks), nil
		case t == cty.String:
			n, err := stdlib.Strlen(value)
			return n.WithMarks(marks), err
		default:
			return cty.NumberIntVal(int64(value.LengthInt())).WithMarks(marks), nil
		}
	},
})

// lookupFunction returns an element of a map or object, or the default if one is given.
var lookupFunction = function.New(&function.Spec{
	Params: []function.Parameter{
		{Name: "map", Type: cty.DynamicPseudoType},
		{Name: "key", Type: cty.String},
	},
	VarParam: &function.Parameter{Name: "default", Type: cty.DynamicPseudoType, AllowNull: true},
	Type: func(args []cty.Value) (cty.Type, error) {
		value, err := lookupElement(args)
		if err != nil {
			return cty.DynamicPseudoType, err
		}
		return value.Type(), nil
	},
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) { return lookupElement(args) },
})

func lookupElement(args []cty.Value) (cty.Value, error) {
	if len(args) > 3 {
		return cty.DynamicVal, errors.New("lookup takes a map, a key and one default")
	}
	from, key := args[0], args[1]
	if !from.IsKnown() || !key.IsKnown() {
		return cty.DynamicVal, nil
	}
	if t := from.Type(); !t.IsMapType() && !t.IsObjectType() {
		return cty.DynamicVal, function.NewArgErrorf(0, "a map or object is required, not %s", article(t.FriendlyName()))
	}
	if value, ok := from.AsValueMap()[key.AsString()]; ok {
		return value, nil
	}
	if len(args) == 3 {
		return args[2], nil
	}
	return cty.DynamicVal, function.NewArgErrorf(1, "the map has no such key, and the call has no default")
}

// indexFunction returns the index of a value in a list.
var indexFunction = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "list", Type: cty.DynamicPseudoType}, {Name: "value", Type: cty.DynamicPseudoType}},
	Type:   function.StaticReturnType(cty.Number),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		if t := args[0].Type(); !t.IsListType() && !t.IsTupleType() {
			return cty.UnknownVal(cty.Number), function.NewArgErrorf(0, "a list is required, not %s", article(t.FriendlyName()))
		}
		for it := args[0].ElementIterator(); it.Next(); {
			i, element := it.Element()
			equal, err := stdlib.Equal(element, args[1])
			if err != nil {
				return cty.UnknownVal(cty.Number), err
			}
			if !equal.IsKnown() {
				return cty.UnknownVal(cty.Number), nil
			}
			if equal.True() {
				return i, nil
			}
		}
		return cty.UnknownVal(cty.Number), function.NewArgErrorf(1, "the list has no such element")
	},
})

// rangeFunction is the function of the standard library, which ends at 1024 numbers, with a higher limit.
var rangeFunction = function.New(&function.Spec{
	VarParam: &function.Parameter{Name: "limits", Type: cty.Number},
	Type:     function.StaticReturnType(cty.List(cty.Number)),
	Impl: func(args []cty.Value, t cty.Type) (cty.Value, error) {
		var end cty.Value
		start, step := cty.Zero, cty.NumberIntVal(1)
		switch len(args) {
		case 1:
			end = args[0]
		case 2, 3:
			start, end = args[0], args[1]
		default:
			return cty.UnknownVal(t), errors.New("the function needs one, two or three numbers: a limit; a start and a limit; a start, a limit and a step")
		}
		down := end.LessThan(start).True()
		switch {
		case len(args) == 3 && args[2].RawEquals(cty.Zero):
			return cty.UnknownVal(t), function.NewArgErrorf(2, "the step is 0")
		case len(args) == 3:
			step = args[2]
		case down:
			step = cty.NumberIntVal(-1)
		}
		if step.LessThan(cty.Zero).True() != down && !end.RawEquals(start) {
			return cty.UnknownVal(t), function.NewArgErrorf(2, "the step leads away from the limit")
		}
		var numbers []cty.Value
		for n := start; down && n.GreaterThan(end).True() || !down && n.LessThan(end).True(); n = n.Add(step) {
			if numbers = append(numbers, n); len(numbers) > maxExpansion {
				return cty.UnknownVal(t), fmt.Errorf("the range has more than %d numbers", maxExpansion)
			}
		}
		if len(numbers) == 0 {
			return cty.ListValEmpty(cty.Number), nil
		}
		return cty.ListVal(numbers), nil
	},
})

// oneFunction converts a list of one element to that element, and an empty list to null.
var oneFunction = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "list", Type: cty.DynamicPseudoType}},
	Type: func(args []cty.Value) (cty.Type, error) {
		value, err := oneElement(args[0])
		return value.Type(), err
	},
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) { return oneElement(args[0]) },
})

func oneElement(list cty.Value) (cty.Value, error) {
	t := list.Type()
	if !t.IsListType() && !t.IsSetType() && !t.IsTupleType() {
		return cty.DynamicVal, function.NewArgErrorf(0, "a list or set is required, not %s", article(t.FriendlyName()))
	}
	if !list.IsKnown() {
		return cty.DynamicVal, nil
	}
	switch elements := list.AsValueSlice(); len(elements) {
	case 0:
		return cty.NullVal(cty.DynamicPseudoType), nil
	case 1:
		return elements[0], nil
	default:
		return cty.DynamicVal, function.NewArgErrorf(0, "the list has %d elements; at most one is allowed", len(elements))
	}
}

// foldFunction returns a function that combines the elements of a list.
func foldFunction(element, result cty.Type, start cty.Value, step func(sum, next cty.Value) (cty.Value, error)) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "list", Type: cty.List(element)}},
		Type:   function.StaticReturnType(result),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			total := start
			for it := args[0].ElementIterator(); it.Next(); {
				_, next := it.Element()
				if next.IsNull() {
					return cty.UnknownVal(result), function.NewArgErrorf(0, "an element is null")
				}
				var err error
				if total, err = step(total, next); err != nil {
					return cty.UnknownVal(result), fmt.Errorf("%w", err)
				}
			}
			return total, nil
		},
	})
}

var (
	sumFunction     = foldFunction(cty.Number, cty.Number, cty.Zero, stdlib.Add)
	allTrueFunction = foldFunction(cty.Bool, cty.Bool, cty.True, stdlib.And)
	anyTrueFunction = foldFunction(cty.Bool, cty.Bool, cty.False, stdlib.Or)
)
