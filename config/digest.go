package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
)

// digestOf hashes a whole configuration, and its blocks without sensitive values. The directory and line numbers do
// not count, so a plan from one checkout can be applied in another.
func digestOf(d resources.Desired) resources.HashSource {
	d.Settings.Dir = ""
	sum := sha256.New()
	digestValue(sum, reflect.ValueOf(d))
	public := sha256.New()
	for _, b := range d.Blocks {
		_, _ = fmt.Fprintf(public, "%q %s\n", b.Address, b.Digest)
	}
	return resources.NewHashSource([sha256.Size]byte(sum.Sum(nil)), [sha256.Size]byte(public.Sum(nil)))
}

// derived fields repeat the content of other fields.
var derived = map[string]bool{"Hashes": true, "Hashed": true, "Static": true, "Digests": true, "Blocks": true, "Values": true, "Former": true, "FormerHashed": true}

// optional fields of Desired do not count while they are empty, so that digests of earlier npctl versions stay valid.
var optional = map[string]bool{"Imports": true, "Moves": true, "Removed": true, "Currency": true}

// optionalAttributes do not count in the digest of a block while they are not set, for the same reason.
var optionalAttributes = map[string]bool{"currency": true}

// digestValue writes a value so that different values never produce the same bytes: a length or a name precedes every
// part.
func digestValue(sum hash.Hash, v reflect.Value) {
	switch value := v.Interface().(type) {
	case cty.Value:
		digestCty(sum, value)
		return
	case resources.Source:
		return
	case resources.AnyOf: // one value as a text, so that digests of earlier npctl versions stay valid
		if len(value) == 1 {
			digestValue(sum, reflect.ValueOf(value[0]))
			return
		}
	}
	switch v.Kind() {
	case reflect.Struct:
		for i, name := range fieldNames(v.Type()) {
			if derived[name] || optional[name] && v.Field(i).Len() == 0 {
				continue
			}
			if name != "" {
				_, _ = io.WriteString(sum, name+":")
			}
			digestValue(sum, v.Field(i))
		}
	case reflect.Slice:
		fmt.Fprintf(sum, "[%d]", v.Len())
		for i := range v.Len() {
			digestValue(sum, v.Index(i))
		}
	case reflect.Map:
		fmt.Fprintf(sum, "{%d}", v.Len())
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, key := range keys {
			digestValue(sum, key)
			digestValue(sum, v.MapIndex(key))
		}
	case reflect.Pointer:
		if v.IsNil() {
			fmt.Fprint(sum, "nil;")
			return
		}
		digestValue(sum, v.Elem())
	default:
		text, _ := json.Marshal(v.Interface()) // strings, numbers and bools only
		writeDigest(sum, text)
	}
}

var namesOfTypes sync.Map // reflect.Type to []string

// fieldNames returns the names of the fields of a struct type; "" is an embedded struct, the fields of which count as those of the
// type. reflect makes a new string for each call.
func fieldNames(t reflect.Type) []string {
	if names, known := namesOfTypes.Load(t); known {
		return names.([]string)
	}
	names := make([]string, t.NumField())
	for i := range names {
		if f := t.Field(i); !f.Anonymous {
			names[i] = f.Name
		}
	}
	namesOfTypes.Store(t, names)
	return names
}

func digestCty(sum hash.Hash, value cty.Value) {
	if value == cty.NilVal {
		fmt.Fprint(sum, "nil;")
		return
	}
	if value.ContainsMarked() {
		value, _ = value.UnmarkDeep()
	}
	digestPlain(sum, value)
}

// digestPlain writes a value without marks.
func digestPlain(sum hash.Hash, value cty.Value) {
	if value.Type().Equals(textsMap) && value.IsWhollyKnown() && !value.IsNull() && value.LengthInt() > 0 {
		value = withoutBrackets(value)
	}
	var text []byte // empty for an unknown value: only after an error, when the digest is not used
	whole, isWhole := wholeNumber(value)
	switch {
	case value.IsNull():
		text = []byte("null")
	case value.Type() == cty.String && value.IsKnown():
		text, _ = json.Marshal(value.AsString())
	case isWhole: // the general case takes microseconds for a number
		text = strconv.AppendInt(nil, whole, 10)
	default:
		text, _ = ctyjson.Marshal(value, value.Type())
	}
	writeDigest(sum, text)
}

// wholeNumber returns the value if it is a number of an int64, and not 0, which may have a sign.
func wholeNumber(value cty.Value) (n int64, ok bool) {
	if value.Type() != cty.Number || !value.IsKnown() || value.IsNull() {
		return 0, false
	}
	n, accuracy := value.AsBigFloat().Int64()
	return n, accuracy == big.Exact && n != 0
}

func writeDigest(sum hash.Hash, text []byte) {
	_, _ = sum.Write(strconv.AppendInt(nil, int64(len(text)), 10))
	_, _ = sum.Write([]byte{':'})
	_, _ = sum.Write(text)
	_, _ = sum.Write([]byte{';'})
}

// withoutBrackets turns lists of one element into the element, as resources.AnyOf in digestValue.
func withoutBrackets(value cty.Value) cty.Value {
	elements := value.AsValueMap()
	for name, list := range elements {
		if list.LengthInt() == 1 {
			elements[name] = list.Index(cty.Zero)
		}
	}
	return cty.ObjectVal(elements)
}

// plannedValues returns, as JSON text, the attributes of a body that affect nodes and images and differ from their
// defaults. It omits nested blocks.
func plannedValues(b schema.Block, v values) map[string]string {
	planned := map[string]string{}
	for i := range b.Attributes {
		attr := &b.Attributes[i]
		value, known := v[attr.Name]
		if !known || attr.Class == schema.InPlace || value.IsNull() {
			continue
		}
		if plain, _ := value.UnmarkDeep(); attr.Default == cty.NilVal || !plain.RawEquals(attr.Default) {
			planned[attr.Name] = plannedValue(attr, value)
		}
	}
	return planned
}

func plannedValue(attr *schema.Attribute, value cty.Value) string {
	if attr.Hashed && !attr.Sensitive && !value.IsMarked() && value.IsKnown() {
		sum := sha256.Sum256([]byte(value.AsString()))
		value = cty.StringVal("sha256:" + hex.EncodeToString(sum[:]))
	}
	return showValue(value, attr.Sensitive)
}
