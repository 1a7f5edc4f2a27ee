package config

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/npctl/npctl/internal/syntax"
	"github.com/npctl/npctl/resources/schema"
)

// setting evaluates one attribute, converts it to its type and checks it. It returns false for a null attribute,
// which equals an absent one. After an error it returns an unknown value and true, so that the attribute does not
// count as missing.
func (d *decoder) setting(attr *hclsyntax.Attribute, want *schema.Attribute, guarded bool, ctx *hcl.EvalContext) (cty.Value, bool) {
	if want.Sensitive {
		d.sources.hide(attr.Expr)
	}
	unknown := cty.UnknownVal(plainType(want.Type))
	value, ok := d.eval.evaluate(attr.Expr, ctx)
	if !ok {
		return unknown, true
	}
	at := attr.Expr.Range()
	converted, err := convertTo(value, want.Type)
	if err == nil && want.Type.Equals(schema.ImageRef) {
		err = checkReference(converted)
	}
	if err != nil {
		d.wrongType(attr, want, value, err)
		return unknown, true
	}
	if guarded && !want.Sensitive && converted.ContainsMarked() {
		d.problem(at.Ptr(), "Sensitive value", fmt.Sprintf("npctl prints and stores the attribute %q in plain text, so its value "+
			"cannot be sensitive. If the value is not secret, use nonsensitive().", attr.Name))
		return unknown, true
	}
	plain, marks := converted.UnmarkDeep()
	if plain.IsNull() {
		return cty.NilVal, false
	}
	if plain.IsWhollyKnown() {
		if err := checkValue(want, plain); err != nil {
			d.invalidValue(attr, want, err, want.Sensitive || len(marks) > 0)
			return unknown, true
		}
	}
	if want.Sensitive {
		converted = plain.Mark(sensitive)
	}
	return converted, true
}

func (d *decoder) invalidValue(attr *hclsyntax.Attribute, want *schema.Attribute, err error, secret bool) {
	detail := fmt.Sprintf("The attribute %q is not valid: %s", want.Name, withFullStop(err.Error()))
	if secret {
		detail = fmt.Sprintf("The sensitive attribute %q is not valid. The reason is hidden, because it could reveal the value.", want.Name)
	}
	d.problem(attr.Expr.Range().Ptr(), "Invalid value", detail)
}

// checkReference checks that a reference that is written as an object has both parts.
func checkReference(ref cty.Value) error {
	ref, _ = ref.UnmarkDeep()
	if ref.IsNull() || !ref.IsKnown() {
		return nil
	}
	for _, part := range ref.AsValueMap() {
		if part.IsNull() {
			return errors.New("a part of the reference is null")
		}
	}
	return nil
}

// withFullStop ends a text with a full stop unless it has one or a question mark.
func withFullStop(text string) string {
	if strings.HasSuffix(text, "?") || strings.HasSuffix(text, ".") {
		return text
	}
	return text + "."
}

func (d *decoder) wrongType(attr *hclsyntax.Attribute, want *schema.Attribute, value cty.Value, err error) {
	detail := fmt.Sprintf("The attribute %q: %s.", attr.Name, err)
	given := value.Type()
	switch {
	case want.Type.Equals(schema.ImageRef):
		form := "written without quotes, such as diskimage.debian, zuul_image.debian or cloud_image.debian"
		if syntax.IsJSON(attr.NameRange.Filename) {
			form = `in JSON such as "${diskimage.debian}", "${zuul_image.debian}" or "${cloud_image.debian}"`
		}
		detail = fmt.Sprintf("The attribute %q is a reference to an image block, %s.", attr.Name, form)
		if literal, ok := plainString(value); ok {
			detail += d.eval.referenceHint(literal)
		} else if given.IsObjectType() || given.IsMapType() {
			detail += " A block with for_each needs the key, as in diskimage.debian[\"bookworm\"]."
		}
	case (want.Type.IsListType() || want.Type.IsSetType()) && given.IsPrimitiveType():
		detail += " Put brackets around it: [ … ]."
	}
	d.problem(attr.Expr.Range().Ptr(), "Wrong type", detail)
}

// checkValue checks a known value without marks.
func checkValue(want *schema.Attribute, value cty.Value) error {
	if len(want.OneOf) > 0 {
		if err := checkOneOf(want.OneOf, value); err != nil {
			return err
		}
	}
	if want.Format == schema.FormatDuration {
		if _, err := schema.ParseDuration(value.AsString()); err != nil {
			return err
		}
	}
	if err := checkMinimum(want, value); err != nil {
		return err
	}
	if want.Check != nil {
		return want.Check(value)
	}
	return nil
}

