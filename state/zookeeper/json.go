package zookeeper

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// ownKey is the only key that npctl adds to a document, for attributes that Nodepool has no key for. Zuul keeps it. A
// Nodepool launcher drops it, which must be harmless: no process waits for anything under it.
const ownKey = "npctl"

// values lists the keys of a document that follow from a record, in the order of a new document.
type values []value

type value struct {
	key string
	raw json.RawMessage // nil: no such key
}

// codec translates one kind of record. decode parses a document; base is the record without npctl's own key.
type codec struct {
	decode func(p znodeRef, data []byte, created int64) (record, base resources.Record, err error)
	values func(resources.Record) values
	extras extras
	// fresh returns the keys that only a new document has. launcher is the ID of the pool that launches a node.
	fresh func(record resources.Record, launcher string) values
}

func codecOf(kind resources.Kind) codec {
	switch kind {
	case resources.KindRequest:
		return codec{decodeRequest, requestValues, requestExtras, nil}
	case resources.KindNode:
		return codec{decodeNode, nodeValues, nodeExtras, freshNode}
	case resources.KindBuild:
		return codec{decodeBuild, buildValues, buildExtras, nil}
	case resources.KindTrial:
		return codec{decodeTrial, trialValues, extras{own: reflect.TypeFor[struct{}]()}, nil}
	default:
		return codec{decodeUpload, uploadValues, uploadExtras, nil}
	}
}

// decode decodes the content of a record or registration.
func decode(p znodeRef, c content) content {
	var err error
	switch {
	case p.role == roleComponent:
		c.peer = decodeComponent(p, c.data)
	case len(c.data) == 0 && p.kind == resources.KindBuild: // created as the parent of an upload
	case len(c.data) == 0:
		c.bad = "it is empty"
	default:
		if c.record, _, err = codecOf(p.kind).decode(p, c.data, c.created); err != nil {
			c.record, c.bad = nil, err.Error()
		}
	}
	return c
}

// encode returns the document of a record. It keeps each key of an old document byte for byte, unless the meaning of
// the key changed. The keys for other programs follow from public, the record without names that only npctl knows.
// old is nil for a new record, which gets launcher as the ID of its pool.
func encode(p znodeRef, record, public resources.Record, old *znode, launcher string) ([]byte, error) {
	c := codecOf(p.kind)
	doc := &object{values: map[string]json.RawMessage{}}
	var before values
	var created int64
	if old != nil {
		created = old.created
	}
	if old != nil && old.record != nil {
		var err error
		if doc, err = parseObject(old.data); err != nil {
			return nil, err
		}
		before = c.values(old.record)
	}
	doc.change(before, c.values(public))
	if before == nil && c.fresh != nil {
		doc.change(nil, c.fresh(public, launcher))
	}
	return withExtras(c, p, doc, record, created)
}

// change sets the keys with new values and drops the keys without a value.
func (o *object) change(before, after values) {
	for i, v := range after {
		same := i < len(before) && bytes.Equal(before[i].raw, v.raw)
		switch {
		case v.raw == nil && !same:
			o.drop(v.key)
		case v.raw != nil && (!same || !o.has(v.key)):
			o.set(v.key, v.raw)
		}
	}
}

// withExtras puts under npctl's own key all attributes that the rest of the document does not express.
func withExtras(c codec, p znodeRef, doc *object, record resources.Record, created int64) ([]byte, error) {
	_, base, err := c.decode(p, doc.bytes(ownKey), created)
	if err != nil {
		return nil, state.Invalidf("%s would read back differently: %v", record.Key(), err)
	}
	old := doc.values[ownKey]
	extra := mergeExtra(old, asJSON(c.extras.differences(base, record)))
	switch {
	case string(extra) == "{}":
		doc.drop(ownKey)
	case !bytes.Equal(old, extra) && !bytes.Equal(compacted(old), compacted(extra)):
		doc.set(ownKey, extra)
	}
	return doc.bytes(), nil
}

func compacted(raw json.RawMessage) []byte {
	var text bytes.Buffer
	if json.Compact(&text, raw) != nil {
		return nil
	}
	return text.Bytes()
}

// mergeExtra preserves unknown fields of old, which a newer npctl wrote.
func mergeExtra(old, extra json.RawMessage) json.RawMessage {
	before, err := parseObject(old)
	if err != nil {
		return extra
	}
	after, err := parseObject(extra)
	if err != nil {
		return extra
	}
	for _, key := range before.keys {
		if !after.has(key) && !knownExtras[key] {
			after.set(key, before.values[key])
		}
	}
	return after.bytes()
}

