package terminal

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

// Controls of the terminal. The alternate screen makes the previous content reappear at the end.
const (
	alternateScreen = "\x1b[?1049h\x1b[?25l"
	primaryScreen   = "\x1b[?25h\x1b[?1049l"
	topLeft         = "\x1b[H"
	clearLine       = "\x1b[K"
	clearBelow      = "\x1b[J"
)

// Screen shows a page that is redrawn. It exists from OpenScreen until Close.
type Screen struct {
	Keys  <-chan byte // the pressed keys, of which ^C is one
	Close func()      // restores the terminal; later calls do nothing

	ui *UI
}

// OpenScreen shows an empty screen. Out must be a terminal.
func (u *UI) OpenScreen() *Screen {
	keys, restore := u.keys()
	s := &Screen{ui: u, Keys: keys, Close: sync.OnceFunc(func() {
		_, _ = io.WriteString(u.Out, primaryScreen) // an error cannot be reported anywhere
		restore()
	})}
	u.OnLeave(s.Close)
	_, _ = io.WriteString(u.Out, alternateScreen)
	return s
}

// Page returns an empty page for Draw.
func (s *Screen) Page() *Page {
	p := s.ui.WidePage()
	p.Columns, _ = size(s.ui.outFile)
	p.Live = true
	return p
}

// Draw draws a page with a last line that names the keys, and the command for the lines that do not fit.
func (s *Screen) Draw(p *Page, more string) error {
	_, rows := size(s.ui.outFile)
	foot := "q or ^C to leave"
	lines := strings.Split(strings.TrimRight(p.String(), "\n"), "\n")
	if most := max(rows-1, 1); len(lines) > most {
		foot += fmt.Sprintf("; %d more lines: %s", len(lines)-most, more)
		lines = lines[:most]
	}
	lines = append(lines, Paint(p.Color, StyleFaint, Shorten(foot, p.Columns)))
	var b strings.Builder
	b.WriteString(topLeft)
	for i, line := range lines {
		if i > 0 {
			b.WriteString("\r\n")
		}
		if !strings.Contains(line, "\x1b") { // a word may be wider than the screen
			line = Shorten(line, p.Columns)
		}
		b.WriteString(line + clearLine)
	}
	b.WriteString(clearBelow)
	return s.ui.Write(b.String())
}

// Leaves reports whether a key closes a screen: q, ^C or ^D.
func Leaves(key byte) bool { return strings.IndexByte("qQ\x03\x04", key) >= 0 }

// keys returns a channel of the pressed keys, without line buffering and echo, until restore is called. ^C is a key in
// that mode.
func (u *UI) keys() (pressed <-chan byte, restore func()) {
	keys := make(chan byte)
	in, _ := u.In.(*os.File)
	if !u.InTerm {
		return keys, func() {}
	}
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return keys, func() {}
	}
	go func() { // ends with the process, as the read does
		key := make([]byte, 1)
		for {
			if n, err := in.Read(key); err != nil || n == 0 {
				return
			}
			keys <- key[0]
		}
	}()
	return keys, func() { _ = term.Restore(int(in.Fd()), before) }
}
