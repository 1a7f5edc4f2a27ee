package main

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mattn/go-runewidth"
)

// screen emulates a terminal of the given number of columns. It keeps lines that have scrolled off the screen.
type screen struct {
	columns     int
	lines       [][]rune
	row, column int
}

var control = regexp.MustCompile(`^\x1b\[(\d*)([A-Za-z])`)

func (s *screen) write(t *testing.T, text string) {
	t.Helper()
	for text != "" {
		if m := control.FindStringSubmatch(text); m != nil {
			s.control(t, m[1], m[2])
			text = text[len(m[0]):]
			continue
		}
		r := []rune(text)[0]
		text = text[len(string(r)):]
		switch r {
		case '\r':
			s.column = 0
		case '\n': // the terminal driver adds \r
			s.row, s.column = s.row+1, 0
		default:
			if s.column+runewidth.RuneWidth(r) > s.columns {
				s.row, s.column = s.row+1, 0
			}
			s.put(r)
		}
	}
}

func (s *screen) put(r rune) {
	for len(s.lines) <= s.row {
		s.lines = append(s.lines, nil)
	}
	for len(s.lines[s.row]) <= s.column {
		s.lines[s.row] = append(s.lines[s.row], ' ')
	}
	s.lines[s.row][s.column] = r
	s.column++
}

func (s *screen) control(t *testing.T, number, letter string) {
	t.Helper()
	switch letter {
	case "A":
		n, err := strconv.Atoi(number)
		if err != nil || n > s.row {
			t.Fatalf("the cursor is moved up %s lines from line %d", number, s.row)
		}
		s.row -= n
	case "J":
		s.lines = s.lines[:min(len(s.lines), s.row+1)]
		if len(s.lines) > s.row {
			s.lines[s.row] = s.lines[s.row][:min(len(s.lines[s.row]), s.column)]
		}
	case "K":
		if len(s.lines) > s.row {
			s.lines[s.row] = s.lines[s.row][:min(len(s.lines[s.row]), s.column)]
		}
	case "m":
	default:
		t.Fatalf("the screen does not know control %q", letter)
	}
}

func (s *screen) String() string {
	var b strings.Builder
	for _, line := range s.lines {
		b.WriteString(strings.TrimRight(string(line), " ") + "\n")
	}
	return b.String()
}

// barsOf returns bars that draw only when a test calls them, with their output and clock.
func barsOf(columns int) (*bars, *bytes.Buffer, *time.Time) {
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	clock, out := &now, &bytes.Buffer{}
	return &bars{size: func() (int, int) { return columns, 30 }, now: func() time.Time { return *clock }, since: now, out: out, total: 13}, out, clock
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
		b.start("1", "build diskimage.debian")
		b.start("2", "launch provider.cloud-with-long-name.pool.main.label.small #3")
		b.progress("1", &runningStep{phase: "converting to raw with qemu-img", done: 2, total: 4})
		b.progress("2", &runningStep{phase: "waiting for the instance to be ready"})
		b.end("0", 5)
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
		b.start(strconv.Itoa(i), "build x")
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
	shown := &screen{columns: 60}
	draw := func(lines string) {
		t.Helper()
		if _, err := b.Write([]byte(lines)); err != nil {
			t.Fatal(err)
		}
		shown.write(t, out.String())
		out.Reset()
	}
	b.start("1", "build diskimage.debian")
	b.start("2", "upload provider.acme.image.debian")
	draw("")
	shown.write(t, "^C") // the terminal echoes it
	draw("Interrupted: stopping 2 running steps.\n")
	b.end("2", 13)
	shown.write(t, "^C")
	b.size = func() (int, int) { return 30, 30 } // the window becomes narrower, and the terminal wraps its lines
	lines := shown.lines
	shown = &screen{columns: 30}
	for _, line := range lines {
		shown.write(t, string(line)+"\n")
	}
	shown.row, shown.column = shown.row-1, 2 // the cursor is after the echo
	draw("build diskimage.debian: interrupted\n")
	b.clear()
	shown.write(t, out.String())
	if want := "Interrupted: stopping 2 runnin\ng steps.\nbuild diskimage.debian: interr\nupted\n\n"; shown.String() != want {
		t.Errorf("the screen shows\n%swant\n%s", shown, want)
	}
}

func TestEchoesInARedrawWrapNoLine(t *testing.T) {
	for _, columns := range []int{40, 60, 120} {
		for line := range 4 { // the terminal echoes ^C before the end of this line
			b, out, _ := barsOf(columns)
			b.start("1", "build diskimage.debian")
			b.start("2", "launch provider.cloud-with-a-long-name.pool.main.label.small #2")
			if err := b.show([]byte("Interrupted.\n")); err != nil {
				t.Fatal(err)
			}
			shown := &screen{columns: columns}
			for i, text := range strings.SplitAfter(strings.TrimSuffix(out.String(), "\n"), "\n") {
				if i == line {
					text = strings.TrimSuffix(text, "\n") + "^C^C\n"
				}
				shown.write(t, strings.TrimSuffix(text, "\n")+"\n")
			}
			out.Reset()
			b.clear()
			shown.write(t, out.String())
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
		if got := wrapWords(c.text, 20); got != c.want {
			t.Errorf("%q: got %q, want %q", c.text, got, c.want)
		}
		if got := wrapWords(c.text, 0); got != c.text {
			t.Errorf("%q without a limit: got %q", c.text, got)
		}
	}
}

// longFleet returns a directory with a configuration of long names, in which a server takes an hour to start.
func longFleet(t *testing.T) string {
	t.Helper()
	dir := fleetDir(t)
	changeConfig(t, dir, `"acme"`, `"cloud-with-a-long-name"`)
	changeConfig(t, dir, `build_time   = "0s"`, `build_time   = "1h"`)
	return dir
}

func TestInterruptLeavesNoBars(t *testing.T) {
	t.Parallel()
	for _, columns := range []int{60, 100} {
		for _, twice := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d columns, twice %t", columns, twice), func(t *testing.T) {
				t.Parallel()
				x := onTerminalOf(t, columns, longFleet(t), nil, "apply", "-auto-approve")
				x.expect("waiting for the ")
				x.press("\x03")
				if twice {
					x.press("\x03")
				}
				code, text := x.end()
				shown := &screen{columns: columns}
				shown.write(t, text)
				if code != exitInterrupted {
					t.Errorf("apply: exit code %d, want %d:\n%s", code, exitInterrupted, shown)
				}
				for _, line := range strings.Split(shown.String(), "\n") {
					if strings.HasPrefix(line, "all steps") || strings.Contains(line, "waiting for the") {
						t.Errorf("the screen still shows %q:\n%s", line, shown)
					}
				}
				if !twice && !strings.Contains(strings.Join(strings.Fields(shown.String()), " "), "0 failed, 2 interrupted, 0 skipped of 4 steps.") {
					t.Errorf("the screen does not say that 2 steps were interrupted:\n%s", shown)
				}
			})
		}
	}
}

func TestListedProvidersLeaveNothingOnANarrowScreen(t *testing.T) {
	t.Parallel()
	dir := fleetDir(t)
	changeConfig(t, dir, `"acme"`, `"cloud-with-a-name-that-is-longer-than-narrow"`)
	code, written := onTerminalOf(t, 40, dir, []string{"NO_COLOR=1"}, "plan").end()
	shown := &screen{columns: 40}
	shown.write(t, written)
	if code != 0 || !strings.Contains(written, "Listing cl") || strings.Contains(shown.String(), "Listing") {
		t.Errorf("plan: exit code %d, and the screen shows\n%s", code, shown)
	}
}
