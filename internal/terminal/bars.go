package terminal

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mattn/go-runewidth"
)

// Bars draws one line for each of the first running steps and one for all steps, below the other output on stderr.
type Bars struct {
	size  func() (columns, rows int)
	now   func() time.Time
	back  func() // restores stderr
	stop  chan struct{}
	draws sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	out    io.Writer
	steps  []*stepBar // in the order of their start
	since  time.Time
	ended  int
	total  int
	drawn  []string // the lines on the screen
	closed bool
}

// stepBar is the bar of one step.
type stepBar struct {
	id, title, phase string
	done, total      int64 // total is 0 when unknown
	since            time.Time
}

// mostBars is the maximum number of bars, so that a large apply does not fill the screen.
const mostBars = 12

const redrawEvery = 150 * time.Millisecond

// Bars draws bars until Close is called. ErrTerm must be set. total is the expected number of steps.
func (u *UI) Bars(total int) *Bars {
	b := &Bars{size: func() (columns, rows int) { return size(u.errFile) }, now: time.Now, since: time.Now(), total: total, out: u.errFile,
		stop: make(chan struct{})}
	b.back = func() { u.err.divert(u.errFile) }
	u.err.divert(b)
	u.restore.Set(b.clear)
	b.draws.Go(b.keepDrawing)
	return b
}

func (b *Bars) keepDrawing() {
	ticker := time.NewTicker(redrawEvery)
	defer ticker.Stop()
	for {
		select {
		case <-b.stop:
			return
		case <-ticker.C:
			b.mu.Lock()
			_ = b.show(nil) // the next tick draws again
			b.mu.Unlock()
		}
	}
}

// Write prints lines above the bars.
func (b *Bars) Write(lines []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(lines), b.show(lines)
}

// show erases the bars, prints lines and draws the bars again, all in one write to avoid flicker.
func (b *Bars) show(lines []byte) error {
	columns, rows := b.size()
	var out strings.Builder
	if n := screenLines(b.drawn, columns); n > 0 {
		fmt.Fprintf(&out, "\r\x1b[%dA\x1b[J", n) // the cursor may be after an echoed ^C
	}
	out.Write(lines)
	b.drawn = nil
	if !b.closed {
		b.drawn = b.frame(columns, rows)
	}
	for _, line := range b.drawn {
		out.WriteString(line + "\n")
	}
	_, err := io.WriteString(b.out, out.String())
	return err
}

// screenLines returns the number of screen rows that the lines occupy, which grows when the terminal becomes narrower.
func screenLines(lines []string, columns int) (n int) {
	for _, line := range lines {
		n += max(1, (runewidth.StringWidth(line)+columns-1)/columns)
	}
	return n
}

// Start adds the bar of a step.
func (b *Bars) Start(id, title string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.steps = append(b.steps, &stepBar{id: id, title: title, since: b.now()})
}

// Progress sets the phase of a step and the done part of its work; total is 0 when unknown.
func (b *Bars) Progress(id, phase string, done, total int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.steps {
		if s.id == id {
			s.phase, s.done, s.total = phase, done, total
		}
	}
}

// End removes the bar of a step. ended is the number of all steps that have ended.
func (b *Bars) End(id string, ended int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = ended
	b.steps = slices.DeleteFunc(b.steps, func(s *stepBar) bool { return s.id == id })
}

// Close removes the bars.
func (b *Bars) Close() {
	close(b.stop)
	b.draws.Wait()
	b.clear()
	b.back()
}

// clear erases the bars permanently.
func (b *Bars) clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	_ = b.show(nil) // an error on stderr cannot be reported anywhere
}

// elapsedWidth is the width of a duration such as " 1h2m3s".
const elapsedWidth = 8

// echoWidth is the width of two ^C. The terminal echoes them at the end of any line, also in the middle of a redraw.
const echoWidth = 4

// frame returns the lines for a screen of the given size. It shortens titles in the middle, so that percentages and
// durations are never cut off.
func (b *Bars) frame(columns, rows int) []string {
	const all = "all steps"
	steps := b.steps[:min(len(b.steps), max(min(mostBars, rows-3), 1))]
	widest := runewidth.StringWidth(all)
	for _, s := range steps {
		widest = max(widest, runewidth.StringWidth(s.title))
	}
	content := max(columns-1-echoWidth-elapsedWidth, 20) // a line that fills the last column would wrap
	least := 40                                          // columns for the text after a title
	if columns < 100 {
		least = columns / 3
	}
	titles := min(widest, content-least)
	info := content - titles - 1
	line := func(title, text string, since time.Time) string {
		elapsed := fmt.Sprintf("%*s", elapsedWidth, b.now().Sub(since).Truncate(time.Second))
		return runewidth.FillRight(shortenMiddle(title, titles), titles) + " " +
			runewidth.FillRight(Shorten(text, info), info) + elapsed
	}
	var lines []string
	for _, s := range steps {
		lines = append(lines, line(s.title, s.text(info), s.since))
	}
	count := fmt.Sprintf(" %d of %d", b.ended, max(b.total, b.ended))
	return append(lines, line(all, bar(int64(b.ended), int64(b.total), info-len(count))+count, b.since))
}

// text returns the text after the title: the phase, preceded by a bar if the amount of work is known.
func (s *stepBar) text(width int) string {
	if s.total == 0 {
		return s.phase
	}
	percent := fmt.Sprintf(" %3d%%", 100*min(s.done, s.total)/s.total)
	return bar(s.done, s.total, min(width/2, 20)) + percent + " " + s.phase
}

const widestBar = 30

// bar returns a bar such as [====>-----].
func bar(done, total int64, width int) string {
	inner := max(min(width, widestBar), 3) - 2
	full := 0
	if total > 0 {
		full = int(int64(inner) * min(done, total) / total)
	}
	text := strings.Repeat("=", full)
	if full > 0 && full < inner {
		text = text[1:] + ">"
	}
	return "[" + text + strings.Repeat("-", inner-full) + "]"
}
