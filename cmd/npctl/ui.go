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

// streams are where a command reads and writes.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

func systemStreams() streams { return streams{os.Stdin, os.Stdout, os.Stderr} }

// ui is the way to people: results go to out, everything else to err. Both are for one line at a time.
type ui struct {
	in                 io.Reader
	out                io.Writer
	err                *divertible
	inTerm, errTerm    bool
	outColor, errColor bool
	compact            bool     // warnings are one line each
	outFile, errFile   *os.File // nil when there is none to ask for a width

	mu       sync.Mutex
	onSignal func()        // guarded by mu: says what ^C means right now; nil when that goes without saying
	stopped  chan struct{} // closed at the first ^C or SIGTERM
	stopOnce sync.Once
	onHangup func() // guarded by mu: answers SIGHUP; nil where that means the same as ^C
	atLeave  func() // guarded by mu: takes what is drawn off the screen when npctl ends at once
}

func newUI(s streams, lookupEnv func(string) (string, bool)) *ui {
	u := &ui{stopped: make(chan struct{}), in: s.in, out: s.out, err: &divertible{to: s.err}}
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

// outWidth and errWidth are how many columns there are; 0 where nobody looks at a screen.
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

// talk writes a line that is no result. A terminal gets lines that end between words.
func (u *ui) talk(format string, args ...any) {
	_, _ = io.WriteString(u.err, wrapWords(fmt.Sprintf(format, args...), u.errWidth())+"\n") // there is nowhere to say that stderr is gone
}

var colours = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// wrapWords breaks lines between words; 0 columns are no limit. What follows keeps the indentation of its line. A word that
// is wider is not broken: somebody may copy it.
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

// print writes a line of a result.
func (u *ui) print(format string, args ...any) error {
	_, err := fmt.Fprintf(u.out, format+"\n", args...)
	return outputError(err)
}

// outputError says which side of the program cannot write.
func outputError(err error) error {
	if err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

// interrupted answers ^C.
func (u *ui) interrupted() {
	u.stopOnce.Do(func() { close(u.stopped) })
	u.mu.Lock()
	say := u.onSignal
	u.mu.Unlock()
	if say != nil {
		say()
	}
}

// hungUp answers SIGHUP, and reports whether that was all there was to do.
func (u *ui) hungUp() bool {
	u.mu.Lock()
	answer := u.onHangup
	u.mu.Unlock()
	if answer != nil {
		answer()
	}
	return answer != nil
}

// hangups returns a channel that gets a hint at each SIGHUP until forget is called. Those that come meanwhile are one more.
func (u *ui) hangups() (hints <-chan struct{}, forget func()) {
	c := make(chan struct{}, 1)
	u.onHangUp(func() {
		select {
		case c <- struct{}{}:
		default:
		}
	})
	return c, func() { u.onHangUp(nil) }
}

// onHangUp sets what SIGHUP does from now on.
func (u *ui) onHangUp(answer func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.onHangup = answer
}

// onLeave sets what leave does.
func (u *ui) onLeave(clear func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.atLeave = clear
}

// leave takes what is drawn off the screen before npctl ends at once. It waits for a terminal that does not take it only
// for a moment.
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

// onInterrupt sets what ^C says from now on.
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

// style colours text that goes to stderr.
func (u *ui) style(s style, text string) string {
	return paint(u.errColor, s, text)
}

// paint colours text.
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

// errNoTerminal is why nothing could be asked.
var errNoTerminal = errors.New("there is no terminal to ask on")

// ask reads one line of answer. It returns when ctx ends, though the read goes on until the process does.
func (u *ui) ask(ctx context.Context, question string) (string, error) {
	if !u.inTerm {
		return "", errNoTerminal
	}
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
			u.talk("")
			return "", nil
		}
		return a.text, nil
	case <-ctx.Done():
		u.talk("")
		return "", context.Cause(ctx)
	}
}

// divertible is stderr, which progress bars take over while they are shown: what is written then has to appear above
// them. It writes one piece at a time.
type divertible struct {
	mu sync.Mutex
	to io.Writer // guarded by mu
}

func (d *divertible) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.to.Write(p)
}

// divert sends what is written to another writer, and returns the way back.
func (d *divertible) divert(to io.Writer) (back func()) {
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

// outTerm reports whether results go to a terminal.
func (u *ui) outTerm() bool { return isTerminal(u.outFile) }
