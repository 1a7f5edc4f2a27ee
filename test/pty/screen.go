package pty

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/mattn/go-runewidth"
)

// Screen emulates a terminal of the given number of columns. It keeps lines that have scrolled off the screen.
type Screen struct {
	Columns     int
	Lines       [][]rune
	Row, Column int // of the cursor
}

var control = regexp.MustCompile(`^\x1b\[(\d*)([A-Za-z])`)

// Write shows output of a program.
func (s *Screen) Write(t *testing.T, text string) {
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
			s.Column = 0
		case '\n': // the terminal driver adds \r
			s.Row, s.Column = s.Row+1, 0
		default:
			if s.Column+runewidth.RuneWidth(r) > s.Columns {
				s.Row, s.Column = s.Row+1, 0
			}
			s.put(r)
		}
	}
}

func (s *Screen) put(r rune) {
	for len(s.Lines) <= s.Row {
		s.Lines = append(s.Lines, nil)
	}
	for len(s.Lines[s.Row]) <= s.Column {
		s.Lines[s.Row] = append(s.Lines[s.Row], ' ')
	}
	s.Lines[s.Row][s.Column] = r
	s.Column++
}

func (s *Screen) control(t *testing.T, number, letter string) {
	t.Helper()
	switch letter {
	case "A":
		n, err := strconv.Atoi(number)
		if err != nil || n > s.Row {
			t.Fatalf("the cursor is moved up %s lines from line %d", number, s.Row)
		}
		s.Row -= n
	case "J":
		s.Lines = s.Lines[:min(len(s.Lines), s.Row+1)]
		if len(s.Lines) > s.Row {
			s.Lines[s.Row] = s.Lines[s.Row][:min(len(s.Lines[s.Row]), s.Column)]
		}
	case "K":
		if len(s.Lines) > s.Row {
			s.Lines[s.Row] = s.Lines[s.Row][:min(len(s.Lines[s.Row]), s.Column)]
		}
	case "m":
	default:
		t.Fatalf("the screen does not know control %q", letter)
	}
}

// String returns the lines without trailing spaces.
func (s *Screen) String() string {
	var b strings.Builder
	for _, line := range s.Lines {
		b.WriteString(strings.TrimRight(string(line), " ") + "\n")
	}
	return b.String()
}
