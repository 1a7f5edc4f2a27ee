package convert

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestNothingIsLost checks for each file of the corpus that the report has every key and the output every comment.
func TestNothingIsLost(t *testing.T) {
	files, err := filepath.Glob("testdata/corpus/*.yaml")
	if err != nil || len(files) < 30 {
		t.Fatalf("%d files of the corpus: %v", len(files), err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, ".secure.yaml") {
			continue
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			in := Input{Name: file, SecureName: "secure", YAML: read(t, file)}
			if secure := strings.TrimSuffix(file, ".yaml") + ".secure.yaml"; exists(secure) {
				in.Secure = read(t, secure)
			}
			r, err := translated(in)
			if err != nil {
				t.Fatal(err)
			}
			var text strings.Builder
			for _, f := range r.Files {
				text.Write(f.Data)
			}
			reported := map[string]bool{}
			for _, e := range r.Report {
				if e.File == file {
					reported[e.Path] = true
				}
			}
			root := newTranslator(nil).read(source{name: file, text: in.YAML})
			checkKeys(t, root, reported)
			checkComments(t, root.y, text.String())
		})
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// checkKeys checks that the report has the keys of a value and of all values below it.
func checkKeys(t *testing.T, n *node, reported map[string]bool) {
	for _, e := range n.entries {
		if !reported[e.path] {
			t.Errorf("line %d: the report has no entry for %s", e.line, e.path)
		}
		checkKeys(t, e.value, reported)
	}
	for _, it := range n.items {
		checkKeys(t, it, reported)
	}
}

func checkComments(t *testing.T, y *yaml.Node, text string) {
	for _, comment := range []string{y.HeadComment, y.LineComment, y.FootComment} {
		for _, line := range commentLines(comment) {
			if !strings.Contains(text, line) {
				t.Errorf("line %d: the output has no comment %q", y.Line, line)
			}
		}
	}
	for _, inner := range y.Content {
		checkComments(t, inner, text)
	}
}
