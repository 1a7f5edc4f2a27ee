package text_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/npctl/npctl/internal/text"
)

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
