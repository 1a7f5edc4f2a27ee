package zookeeper

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// object is a JSON object whose values are kept as they were written, in their order. That is how keys that we do not
// know, and numbers that no Go type holds, survive being written by us.
type object struct {
	keys   []string
	values map[string]json.RawMessage
}

// parseObject reads an object. Of a key that comes twice the last value counts, as everywhere.
func parseObject(text []byte) (*object, error) {
	o := &object{values: map[string]json.RawMessage{}}
	dec := json.NewDecoder(bytes.NewReader(text))
	if token, err := dec.Token(); err != nil || token != json.Delim('{') {
		return nil, errors.Join(errors.New("not a JSON object"), err)
	}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, fmt.Errorf("value of %v: %w", token, err)
		}
		o.set(token.(string), value)
	}
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
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

func (o *object) bytes() []byte {
	var text bytes.Buffer
	text.WriteByte('{')
	for i, key := range o.keys {
		if i > 0 {
			text.WriteString(", ")
		}
		text.Write(asJSON(key))
		text.WriteString(": ")
		text.Write(o.values[key])
	}
	text.WriteByte('}')
	return text.Bytes()
}

// asJSON encodes what cannot fail: strings, numbers and lists and maps of them, and our own extras.
func asJSON(value any) json.RawMessage {
	text, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("zookeeper: %T has no JSON: %v", value, err))
	}
	return text
}

var null = json.RawMessage("null")

// orNull is the string, or null when it is empty.
func orNull(s string) json.RawMessage {
	if s == "" {
		return null
	}
	return asJSON(s)
}
