package doctest

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#{1,6} +(.+)$`)
	slugOut = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

func TestLinksHaveTargets(t *testing.T) {
	checked := 0
	for _, page := range pages(t) {
		_, prose := fences(t, page)
		for _, found := range link.FindAllStringSubmatch(prose, -1) {
			target := found[1]
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			checked++
			file, anchor, _ := strings.Cut(target, "#")
			to := page
			if file != "" {
				to = path.Join(path.Dir(page), file)
			}
			if _, err := os.Stat(filepath.Join(root, to)); err != nil {
				t.Errorf("%s: link to %s: there is no %s", page, target, to)
				continue
			}
			if anchor != "" && !slices.Contains(anchors(t, to), anchor) {
				t.Errorf("%s: link to %s: %s has no heading of that name, but %s", page, target, to, strings.Join(anchors(t, to), ", "))
			}
		}
	}
	if checked < 50 {
		t.Errorf("only %d links found", checked)
	}
}

// anchors are the names of a page's headings as GitHub and GitLab make them.
func anchors(t *testing.T, page string) []string {
	t.Helper()
	_, prose := fences(t, page)
	var names []string
	for _, h := range heading.FindAllStringSubmatch(prose, -1) {
		text := slugOut.ReplaceAllString(strings.ToLower(strings.TrimSpace(h[1])), "")
		names = append(names, strings.ReplaceAll(text, " ", "-"))
	}
	return names
}