var knownExtras = fieldNames(nodeExtra{}, requestExtra{}, buildExtra{}, uploadExtra{})

// fieldNames returns the JSON names of the structs' fields.
func fieldNames(structs ...any) map[string]bool {
	names := map[string]bool{}
	for _, s := range structs {
		t := reflect.TypeOf(s)
		for i := range t.NumField() {
			name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			names[name] = true
		}
	}
	return names
}

// extras translates the value of npctl's own key: a struct with a pointer for each attribute, which has the name of the
// record's field. A nil pointer means that the rest of the document has the value.
type extras struct {
	own    reflect.Type
	fields []int // of the record, for each field of own
}

var (
	requestExtras = newExtras(resources.Request{}, requestExtra{})
	nodeExtras    = newExtras(resources.Node{}, nodeExtra{})
	buildExtras   = newExtras(resources.Build{}, buildExtra{})
	uploadExtras  = newExtras(resources.Upload{}, uploadExtra{})
)

func newExtras(record, own any) extras {
	x := extras{own: reflect.TypeOf(own)}
	for _, field := range reflect.VisibleFields(x.own) {
		of, ok := reflect.TypeOf(record).FieldByName(field.Name)
		if !ok {
			panic(fmt.Sprintf("zookeeper: %T has no field %s", record, field.Name))
		}
		x.fields = append(x.fields, of.Index[0])
	}
	return x
}

// overlay sets the fields of a record for which npctl has its own values. own is a pointer, nil if there are none.
func (x extras) overlay(record resources.Record, own any) {
	values := reflect.ValueOf(own)
	if values.IsNil() {
		return
	}
	for i, at := range x.fields {
		switch from, to := values.Elem().Field(i), reflect.ValueOf(record).Elem().Field(at); {
		case from.IsNil():
		case from.Type() == to.Type():
			to.Set(from)
		default:
			to.Set(from.Elem())
		}
	}
}

// differences returns the value of npctl's own key: the fields of record that differ from those of base.
func (x extras) differences(base, record resources.Record) any {
	if r, ok := record.(*resources.Request); ok {
		reduced := *r
		reduced.Declined = reasoned(r.Declined)
		record = &reduced
	}
	b, r, own := reflect.ValueOf(base).Elem(), reflect.ValueOf(record).Elem(), reflect.New(x.own).Elem()
	for i, at := range x.fields {
		switch from, to := r.Field(at), own.Field(i); {
		case reflect.DeepEqual(b.Field(at).Interface(), from.Interface()):
		case from.Type() == to.Type():
			to.Set(from)
		default:
			to.Set(reflect.New(from.Type()))
			to.Elem().Set(from)
		}
	}
	return own.Interface()
}

// text is a string; null decodes as the empty string.
type text string

// anyText is a string, or the JSON text of any other value.
type anyText string

// UnmarshalJSON implements json.Unmarshaler.
func (t *anyText) UnmarshalJSON(raw []byte) error {
	switch {
	case string(raw) == "null":
		*t = ""
	case raw[0] == '"':
		return json.Unmarshal(raw, (*string)(t))
	default:
		var compact bytes.Buffer
		if err := json.Compact(&compact, raw); err != nil {
			return err
		}
		*t = anyText(compact.String())
	}
	return nil
}

// texts is a list of strings; old documents have a single string.
type texts []string

// UnmarshalJSON implements json.Unmarshaler.
func (t *texts) UnmarshalJSON(raw []byte) error {
	if raw[0] == '"' {
		var one string
		err := json.Unmarshal(raw, &one)
		*t = texts{one}
		return err
	}
	var list []string
	err := json.Unmarshal(raw, &list)
	if *t = list; len(list) == 0 {
		*t = nil
	}
	return err
}

// number is an integer that may be written as a float or as null. Any other value decodes as zero.
type number int64

// UnmarshalJSON implements json.Unmarshaler.
func (n *number) UnmarshalJSON(raw []byte) error {
	var f float64
	if *n = 0; json.Unmarshal(bytes.Trim(raw, `"`), &f) == nil && f > -1e15 && f < 1e15 {
		*n = number(f)
	}
	return nil
}
