package terminal

import (
	"bytes"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mattn/go-runewidth"

	"github.com/npctl/npctl/test/pty"
)

// barsOf returns bars that draw only when a test calls them, with their output and clock.
func barsOf(columns int) (*Bars, *bytes.Buffer, *time.Time) {
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	clock, out := &now, &bytes.Buffer{}
	return &Bars{size: func() (int, int) { return columns, 30 }, now: func() time.Time { return *clock }, since: now, out: out, total: 13}, out, clock
}

func TestBarsShortenAddressesAndNothingElse(t *testing.T) {
	for columns, want := range map[int]string{
		60: `
build diskimage.debian      [==>----]  50% con…    1m5s
launch pro…n.label.small #3 waiting for the in…    1m5s
all steps                   [==>------] 5 of 13    1m5s`,
		100: `
build diskimage.debian                          [=======>---------]  50% converting to…    1m5s
launch provider.cl…ame.pool.main.label.small #3 waiting for the instance to be ready       1m5s
all steps                                       [=========>------------------] 5 of 13     1m5s`,
		160: `
build diskimage.debian                                        [========>---------]  50% converting to raw with qemu-img                                1m5s
launch provider.cloud-with-long-name.pool.main.label.small #3 waiting for the instance to be ready                                                     1m5s
all steps                                                     [=========>------------------] 5 of 13                                                   1m5s`,
	} {
		b, _, now := barsOf(columns)
		b.Start("1", "build diskimage.debian")
		b.Start("2", "launch provider.cloud-with-long-name.pool.main.label.small #3")
		b.Progress("1", "converting to raw with qemu-img", 2, 4)
		b.Progress("2", "waiting for the instance to be ready", 0, 0)
		b.End("0", 5)
		*now = now.Add(65*time.Second + time.Millisecond)
		frame := b.frame(columns, 30)
		if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), strings.Join(frame, "\n")); diff != "" {
			t.Errorf("%d columns (-want +got):\n%s", columns, diff)
		}
		for _, line := range frame {
			if w := runewidth.StringWidth(line); w >= columns {
				t.Errorf("a line has %d of %d columns: %s", w, columns, line)
			}
		}
	}
}

func TestBarsLeaveOneLineForManySteps(t *testing.T) {
	b, _, _ := barsOf(80)
	for i := range 40 {
		b.Start(strconv.Itoa(i), "build x")
	}
	if n := len(b.frame(80, 30)); n != mostBars+1 {
		t.Errorf("%d lines at 30 rows, want %d", n, mostBars+1)
	}
	if n := len(b.frame(80, 5)); n != 3 {
		t.Errorf("%d lines at 5 rows, want 3", n)
	}
}

func TestBarsAreRemovedFromTheScreen(t *testing.T) {
	b, out, _ := barsOf(60)
	shown := &pty.Screen{Columns: 60}
	draw := func(lines string) {
		t.Helper()
		if _, err := b.Write([]byte(lines)); err != nil {
			t.Fatal(err)
		}
		shown.Write(t, out.String())
		out.Reset()
	}
	b.Start("1", "build diskimage.debian")
	b.Start("2", "upload provider.acme.image.debian")
	draw("")
	shown.Write(t, "^C") // the terminal echoes it
	draw("Interrupted: stopping 2 running steps.\n")
	b.End("2", 13)
	shown.Write(t, "^C")
	b.size = func() (int, int) { return 30, 30 } // the window becomes narrower, and the terminal wraps its lines
	lines := shown.Lines
	shown = &pty.Screen{Columns: 30}
	for _, line := range lines {
		shown.Write(t, string(line)+"\n")
	}
	shown.Row, shown.Column = shown.Row-1, 2 // the cursor is after the echo
	draw("build diskimage.debian: interrupted\n")
	b.clear()
	shown.Write(t, out.String())
	if want := "Interrupted: stopping 2 runnin\ng steps.\nbuild diskimage.debian: interr\nupted\n\n"; shown.String() != want {
		t.Errorf("the screen shows\n%swant\n%s", shown, want)
	}
}

func TestEchoesInARedrawWrapNoLine(t *testing.T) {
	for _, columns := range []int{40, 60, 120} {
		for line := range 4 { // the terminal echoes ^C before the end of this line
			b, out, _ := barsOf(columns)
			b.Start("1", "build diskimage.debian")
			b.Start("2", "launch provider.cloud-with-a-long-name.pool.main.label.small #2")
			if err := b.show([]byte("Interrupted.\n")); err != nil {
				t.Fatal(err)
			}
			shown := &pty.Screen{Columns: columns}
			for i, text := range strings.SplitAfter(strings.TrimSuffix(out.String(), "\n"), "\n") {
				if i == line {
					text = strings.TrimSuffix(text, "\n") + "^C^C\n"
				}
				shown.Write(t, strings.TrimSuffix(text, "\n")+"\n")
			}
			out.Reset()
			b.clear()
			shown.Write(t, out.String())
			if got := strings.TrimSpace(strings.ReplaceAll(shown.String(), "^C^C", "")); got != "Interrupted." {
				t.Errorf("%d columns, echo in line %d: the screen still shows\n%s", columns, line, shown)
			}
		}
	}
}

func TestWrapWordsBreaksBetweenWords(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"one two three", "one two three"},
		{"Error: the provider acme does not answer", "Error: the provider\nacme does not answer"},
		{"\x1b[31mError:\x1b[0m the provider acme", "\x1b[31mError:\x1b[0m the provider\nacme"},
		{"  - the provider acme does", "  - the provider\n  acme does"},
		{"see /a/very/long/path/to/a/file now", "see\n/a/very/long/path/to/a/file\nnow"},
		{"a\n\n    line\n", "a\n\n    line\n"},
	} {
		if got := WrapWords(c.text, 20); got != c.want {
			t.Errorf("%q: got %q, want %q", c.text, got, c.want)
		}
		if got := WrapWords(c.text, 0); got != c.text {
			t.Errorf("%q without a limit: got %q", c.text, got)
		}
	}
}
