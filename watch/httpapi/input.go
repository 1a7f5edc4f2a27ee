package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"reflect"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/watch/httpapi/wire"
)

// body decodes the body of a call as a T and rejects unknown members.
func body[T any](c *call) (T, error) {
	var sent T
	text, err := c.read()
	if err != nil {
		return sent, err
	}
	if len(text) == 0 {
		if c.route.bodyless {
			return sent, nil
		}
		return sent, withHint(invalid("the body is empty"), "send a JSON document")
	}
	if err := decode(text, &sent); err != nil {
		return sent, err
	}
	return sent, nil
}

// read reads the whole body, which must be JSON and within the size limit of the route.
func (c *call) read() ([]byte, error) {
	most := c.route.bodySize
	if most == 0 {
		most = bodySize
	}
	text, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, most))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, withHint(&apiError{status: http.StatusRequestTimeout, code: wire.CodeTimeout,
			detail: fmt.Sprintf("the body did not arrive within %s; nothing was changed", c.BodyTime)}, "send it again")
	case err != nil:
		return nil, invalid("the body is incomplete")
	}
	c.bodyRead()
	if len(text) == 0 {
		return nil, nil
	}
	media, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if err != nil || media != "application/json" {
		return nil, withHint(&apiError{status: http.StatusUnsupportedMediaType, code: wire.CodeMediaType, detail: "the content type of the body is not JSON"},
			"set Content-Type: application/json")
	}
	return text, nil
}

func decode(doc []byte, into any) error {
	if string(bytes.TrimSpace(doc)) == "null" {
		return invalid("the body is null; an object is expected")
	}
	err := jsonv2.Unmarshal(doc, into, jsonv2.RejectUnknownMembers(true))
	var semantic *jsonv2.SemanticError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &semantic) && errors.Is(err, jsonv2.ErrUnknownName):
		name := semantic.JSONPointer.LastToken()
		f := invalid("unknown member %s", quoted(name))
		if near := text.Nearest(name, memberNames(reflect.TypeOf(into))); near != "" {
			f.hint = fmt.Sprintf("did you mean %q?", near)
		}
		return f
	case errors.As(err, &semantic):
		return invalid("member %s has the wrong type: %s", quoted(string(semantic.JSONPointer)), expectedType(semantic))
	default:
		return invalid("the body is not valid JSON")
	}
}

// expectedType describes the type that a member must have.
func expectedType(e *jsonv2.SemanticError) string {
	if e.GoType == nil {
		return "the value is invalid"
	}
	switch e.GoType.Kind() {
	case reflect.String:
		return "a string is expected"
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return "an integer is expected"
	case reflect.Bool:
		return "true or false is expected"
	case reflect.Slice:
		return "a list is expected"
	default:
		if e.GoType.String() == "time.Time" {
			return "a time such as 2026-01-31T12:00:00Z is expected"
		}
		return "an object is expected"
	}
}

// memberNames lists the JSON names of the members of a type.
func memberNames(t reflect.Type) []string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	var names []string
	if t.Kind() == reflect.Struct {
		for i := range t.NumField() {
			if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "" && name != "-" {
				names = append(names, name)
			}
		}
	}
	return names
}
