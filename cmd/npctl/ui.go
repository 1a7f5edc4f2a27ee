package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/fatih/color"
	"github.com/mattn/go-runewidth"
	"golang.org/x/term"
)

// streams are the inputs and outputs of a command.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

func systemStreams() streams { return streams{os.Stdin, os.Stdout, os.Stderr} }

// ui prints to the terminal: results to out, everything else to err. Each write is one line.
type ui struct {
	in                 io.Reader
	out                io.Writer
	err                *redirectableWriter
	inTerm, errTerm    bool
	outColor, errColor bool
	compact            bool     // print each warning on one line
	outFile, errFile   *os.File // nil if it is not a file and has no width

	mu       sync.Mutex
	onSignal func()        // guarded by mu: prints the effect of ^C; nil if there is nothing to print
	stopped  chan struct{} // closed at the first ^C or SIGTERM
	stopOnce sync.Once
	onHangup func() // guarded by mu: handles SIGHUP; nil if SIGHUP has the effect of ^C
	atLeave  func() // guarded by mu: restores the screen before npctl exits immediately
}

func newUI(s streams, lookupEnv func(string) (string, bool)) *ui {
	u := &ui{stopped: make(chan struct{}), in: s.in, out: s.out, err: &redirectableWriter{to: s.err}}
	u.outFile, _ = s.out.(*os.File)
	u.errFile, _ = s.err.(*os.File)
	in, _ := s.in.(*os.File)
	dumb := false
	if kind, ok := lookupEnv("TERM"); ok && kind == "dumb" {
		dumb = true
	}
	u.inTerm, u.errTerm = isTerminal(in), isTerminal(u.errFile) && !dumb
	off, set := lookupEnv("NO_COLOR")
	colors := (!set || off == "") && !dumb
	u.outColor, u.errColor = colors && isTerminal(u.outFile), colors && u.errTerm
	return u
}

func isTerminal(f *os.File) bool { return f != nil && term.IsTerminal(int(f.Fd())) }

func (u *ui) noColor() { u.outColor, u.errColor = false, false }

// outWidth and errWidth return the number of columns, or 0 if the stream is not a terminal.
func (u *ui) outWidth() int { return width(u.outFile) }
func (u *ui) errWidth() int { return width(u.errFile) }

func width(f *os.File) int {
	if !isTerminal(f) {
		return 0
	}
	columns, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return columns
}

// message prints a line that is not a result. It wraps the line between words on a terminal.
func (u *ui) message(format string, args ...any) {
	_, _ = io.WriteString(u.err, wrapWords(fmt.Sprintf(format, args...), u.errWidth())+"\n") // an error cannot be reported
}

var colours = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// wrapWords wraps lines between words and keeps the indentation of each line; columns 0 means no limit. It does not
// break a word that is too wide, so that the word can be copied.
func wrapWords(text string, columns int) string {
	if columns == 0 {
		return text
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		bare := strings.TrimLeft(line, " ")
		indent := line[:len(line)-len(bare)]
		at, wrapped := 0, ""
		for word := range strings.SplitSeq(bare, " ") {
			width := runewidth.StringWidth(colours.ReplaceAllString(word, ""))
			switch {
			case wrapped == "":
				wrapped, at = indent+word, len(indent)+width
			case at+1+width > columns:
				wrapped, at = wrapped+"\n"+indent+word, len(indent)+width
			default:
				wrapped, at = wrapped+" "+word, at+1+width
			}
		}
		lines[i] = wrapped
	}
	return strings.Join(lines, "\n")
}

// print prints a line of a result.
func (u *ui) print(format string, args ...any) error {
	_, err := fmt.Fprintf(u.out, format+"\n", args...)
	return outputError(err)
}

// page returns an empty page with the width of stdout.
func (u *ui) page() *page { return &page{columns: u.outWidth(), color: u.outColor} }

func (u *ui) printPage(p *page) error {
	_, err := io.WriteString(u.out, p.String())
	return outputError(err)
}

// table prints a table; see page.table.
func (u *ui) table(rows [][]string, spare ...string) error {
	p := u.page()
	p.table(rows, spare...)
	return u.printPage(p)
}

// wideTable prints a table with whole values, because people copy them.
func (u *ui) wideTable(rows [][]string) error {
	p := page{color: u.outColor}
	p.table(rows)
	return u.printPage(&p)
}

