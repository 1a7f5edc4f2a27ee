package doctest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var dotted = regexp.MustCompile("`([a-z]+)\\.([a-z_0-9]+)`")

// headings of configuration.md that a block of the Nodepool page may stand under.
var headings = map[string]string{
	"npctl": "## npctl", "tenant_limit": "### npctl: tenant_limit", "label": "label", "diskimage": "## diskimage", "dib": `#### builder "dib"`,
	"provider": "provider", "pool": "pool", "image": "image", "cloud_image": "cloud_image", "node": "node",
}

// TestNodepoolOptionsAreDocumented holds the second column of the tables of the Nodepool page to the schemas.
func TestNodepoolOptionsAreDocumented(t *testing.T) {
	reference := sections(output(t, "docs"))
	checked := 0
	for line := range strings.SplitSeq(read(t, "docs/coming-from-nodepool.md"), "\n") {
		columns := strings.Split(line, "|")
		if len(columns) != 5 || !strings.HasPrefix(line, "|") {
			continue
		}
		for _, name := range dotted.FindAllStringSubmatch(columns[2], -1) {
			checked++
			if !reference.has(headings[name[1]], name[2]) {
				t.Errorf("docs/coming-from-nodepool.md: no attribute %s.%s in configuration.md", name[1], name[2])
			}
		}
	}
	if checked < 60 {
		t.Errorf("only %d attributes found", checked)
	}
}

type sectionText struct{ heading, body string }

type sectionList []sectionText

func sections(page string) sectionList {
	var list sectionList
	for line := range strings.SplitSeq(page, "\n") {
		if strings.HasPrefix(line, "#") {
			list = append(list, sectionText{heading: line})
		} else if len(list) > 0 {
			list[len(list)-1].body += line + "\n"
		}
	}
	return list
}

func (l sectionList) has(heading, attribute string) bool {
	for _, s := range l {
		if heading != "" && strings.Contains(s.heading, heading) && strings.Contains(s.body, "| `"+attribute+"` |") {
			return true
		}
	}
	return false
}

var (
	message  = regexp.MustCompile("^\\| `([^`]+)`(?:, `([^`]+)`)?")
	variable = regexp.MustCompile(`…|"[^"]*"|\d[\dms]*|\bx\b|\bID\b|-allow-destroy=nodes|: `)
)

// TestMessagesExist searches the source for each message of the troubleshooting page. The source does not contain the
// inserted values, so three consecutive words must match.
func TestMessagesExist(t *testing.T) {
	source := sources(t)
	checked := 0
	for line := range strings.SplitSeq(read(t, "docs/troubleshooting.md"), "\n") {
		found := message.FindStringSubmatch(line)
		if found == nil {
			continue
		}
		for _, text := range found[1:] {
			if text == "" {
				continue
			}
			checked++
			if !said(source, text) {
				t.Errorf("docs/troubleshooting.md: npctl never says %q", text)
			}
		}
	}
	if checked < 40 {
		t.Errorf("only %d messages found", checked)
	}
}

func said(source, text string) bool {
	for _, piece := range variable.Split(text, -1) {
		words := strings.Fields(strings.Trim(piece, " .,(;"))
		row := min(3, len(words))
		for i := 0; row > 0 && i+row <= len(words); i++ {
			if part := strings.Join(words[i:i+row], " "); len(part) > 8 && strings.Contains(source, part) {
				return true
			}
		}
	}
	return false
}

// sources is the text of every Go file that is not a test.
func sources(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		all.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}
