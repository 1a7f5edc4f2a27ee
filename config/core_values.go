package config

import (
	"fmt"
	"math/big"
	"strings"

	"github.com/zclconf/go-cty/cty"
	"golang.org/x/crypto/ssh"
)

// This file holds checks and defaults that the language's own schemas share.

func minimum(n int64) *int64 { return &n }

var (
	texts    = cty.List(cty.String)
	textMap  = cty.Map(cty.String)
	yes      = cty.True
	no       = cty.False
	noTexts  = cty.ListValEmpty(cty.String)
	noTextsM = cty.MapValEmpty(cty.String)
)

// maxWhole is the largest integer up to which float64 represents every integer exactly.
var maxWhole = new(big.Float).SetInt64(1 << 53)

func wholeNumber(v cty.Value) error {
	n := v.AsBigFloat()
	if !n.IsInt() {
		return fmt.Errorf("%s is not a whole number", n.Text('g', 10))
	}
	if new(big.Float).Abs(n).Cmp(maxWhole) > 0 {
		return fmt.Errorf("%s is too large", n.Text('g', 10))
	}
	return nil
}

func portNumber(v cty.Value) error {
	if err := wholeNumber(v); err != nil {
		return err
	}
	if n, _ := v.AsBigFloat().Int64(); n < 1 || n > 65535 {
		return fmt.Errorf("%d is not a port; use a number from 1 to 65535", n)
	}
	return nil
}

func notEmpty(v cty.Value) error {
	if v.Type() == cty.String && v.AsString() == "" {
		return fmt.Errorf("the text is empty")
	}
	if v.CanIterateElements() && v.LengthInt() == 0 {
		return fmt.Errorf("there must be at least one")
	}
	return nil
}

func plainFileName(v cty.Value) error {
	if strings.ContainsAny(v.AsString(), "\x00\r\n") {
		return fmt.Errorf("the path contains a line break or a null byte")
	}
	return notEmpty(v)
}

// hostKeys checks that all elements are lines in the format of ssh-keyscan without the host.
func hostKeys(v cty.Value) error {
	for _, element := range v.AsValueSlice() {
		text := strings.TrimSpace(element.AsString())
		if _, _, _, rest, err := ssh.ParseAuthorizedKey([]byte(text)); err != nil || len(rest) > 0 {
			return fmt.Errorf("%q is not an SSH host key; write it like \"ssh-ed25519 AAAA…\", as ssh-keyscan prints it after the host", shorten(text, 60))
		}
	}
	return nil
}

func shorten(text string, most int) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	return string(runes[:most]) + "…"
}

// imageNameParts are the placeholders of image_name_format.
var imageNameParts = []string{"image_name", "upload_id", "timestamp"}

func imageNameFormat(v cty.Value) error {
	format, rest, varies := v.AsString(), v.AsString(), false
	for rest != "" {
		open := strings.IndexAny(rest, "{}")
		if open < 0 {
			break
		}
		end := strings.Index(rest[open:], "}")
		if rest[open] == '}' || end < 0 {
			return fmt.Errorf("%q has an unmatched brace", format)
		}
		part := rest[open+1 : open+end]
		if err := checkOneOf(imageNameParts, cty.StringVal(part)); err != nil {
			return fmt.Errorf("placeholder %w", err)
		}
		varies = varies || part != "image_name"
		rest = rest[open+end+1:]
	}
	if !varies {
		return fmt.Errorf("with %q all uploads of an image have the same name; add {upload_id} or {timestamp}", format)
	}
	return nil
}

func serverAddresses(v cty.Value) error {
	for _, element := range v.AsValueSlice() {
		if element.AsString() == "" || strings.ContainsAny(element.AsString(), " /\t\n") {
			return fmt.Errorf("%q is not a server; write \"host\" or \"host:port\"", element.AsString())
		}
	}
	return notEmpty(v)
}
