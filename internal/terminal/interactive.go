package terminal

import (
	"bufio"
	"bytes"
	"context"
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
	Keys  <-chan bool // for each pressed key, whether it closes a screen: q, ^C or ^D
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
	u.restore.Set(s.Close)
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

// keys returns the channel Screen.Keys. The terminal has no line buffering and no echo, and ^C is a key, until restore is
// called.
func (u *UI) keys() (pressed <-chan bool, restore func()) {
	keys := make(chan bool)
	in, _ := u.In.(*os.File)
	if !u.InTerm {
		return keys, func() {}
	}
	restore, err := raw(in)
	if err != nil {
		return keys, func() {}
	}
	go func() { // ends with the process, as the read does
		key := make([]byte, 1)
		for {
			if n, err := in.Read(key); err != nil || n == 0 {
				return
			}
			keys <- bytes.ContainsAny(key, "qQ\x03\x04")
		}
	}()
	return keys, restore
}

// raw sets a terminal to its raw mode until restore is called.
func raw(in *os.File) (restore func(), err error) {
	mode, err := term.MakeRaw(int(in.Fd()))
	return func() { _ = term.Restore(int(in.Fd()), mode) }, err // nothing else can be done
}

// Ask prints a question and reads one line, which is empty at the end of the input.
func (u *UI) Ask(ctx context.Context, question string) (string, error) {
	_, _ = fmt.Fprint(u.Err, question)
	line, err := await(ctx, func() (string, error) {
		line, _ := bufio.NewReader(u.In).ReadString('\n') // an error has the effect of the end of the input
		return line, nil
	})
	if answer := strings.TrimSpace(line); answer != "" || strings.HasSuffix(line, "\n") {
		return answer, nil
	}
	u.Message("")
	return "", err
}

// Editor returns a function that reads a line with editing and a history, or nil unless In and Out are terminals. It uses
// the raw mode of the terminal and restores the mode. Its error is io.EOF after ^C or ^D.
func (u *UI) Editor(prompt string) func(context.Context) (string, error) {
	if !u.InTerm || !u.OutTerm {
		return nil
	}
	in, _ := u.In.(*os.File)
	line := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{in, u.outFile}, prompt)
	return func(ctx context.Context) (string, error) {
		restore, err := raw(in)
		if err != nil {
			return "", fmt.Errorf("prepare the terminal: %w", err)
		}
		defer restore()
		u.restore.Set(restore)
		defer u.restore.Set(nil)
		if columns, rows, err := term.GetSize(int(in.Fd())); err == nil && columns > 0 {
			_ = line.SetSize(columns, rows) // affects only the layout
		}
		return await(ctx, line.ReadLine)
	}
}

// await returns the result of read, or the cause when ctx is done, although read continues until the process ends.
func await(ctx context.Context, read func() (string, error)) (string, error) {
	type answer struct {
		line string
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		line, err := read()
		answers <- answer{line, err}
	}()
	select {
	case a := <-answers:
		return a.line, a.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}