// outputError adds to an error that the output could not be written.
func outputError(err error) error {
	if err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

// interrupted handles ^C.
func (u *ui) interrupted() {
	u.stopOnce.Do(func() { close(u.stopped) })
	u.mu.Lock()
	say := u.onSignal
	u.mu.Unlock()
	if say != nil {
		say()
	}
}

// handleHangup handles SIGHUP. It reports whether a handler was set.
func (u *ui) handleHangup() bool {
	u.mu.Lock()
	answer := u.onHangup
	u.mu.Unlock()
	if answer != nil {
		answer()
	}
	return answer != nil
}

// hangupHints returns a channel that receives a hint for each SIGHUP until forget is called. Several signals before the
// next receive produce one hint.
func (u *ui) hangupHints() (hints <-chan struct{}, forget func()) {
	c := make(chan struct{}, 1)
	u.onHangUp(func() {
		select {
		case c <- struct{}{}:
		default:
		}
	})
	return c, func() { u.onHangUp(nil) }
}

// onHangUp sets the handler of SIGHUP.
func (u *ui) onHangUp(answer func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.onHangup = answer
}

// onLeave sets the function that leave calls.
func (u *ui) onLeave(clear func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.atLeave = clear
}

// leave restores the screen before npctl exits immediately. It waits at most 200 ms for a terminal that blocks.
func (u *ui) leave() {
	u.mu.Lock()
	clear := u.atLeave
	u.mu.Unlock()
	if clear == nil {
		return
	}
	cleared := make(chan struct{})
	go func() {
		clear()
		close(cleared)
	}()
	select {
	case <-cleared:
	case <-time.After(200 * time.Millisecond):
	}
}

// onInterrupt sets the function that ^C calls.
func (u *ui) onInterrupt(say func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.onSignal = say
}

type style int

const (
	styleError style = iota
	styleWarning
	styleStrong
	styleGood
	styleFaint
	stylePlain
)

// style colours text for stderr.
func (u *ui) style(s style, text string) string {
	return paint(u.errColor, s, text)
}

// paint colours text if on is true.
func paint(on bool, s style, text string) string {
	if !on {
		return text
	}
	attributes := map[style]color.Attribute{styleError: color.FgRed, styleWarning: color.FgYellow,
		styleStrong: color.Bold, styleGood: color.FgGreen, styleFaint: color.Faint}
	c := color.New(attributes[s])
	c.EnableColor()
	return c.Sprint(text)
}

// confirm asks a question and returns nil if the answer is yes. without is the hint if there is no terminal.
func (u *ui) confirm(ctx context.Context, question, without string) error {
	if !u.inTerm {
		return hint(errors.New("stdin is not a terminal: cannot ask for approval; no changes were made"), without)
	}
	answer, err := u.ask(ctx, question+"\n  Only 'yes' will be accepted: ")
	if err == nil && answer != "yes" {
		u.message("Not approved; no changes were made.")
		return exitCode(1)
	}
	return err
}

// ask prints a question and reads one line. It returns when ctx is done, although its goroutine reads until the process
// ends.
func (u *ui) ask(ctx context.Context, question string) (string, error) {
	_, _ = fmt.Fprint(u.err, question)
	type answer struct {
		text string
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		text, err := bufio.NewReader(u.in).ReadString('\n')
		answers <- answer{strings.TrimSpace(text), err}
	}()
	select {
	case a := <-answers:
		if a.err != nil && a.text == "" {
			u.message("")
			return "", nil
		}
		return a.text, nil
	case <-ctx.Done():
		u.message("")
		return "", context.Cause(ctx)
	}
}

// redirectableWriter is stderr. Progress bars redirect it while they are visible, so that other output appears above
// them. Writes are serialized.
type redirectableWriter struct {
	mu sync.Mutex
	to io.Writer // guarded by mu
}

func (d *redirectableWriter) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.to.Write(p)
}

// divert redirects all writes to another writer. back restores the previous one.
func (d *redirectableWriter) divert(to io.Writer) (back func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.to
	d.to = to
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.to = before
	}
}

// outTerm reports whether stdout is a terminal.
func (u *ui) outTerm() bool { return isTerminal(u.outFile) }