// checkMinimum checks a number, or each number of a map.
func checkMinimum(want *schema.Attribute, value cty.Value) error {
	switch {
	case want.Min == nil || value.IsNull() || !value.IsKnown():
		return nil
	case value.Type().IsMapType():
		for key, element := range value.AsValueMap() {
			if err := checkMinimum(want, element); err != nil {
				return fmt.Errorf("%q: %w", key, err)
			}
		}
		return nil
	case value.Type() == cty.Number && value.AsBigFloat().Cmp(new(big.Float).SetInt64(*want.Min)) < 0:
		return fmt.Errorf("%s is less than the minimum of %d", value.AsBigFloat().Text('g', 10), *want.Min)
	default:
		return nil
	}
}

func checkOneOf(options []string, value cty.Value) error {
	if value.Type() == cty.String {
		if !slices.Contains(options, value.AsString()) {
			return fmt.Errorf("%q is not allowed.%s", value.AsString(), oneOf("values", value.AsString(), options))
		}
		return nil
	}
	if !value.CanIterateElements() {
		return nil
	}
	for it := value.ElementIterator(); it.Next(); {
		if _, element := it.Element(); element.Type() == cty.String && !element.IsNull() {
			if err := checkOneOf(options, element); err != nil {
				return err
			}
		}
	}
	return nil
}

// convertTo converts a value with the rules of the language. The error states the expected type and shows no values.
// A list, set or map must not have null elements.
func convertTo(value cty.Value, want cty.Type) (cty.Value, error) {
	if want.Equals(textsMap) {
		value = withBrackets(value)
	}
	converted, err := convert.Convert(value, want)
	if err != nil {
		return cty.NilVal, conversionError(err, want)
	}
	if t := converted.Type(); t.IsCollectionType() && t.ElementType().IsPrimitiveType() || t.Equals(textsMap) {
		if err := checkNoNulls(converted); err != nil {
			return cty.NilVal, err
		}
	}
	return converted, nil
}

// withBrackets turns the elements of a map or an object that are no lists into lists of one element.
func withBrackets(value cty.Value) cty.Value {
	plain, marks := value.Unmark()
	if t := plain.Type(); plain.IsNull() || !t.IsMapType() && !t.IsObjectType() {
		return value
	}
	if !plain.IsKnown() {
		return cty.UnknownVal(textsMap).WithMarks(marks)
	}
	elements := plain.AsValueMap()
	for name, element := range elements {
		if element.Type().IsPrimitiveType() && !element.IsNull() {
			elements[name] = cty.ListVal([]cty.Value{element})
		}
	}
	return cty.ObjectVal(elements).WithMarks(marks)
}

func checkNoNulls(collection cty.Value) error {
	plain, _ := collection.UnmarkDeep()
	if plain.IsNull() || !plain.IsKnown() {
		return nil
	}
	for it := plain.ElementIterator(); it.Next(); {
		_, element := it.Element()
		if element.IsNull() {
			return errors.New("an element is null")
		}
		if element.CanIterateElements() {
			if err := checkNoNulls(element); err != nil {
				return err
			}
		}
	}
	return nil
}

// conversionError adds the path of the wrong part and the expected type to an error.
func conversionError(err error, want cty.Type) error {
	if inner, ok := errors.AsType[cty.PathError](err); ok && len(inner.Path) > 0 {
		return fmt.Errorf("in %s, %s", pathText(inner.Path), inner.Error())
	}
	if strings.Contains(err.Error(), "required") {
		return err
	}
	return fmt.Errorf("%w (expected: %s)", err, want.FriendlyName())
}

func pathText(path cty.Path) string {
	var b strings.Builder
	for _, step := range path {
		switch s := step.(type) {
		case cty.GetAttrStep:
			fmt.Fprintf(&b, ".%s", s.Name)
		case cty.IndexStep:
			key, _ := s.Key.Unmark()
			switch {
			case !key.IsKnown() || key.IsNull():
				b.WriteString("[…]")
			case key.Type() == cty.String:
				fmt.Fprintf(&b, "[%q]", key.AsString())
			case key.Type() == cty.Number:
				fmt.Fprintf(&b, "[%s]", key.AsBigFloat().Text('f', -1))
			}
		}
	}
	return strings.TrimPrefix(b.String(), ".")
}

// plainString returns a known, unmarked string.
func plainString(v cty.Value) (string, bool) {
	if v.IsMarked() || !v.IsKnown() || v.IsNull() || v.Type() != cty.String {
		return "", false
	}
	return v.AsString(), true
}

// plainType returns the type of an attribute's values. Optional attributes only affect conversion.
func plainType(t cty.Type) cty.Type { return t.WithoutOptionalAttributesDeep() }
