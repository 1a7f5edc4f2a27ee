package text_test

import (
	"encoding/json"
	"slices"
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

func TestCutTextStatesOmittedLength(t *testing.T) {
	if got, want := text.Cut("日本語", 4), "日… (6 bytes more)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := text.Cut("short", 5); got != "short" {
		t.Errorf("got %q", got)
	}
}

func TestNearestReturnsSimilarName(t *testing.T) {
	commands := []string{"apply", "plan", "state", "validate", "list", "rm", "show"}
	for _, test := range []struct {
		word    string
		options []string
		want    string
	}{
		{"aply", commands, "apply"},
		{"plna", commands, "plan"},
		{"lsit", commands, "list"},
		{"valdate", commands, "validate"},
		{"PLAN", commands, "plan"},
		{"frobnicate", commands, ""},
		{"x", commands, ""},
		{"", []string{"a"}, ""},
		{"min-ready", []string{"min_ready", "min_read"}, "min_ready"},
		{"debian-11", []string{"debian-12"}, "debian-12"},
		{"node.0000000099", []string{"node.0000000001", "node.0000000009"}, ""},
		{"nod.0000000099", []string{"node.0000000009", "node.0000000099"}, "node.0000000099"},
		{"node.000000001", []string{"node.0000000001", "node.0000000011"}, "node.0000000001"},
		{"provider.vexxhost.pool.main", []string{"provider.rackspace.pool.main"}, ""},
		{"größe", []string{"größen"}, "größen"},
		{strings.Repeat("a", 1000), []string{strings.Repeat("a", 1001)}, ""},
	} {
		if got := text.Nearest(test.word, test.options); got != test.want {
			t.Errorf("nearest to %q of %q is %q, want %q", test.word, test.options, got, test.want)
		}
	}
	if got, want := text.Near("pubilc", []string{"publics", "public", "private", "pubic", "public"}), []string{"pubic", "public", "publics"}; !slices.Equal(got, want) {
		t.Errorf("near are %q, want %q", got, want)
	}
}

// One edit of a word of three letters or more always matches.
func TestOneEditIsNear(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		word := rapid.StringMatching(`[a-z]{3,12}`).Draw(r, "word")
		at := rapid.IntRange(0, len(word)-2).Draw(r, "at")
		typed := map[string]string{
			"insertion":     word[:at] + "x" + word[at:],
			"deletion":      word[:at] + word[at+1:],
			"substitution":  word[:at] + "x" + word[at+1:],
			"transposition": word[:at] + word[at+1:at+2] + word[at:at+1] + word[at+2:],
		}
		for edit, given := range typed {
			if got := text.Nearest(given, []string{word}); got != word {
				r.Errorf("%s: %q is not near %q", edit, word, given)
			}
		}
	})
}

func TestAmount(t *testing.T) {
	for x, want := range map[float64]string{0: "0.00", 0.1: "0.10", 0.0125: "0.01", 0.005: "0.005", 0.000001: "0.000001", -0.5: "-0.50", -0.004: "-0.004",
		999.999: "1,000.00", 1234.5: "1,234.50", 1234567.891: "1,234,567.89", -1234: "-1,234.00", 123456: "123,456.00"} {
		if got := text.Amount(x); got != want {
			t.Errorf("%v: %s, want %s", x, got, want)
		}
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int64]string{0: "0 files are", 1: "1 file is", 2: "2 files are", -1: "-1 files are"} {
		if got := text.Count(n, "file is", "files are"); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}

func TestSizesAndLongTexts(t *testing.T) {
	for n, want := range map[int64]string{0: "0 bytes", 1023: "1023 bytes", 1536: "1.5 KiB", 16 << 20: "16.0 MiB", 3 << 40: "3.0 TiB"} {
		if got := text.Bytes(n); got != want {
			t.Errorf("Bytes(%d) = %s, want %s", n, got, want)
		}
	}
	for in, want := range map[string]string{"": "", "äöü": "äöü", "äöüß": "äöü…"} {
		if got := text.Shorten(in, 3); got != want {
			t.Errorf("Shorten(%q) = %q, want %q", in, got, want)
		}
	}
}
