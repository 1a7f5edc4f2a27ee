package metrics_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/watch/metrics"
)

var update = flag.Bool("update", false, "write the table into docs/operations.md")

// The page contains the table between these lines.
const (
	page      = "../../docs/operations.md"
	tableFrom = "<!-- metrics, written by: go test ./watch/metrics -run Docs -update -->\n"
	tableTo   = "<!-- end of metrics -->\n"
)

func table() string {
	var b strings.Builder
	b.WriteString("\n| metric | labels | description | watch, or alert on |\n| --- | --- | --- | --- |\n")
	for _, f := range metrics.Families() {
		labels := strings.Join(f.Labels, ", ")
		_, _ = fmt.Fprintf(&b, "| `%s` (%s) | %s | %s | %s |\n", f.Name, f.Kind, labels, f.Help, f.Watch)
	}
	b.WriteString("\n")
	return b.String()
}

func TestDocsHaveEveryMetric(t *testing.T) {
	text := testutil.ReadFile(t, page)
	before, rest, found := strings.Cut(text, tableFrom)
	have, after, ended := strings.Cut(rest, tableTo)
	if !found || !ended {
		t.Fatalf("%s has no place for the table of metrics", page)
	}
	if *update {
		testutil.WriteFile(t, page, before+tableFrom+table()+tableTo+after)
		return
	}
	if have != table() {
		t.Errorf("the table of metrics in %s is out of date: go test ./watch/metrics -run Docs -update", page)
	}
}
