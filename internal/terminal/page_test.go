package terminal

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mattn/go-runewidth"
	"pgregory.net/rapid"
)

func TestTablesFitTheScreen(t *testing.T) {
	rows := [][]string{
		{"NODE", "STATE", "SINCE", "LABELS", "PROVIDER/POOL", "ADDRESS", "FOR", "NOTE"},
		{"0000000001", "ready", "3m", "debian", "cloud-with-a-long-name/main", "127.77.0.2", "", ""},
		{"0000000002", "in-use", "12s", "debian", "cloud-with-a-long-name/main", "127.77.0.3", "ci@host (lease ends in 30m)", ""},
	}
	for width, want := range map[int]string{
		0: `
NODE        STATE   SINCE  LABELS  PROVIDER/POOL                ADDRESS     FOR                          NOTE
0000000001  ready   3m     debian  cloud-with-a-long-name/main  127.77.0.2  -                            -
0000000002  in-use  12s    debian  cloud-with-a-long-name/main  127.77.0.3  ci@host (lease ends in 30m)  -
`,
		100: `
NODE        STATE   SINCE  LABELS  PROVIDER/POOL              ADDRESS     FOR
0000000001  ready   3m     debian  cloud-wit…-long-name/main  127.77.0.2  -
0000000002  in-use  12s    debian  cloud-wit…-long-name/main  127.77.0.3  ci@host (l…se ends in 30m)
`,
		60: `
NODE        STATE   SINCE  LABELS  PROVIDER/POOL  ADDRESS…
0000000001  ready   3m     debian  clou…ame/main  127.77.0.2
0000000002  in-use  12s    debian  clou…ame/main  127.77.0.3
`,
	} {
		var b strings.Builder
		b.WriteString("\n")
		for _, row := range fitTable(rows, width) {
			b.WriteString(strings.TrimRight(strings.Join(row, ""), " ") + "\n")
		}
		if diff := cmp.Diff(want, b.String()); diff != "" {
			t.Errorf("%d columns (-want +got):\n%s", width, diff)
		}
	}
}

func TestTablesKeepTheColumnsThatAreNotSpare(t *testing.T) {
	rows := [][]string{{"IMAGE", "KIND", "AGE", "FORMATS", "PROBLEM"}, {"debian", "diskimage", "3m", "qcow2", "build failed 3m ago: exit status 1"}}
	for width, want := range map[int]string{
		60: "IMAGE   KIND       AGE  FORMATS  PROBLEM\ndebian  diskimage  3m   qcow2    build fail…o: exit status 1\n",
		40: "IMAGE   KIND       AGE  PROBLEM…\ndebian  diskimage  3m   build … status 1\n",
		25: "IMAGE   AGE  PROBLEM…\ndebian  3m   buil…tatus 1\n",
	} {
		p := Page{Columns: width}
		p.Table(rows, "FORMATS", "KIND")
		if diff := cmp.Diff(want, p.String()); diff != "" {
			t.Errorf("%d columns (-want +got):\n%s", width, diff)
		}
	}
}

func TestTablesAreNeverWiderThanTheScreen(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n, width := rapid.IntRange(1, 9).Draw(r, "columns"), rapid.IntRange(20, 140).Draw(r, "width")
		cell := rapid.StringMatching(`[a-z./é-]{0,40}`)
		rows := rapid.SliceOfN(rapid.SliceOfN(cell, n, n), 1, 5).Draw(r, "rows")
		for i := range rows {
			rows[i][0] = "id"
		}
		spare := rapid.SliceOfDistinct(rapid.SampledFrom(rows[0]), rapid.ID).Draw(r, "spare")
		for _, row := range fitTable(rows, width, spare...) {
			if w := runewidth.StringWidth(strings.Join(row, "")); w > width {
				r.Fatalf("%d columns are used of %d: %q", w, width, row)
			}
		}
	})
}
