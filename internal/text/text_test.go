package text_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/npctl/npctl/internal/text"
)

func TestTerminalControlCharactersAreEscaped(t *testing.T) {
	for in, want := range map[string]string{
		"plain text, with spaces":  "plain text, with spaces",
		"日本語 Ünïcode 🚀":            "日本語 Ünïcode 🚀",
		"\x1b[31mred":              `\x1b[31mred`,
		"two\r\nlines\ttab":        `two\r\nlines\ttab`,
		"\x00\x7f":                 `\x00\x7f`,
		"\u009b31m":                `\u009b31m`,
		"\u202eabc\u2066\u200f":    `\u202eabc\u2066\u200f`,
		"\u2028\u2029\u0085":       `\u2028\u2029\u0085`,
		"zero\u200bwidth\ufeff":    `zero\u200bwidth\ufeff`,
		"no-break\u00a0space":      `no-break\u00a0space`,
		"blank \u3164 \u115f":      `blank \u3164 \u115f`,
		"hidden\U000e0041\ufe0f":   `hidden\U000e0041\ufe0f`,
		"not \xff\xc3 UTF-8":       `not \xff\xc3 UTF-8`,
		"replacement \ufffd stays": "replacement \ufffd stays",
	} {
		if got := text.Line(in); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
}

func TestSafeTextIsUnchanged(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		in := string(rapid.SliceOf(rapid.Byte()).Draw(r, "bytes")) + rapid.String().Draw(r, "text")
		got := text.Line(in)
		if !utf8.ValidString(got) || strings.ContainsAny(got, "\n\r\x1b\x7f\u009b\u202e") || text.Line(got) != got {
			r.Fatalf("%q became %q", in, got)
		}
	})
}

func TestBlockKeepsItsLines(t *testing.T) {
	const in, want = "two\n\tlines\r\x1b[2J \u202eback", `two` + "\n\t" + `lines\r\x1b[2J \u202eback`
	if got := text.Block(in); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSafeJSONMeansTheSame(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		in := rapid.String().Draw(r, "text") + "\u009b\u202e\U000e0041\x7f"
		doc, err := json.Marshal(in)
		if err != nil {
			r.Fatal(err)
		}
		safe := text.JSON(doc)
		var out string
		if err := json.Unmarshal(safe, &out); err != nil || out != in {
			r.Fatalf("%s became %s, which is %q (%v), want %q", doc, safe, out, err, in)
		}
		if strings.ContainsAny(string(safe), "\u009b\u202e\U000e0041\x7f") {
			r.Fatalf("still hostile: %q", safe)
		}
	})
}
