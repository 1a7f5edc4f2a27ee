package schema

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/gocty"
)

// Check validates a known, non-null value; its error names the value and what to do.
type Check = func(cty.Value) error

// Of returns the schema of the blocks that Decode reads into a T. A field of an integer type accepts whole numbers. The
// tag `config` may have more words after the name, separated by commas:
//
//   - required, sensitive, hashed, appended: as in Attribute
//   - replacing, new: the class Replacing or AppliedToNew; InPlace without one of them
//   - nonempty, path, port: CheckNotEmpty, CheckPath, CheckPort
//
// Further tags are `default`, `oneof` and `min`; elements of a list are separated by spaces. In the tag `doc`, 'quotes'
// stand for the backquotes of Markdown. A field that is a block may have `doc`, `min`, and `label`: the meaning of its
// label. The checks are by name of the attribute; "tls.cert" is attribute cert of block tls.
func Of[T any](doc string, checks map[string]Check) Block {
	b := blockOf(reflect.TypeFor[T](), doc)
	for path, check := range checks {
		b.Find(path).addCheck(check)
	}
	return b
}

// ForLabels returns the schema of the labels of a pool as Of does. Attributes that the pool has too are those of the pool,
// with its checks and without its defaults, which would hide its values.
func ForLabels[T any](pool Block, checks map[string]Check) Block {
	b := Of[T]("", checks)
	for _, shared := range pool.Attributes {
		shared.Default = cty.NilVal
		*b.Find(shared.Name) = shared
	}
	return b
}

// Find returns the attribute of a path such as "cores" or "tls.cert". It panics if there is none.
func (b Block) Find(path string) *Attribute {
	block, rest, nested := strings.Cut(path, ".")
	if nested {
		i := slices.IndexFunc(b.Blocks, func(n NestedBlock) bool { return n.Name == block })
		return b.Blocks[i].Schema.Find(rest)
	}
	i := slices.IndexFunc(b.Attributes, func(a Attribute) bool { return a.Name == path })
	return &b.Attributes[i]
}

func (a *Attribute) addCheck(check Check) {
	if before := a.Check; before != nil {
		a.Check = func(v cty.Value) error {
			if err := before(v); err != nil {
				return err
			}
			return check(v)
		}
		return
	}
	a.Check = check
}

// fieldTag is the tag `config` of a field.
type fieldTag struct {
	name    string
	options []string
}

func tagOf(f reflect.StructField) fieldTag {
	words := strings.Split(f.Tag.Get("config"), ",")
	return fieldTag{words[0], words[1:]}
}

func (t fieldTag) has(option string) bool { return slices.Contains(t.options, option) }

func blockOf(t reflect.Type, doc string) Block {
	b := Block{Doc: doc}
	for i := range t.NumField() {
		f := t.Field(i)
		tag, inner := tagOf(f), innerOf(f.Type)
		switch {
		case tag.has("inline"):
			more := blockOf(inner, "")
			b.Attributes, b.Blocks = append(b.Attributes, more.Attributes...), append(b.Blocks, more.Blocks...)
		case tag.name == "":
		case inner.Kind() == reflect.Struct:
			n := NestedBlock{Name: tag.name, Label: f.Tag.Get("label"), Schema: blockOf(inner, docOf(f))}
			n.Min, _ = strconv.Atoi(f.Tag.Get("min"))
			if f.Type.Kind() != reflect.Slice {
				n.Max = 1
			}
			b.Blocks = append(b.Blocks, n)
		default:
			b.Attributes = append(b.Attributes, attributeOf(tag, f, inner))
		}
	}
	return b
}

// innerOf returns the type of an attribute or block by that of its field.
func innerOf(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct {
		return t.Elem()
	}
	return t
}

