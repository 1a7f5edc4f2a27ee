package config

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/zclconf/go-cty/cty"
	"golang.org/x/crypto/ssh"

	plaintext "github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/resources/schema"
)

// This file holds checks and defaults that the language's own schemas share.

var (
	texts    = cty.List(cty.String)
	textsMap = cty.Map(texts) // an element may be written without brackets
	yes      = cty.True
	no       = cty.False
)

// hostKeys checks that all elements are lines in the format of ssh-keyscan without the host.
func hostKeys(v cty.Value) error {
	for _, element := range v.AsValueSlice() {
		text := strings.TrimSpace(element.AsString())
		if _, _, _, rest, err := ssh.ParseAuthorizedKey([]byte(text)); err != nil || len(rest) > 0 {
			return fmt.Errorf("%q is not an SSH host key; write it like \"ssh-ed25519 AAAA…\", as ssh-keyscan prints it after the host", plaintext.Shorten(text, 60))
		}
	}
	return nil
}

func imageFilters(v cty.Value) error {
	for name, patterns := range v.AsValueMap() {
		if patterns.LengthInt() == 0 {
			return fmt.Errorf("the list of %q is empty", name)
		}
	}
	return schema.CheckNotEmpty(v)
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

// currencyName accepts a short text that is one word in a line.
func currencyName(v cty.Value) error {
	name := v.AsString()
	if name == "" || utf8.RuneCountInString(name) > 8 || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.Is(unicode.Sc, r) }) {
		return fmt.Errorf("%q is not a currency; write 1 to 8 letters or a sign, such as \"EUR\"", plaintext.Shorten(name, 60))
	}
	return nil
}

// priceLimit keeps the sums of prices exact.
const priceLimit = 100_000_000

func highestPrice(v cty.Value) error {
	for name, price := range v.AsValueMap() {
		if price.IsKnown() && !price.IsNull() && price.GreaterThan(cty.NumberIntVal(priceLimit)).True() {
			return fmt.Errorf("the price of %q is more than %d; use a larger unit of the currency", plaintext.Shorten(name, 60), priceLimit)
		}
	}
	return nil
}

func serverAddresses(v cty.Value) error {
	for _, element := range v.AsValueSlice() {
		if element.AsString() == "" || strings.ContainsAny(element.AsString(), " /\t\n") {
			return fmt.Errorf("%q is not a server; write \"host\" or \"host:port\"", element.AsString())
		}
	}
	return schema.CheckNotEmpty(v)
}
