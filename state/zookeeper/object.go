package zookeeper

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// lenient also accepts the JSON that Python's json module accepts.
var lenient = jsonv2.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// object is a JSON object that keeps its values as written and in order. Unknown keys, and numbers that no Go type can
// represent, therefore survive a write by npctl.
type object struct {
	keys   []string
	values map[string]json.RawMessage
}

// unmarshal reads a document into a struct.
func unmarshal(text []byte, doc any) error { return jsonv2.Unmarshal(text, doc, lenient) }

// parseObject parses an object. If a key occurs twice, the last value counts, as in other parsers. The values are parts
// of text.
func parseObject(text []byte) (*object, error) {
	members := len(text) / 24 // estimate from the usual length of a member
	o := &object{keys: make([]string, 0, members), values: make(map[string]json.RawMessage, members)}
	dec := jsontext.NewDecoder(bytes.NewBuffer(text), lenient)
	if token, err := dec.ReadToken(); err != nil || token.Kind() != jsontext.KindBeginObject {
		return nil, errors.Join(errors.New("not a JSON object"), err)
	}
	for dec.PeekKind() == jsontext.KindString {
		token, err := dec.ReadToken()
		if err != nil {
			return nil, err
		}
		key := token.String()
		value, err := dec.ReadValue()
		if err != nil {
			return nil, fmt.Errorf("value of %q: %w", key, err)
		}
		end := int(dec.InputOffset())
		o.set(key, text[end-len(value):end:end])
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value")
	}
	return o, nil
}

func (o *object) has(key string) bool {
	_, ok := o.values[key]
	return ok
}

func (o *object) set(key string, value json.RawMessage) {
	if !o.has(key) {
		o.keys = append(o.keys, key)
	}
	o.values[key] = value
}

func (o *object) drop(key string) {
	if !o.has(key) {
		return
	}
	delete(o.values, key)
	for i, k := range o.keys {
		if k == key {
			o.keys = append(o.keys[:i:i], o.keys[i+1:]...)
			return
		}
	}
}

// bytes encodes the object without the keys in omit.
func (o *object) bytes(omit ...string) []byte {
	size := 2
	for key, value := range o.values {
		size += len(key) + len(value) + len(`"": , `)
	}
	text := append(make([]byte, 0, size), '{')
	for _, key := range o.keys {
		if slices.Contains(omit, key) {
			continue
		}
		if len(text) > 1 {
			text = append(text, ", "...)
		}
		text = append(text, quote(key)...)
		text = append(text, ": "...)
		text = append(text, o.values[key]...)
	}
	return append(text, '}')
}

// quote returns a string as JSON. It replaces invalid UTF-8.
func quote(s string) json.RawMessage {
	text, _ := jsontext.AppendQuote(nil, s)
	return json.RawMessage(text)
}

// asJSON encodes values that cannot fail: strings, numbers, lists and maps of them, and the structs of this package.
func asJSON(value any) json.RawMessage {
	text, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("zookeeper: %T has no JSON: %v", value, err))
	}
	return text
}

var null = json.RawMessage("null")

// orNull returns the string as JSON, or null if it is empty.
func orNull(s string) json.RawMessage {
	if s == "" {
		return null
	}
	return quote(s)
}
