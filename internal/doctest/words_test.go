package doctest

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// wording is a group of phrases that technical English does without, and how many of them a text may have per 1,000
// words. The limits are the highest rates in the comments of six well-known Go projects.
type wording struct {
	name    string
	phrases *regexp.Regexp
	limit   float64
}

var wordings = []wording{
	{"clause with what or who as a noun", regexp.MustCompile(`(?i)\bwhat (is|was|are|were|has|have|does|did|it|they|there|others?|nobody|somebody)\b|\bwho(m|se|ever|mever)?\b`), 0.3},
	{"nobody, somebody, anybody, one that, those that", regexp.MustCompile(`(?i)\b(no|some|any)body\b|\bone that\b|\bthose (that|who)\b|\bthat which\b`), 0.1},
	{"tell, told", regexp.MustCompile(`(?i)\b(tells?|telling|told)\b`), 0.3},
	{"anew, mend, meanwhile, for ever, goes on with", regexp.MustCompile(`(?i)\b(anew|mend(s|ed|ing)?|meanwhile|for ever|as do those|(goes|gone) on with)\b`), 0.1},
}

// TestWording checks the comments, the pages and the help texts of npctl, each as a whole.
func TestWording(t *testing.T) {
	t.Parallel()
	check(t, "comments", comments(t))
	check(t, "pages", prosePages(t))
	check(t, "help", helpTexts(t))
}

// check fails if the paragraphs, by their place, exceed the limit of a wording.
func check(t *testing.T, source string, paragraphs map[string]string) {
	t.Helper()
	words := 0
	for _, text := range paragraphs {
		words += len(strings.Fields(text))
	}
	for _, w := range wordings {
		var found []string
		for at, text := range paragraphs {
			for _, hit := range w.phrases.FindAllString(text, -1) {
				found = append(found, at+": "+hit)
			}
		}
		rate := 1000 * float64(len(found)) / float64(max(words, 1))
		t.Logf("%s: %s: %d in %d words", source, w.name, len(found), words)
		if rate > w.limit {
			t.Errorf("%s: %s: %.2f per 1,000 words, more than %.1f:\n\t%s", source, w.name, rate, w.limit, strings.Join(found, "\n\t"))
		}
	}
}

// comments returns the comments of all Go files, except tests.
func comments(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == "testdata" || entry.Name() == ".git") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, file, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, group := range parsed.Comments {
			found[strings.TrimPrefix(set.Position(group.Pos()).String(), root+"/")] = group.Text()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

var codeInProse = regexp.MustCompile("(?s)``.*?``|`[^`]*`")

// prosePages returns the pages without code and without the glossary's list of words to avoid.
func prosePages(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, page := range pages(t) {
		_, prose := fences(t, page)
		if page == glossary {
			prose, _, _ = strings.Cut(prose, "## Words to avoid")
		}
		found[page] = codeInProse.ReplaceAllString(prose, "")
	}
	return found
}

var commandName = regexp.MustCompile(`(?m)^ {3,}([a-z][a-z-]*)(?:, \w+)? {2,}\S`)

// helpTexts returns the help texts of all commands.
func helpTexts(t *testing.T) map[string]string {
	t.Helper()
	known, found := helps{}, map[string]string{}
	var visit func(words ...string)
	visit = func(words ...string) {
		text := known.of(t, words...)
		found["npctl "+strings.Join(words, " ")] = text
		if len(words) == 2 {
			return
		}
		for _, name := range commandName.FindAllStringSubmatch(text, -1) {
			if name[1] != "help" && (len(words) == 0 || words[0] != name[1]) {
				visit(append(words[:len(words):len(words)], name[1])...)
			}
		}
	}
	visit()
	if len(found) < 40 {
		t.Errorf("only %d help texts found", len(found))
	}
	return found
}