func typeOf(t reflect.Type) cty.Type {
	switch kind := t.Kind(); {
	case t == reflect.TypeFor[time.Duration](), kind == reflect.String:
		return cty.String
	case kind == reflect.Bool:
		return cty.Bool
	case kind == reflect.Slice:
		return cty.List(cty.String)
	case kind == reflect.Map && t.Elem().Kind() == reflect.String:
		return cty.Map(cty.String)
	case kind == reflect.Map && t.Elem().Kind() == reflect.Slice:
		return cty.Map(cty.List(cty.String))
	case kind == reflect.Map:
		return cty.Map(cty.Number)
	default:
		return cty.Number
	}
}

func attributeOf(tag fieldTag, f reflect.StructField, t reflect.Type) Attribute {
	a := Attribute{Name: tag.name, Doc: docOf(f), Type: typeOf(t), Required: tag.has("required"), Sensitive: tag.has("sensitive"), Hashed: tag.has("hashed"), Appended: tag.has("appended")}
	switch {
	case t == reflect.TypeFor[time.Duration]():
		a.Format = FormatDuration
	case a.Type == cty.Number && t.Kind() != reflect.Float64:
		a.addCheck(CheckWhole)
	}
	switch {
	case tag.has("replacing"):
		a.Class = Replacing
	case tag.has("new"):
		a.Class = AppliedToNew
	}
	for option, check := range map[string]Check{"nonempty": CheckNotEmpty, "path": CheckPath, "port": CheckPort} {
		if tag.has(option) {
			a.addCheck(check)
		}
	}
	if text, ok := f.Tag.Lookup("default"); ok {
		a.Default = defaultOf(text, a.Type)
	}
	if n, err := strconv.ParseInt(f.Tag.Get("min"), 10, 64); err == nil {
		a.Min = &n
	}
	a.OneOf = strings.Fields(f.Tag.Get("oneof"))
	return a
}

func defaultOf(text string, t cty.Type) cty.Value {
	switch {
	case t.IsMapType():
		return cty.MapValEmpty(t.ElementType())
	case t.IsListType() && text == "":
		return cty.ListValEmpty(t.ElementType())
	case t.IsListType():
		var list []cty.Value
		for _, word := range strings.Fields(text) {
			list = append(list, cty.StringVal(word))
		}
		return cty.ListVal(list)
	}
	v, err := convert.Convert(cty.StringVal(text), t)
	if err != nil {
		panic(fmt.Sprintf("default %q: %v", text, err))
	}
	return v
}

func docOf(f reflect.StructField) string { return withBackticks(f.Tag.Get("doc")) }

// withBackticks replaces the quotes around a text, of which the first is no apostrophe. Every command calls it for all
// attributes, so it is no regular expression.
func withBackticks(doc string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(doc, "'")
		if !found {
			break
		}
		b.WriteString(before)
		last, _ := utf8.DecodeLastRuneInString(before)
		text, rest, closed := strings.Cut(after, "'")
		if !closed || text == "" || unicode.IsLetter(last) {
			b.WriteByte('\'')
			doc = after
			continue
		}
		b.WriteString("`" + text + "`")
		doc = rest
	}
	if b.Len() == 0 {
		return doc
	}
	return b.String() + doc
}

// Decode copies a block, a value of Block.Type, into the struct to which into points. A field with the tag
// `config:"name"` gets the attribute or nested block of that name:
//
//   - a string, number, bool, list or map of them: an attribute; an empty list or map is nil
//   - a time.Duration: an attribute with FormatDuration
//   - a struct: a block with Max 1 and without label
//   - a slice of structs: all other blocks, those with a label in the order of their labels
//   - a pointer to one of these: unchanged if the attribute or block is not set
//
// A field with the tag `config:",label"` gets the label of a nested block. The fields of a struct with the tag
// `config:",inline"` are part of the block. Decode removes marks. If an attribute is null or missing, its field gets the
// value of the tag `default`. A field without this tag keeps its value, and so does the field of an unknown attribute.
func Decode(block cty.Value, into any) error {
	var values map[string]cty.Value
	if block != cty.NilVal {
		if block, _ = block.Unmark(); !block.IsKnown() {
			return nil
		}
		if !block.IsNull() {
			values = block.AsValueMap()
		}
	}
	return DecodeValues(values, into)
}

// DecodeValues is Decode for the attributes and nested blocks of a block by name.
func DecodeValues(values map[string]cty.Value, into any) error {
	return decodeStruct(values, "", reflect.ValueOf(into).Elem())
}

func decodeStruct(values map[string]cty.Value, label string, into reflect.Value) error {
	for i := range into.NumField() {
		f := into.Type().Field(i)
		tag := tagOf(f)
		var err error
		switch {
		case tag.has("label"):
			into.Field(i).SetString(label)
		case tag.has("inline"):
			err = decodeStruct(values, label, into.Field(i))
		case tag.name != "":
			value := values[tag.name]
			if text, ok := f.Tag.Lookup("default"); ok && (value == cty.NilVal || value.IsNull()) {
				value = defaultOf(text, typeOf(innerOf(f.Type)))
			}
			err = decodeField(value, into.Field(i))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", tag.name, err)
		}
	}
	return nil
}

func decodeField(value cty.Value, into reflect.Value) error {
	if value == cty.NilVal {
		return nil
	}
	if value, _ = value.UnmarkDeep(); value.IsNull() || !value.IsWhollyKnown() {
		return nil
	}
	switch kind := into.Kind(); {
	case into.Type() == reflect.TypeFor[time.Duration]() && value.Type() == cty.String:
		d, err := ParseDuration(value.AsString())
		into.SetInt(int64(d))
		return err
	case kind == reflect.Pointer:
		if into.IsNil() {
			into.Set(reflect.New(into.Type().Elem()))
		}
		return decodeField(value, into.Elem())
	case kind == reflect.Struct && value.Type().IsObjectType():
		return decodeStruct(value.AsValueMap(), "", into)
	case (kind == reflect.Slice || kind == reflect.Map) && value.CanIterateElements() && value.LengthInt() == 0:
		into.SetZero()
		return nil
	case kind == reflect.Slice && into.Type().Elem().Kind() == reflect.Struct && value.CanIterateElements():
		return decodeBlocks(value, into)
	default:
		return gocty.FromCtyValue(value, into.Addr().Interface())
	}
}

// decodeBlocks decodes a list of blocks, or a map of blocks by label.
func decodeBlocks(value cty.Value, into reflect.Value) error {
	into.SetZero()
	for it := value.ElementIterator(); it.Next(); {
		key, body := it.Element()
		label := ""
		if key.Type() == cty.String {
			label = key.AsString()
		}
		block := reflect.New(into.Type().Elem()).Elem()
		if err := decodeStruct(body.AsValueMap(), label, block); err != nil {
			return err
		}
		into.Set(reflect.Append(into, block))
	}
	return nil
}

// Values returns the fields of a struct with the tag `config` by the names of their attributes, see Decode: for views of
// the configuration. A duration is a number of seconds, a nil pointer is nil. It omits nested blocks.
func Values(block any) map[string]any {
	values := map[string]any{}
	addValues(reflect.ValueOf(block), values)
	return values
}

func addValues(v reflect.Value, values map[string]any) {
	for i := range v.NumField() {
		tag, field := tagOf(v.Type().Field(i)), v.Field(i)
		if field.Kind() == reflect.Pointer && !field.IsNil() {
			field = field.Elem()
		}
		switch {
		case tag.has("inline"):
			addValues(field, values)
		case tag.name == "" || field.Kind() == reflect.Struct:
		case field.Kind() == reflect.Pointer:
			values[tag.name] = nil
		case field.Type() == reflect.TypeFor[time.Duration]():
			values[tag.name] = time.Duration(field.Int()).Seconds()
		case field.Kind() == reflect.Slice && field.Type().Elem().Kind() == reflect.Struct:
		default:
			values[tag.name] = field.Interface()
		}
	}
}
