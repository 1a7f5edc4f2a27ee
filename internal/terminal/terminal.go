// Package terminal prints to a terminal and reads from it: lines, styles, pages with tables, progress bars, a screen that is
// redrawn, and prompts. It knows nothing of npctl. Without a terminal it prints plain text of unlimited width.
package terminal

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/term"

	"github.com/npctl/npctl/internal/text"
)

// Streams are the inputs and outputs of a command.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// UI prints results to Out and everything else to Err. Each write is one line.
type UI struct {
	Streams
	InTerm, OutTerm, ErrTerm bool // whether the stream is a terminal
	OutColor, ErrColor       bool
	Compact                  bool             // print each warning on one line
	Cells                    map[string]Style // the colours of values in tables

	err              *redirectableWriter // Err
	outFile, errFile *os.File            // nil if it is not a file and has no width
	restore          Handler             // of the screen
}

// New returns the UI of a command in an environment.
func New(s Streams, lookupEnv func(string) (string, bool)) *UI {
	u := &UI{Streams: s, err: &redirectableWriter{to: s.Err}}
	u.Err = u.err
	u.outFile, _ = s.Out.(*os.File)
	u.errFile, _ = s.Err.(*os.File)
	in, _ := s.In.(*os.File)
	kind, _ := lookupEnv("TERM")
	dumb := kind == "dumb"
	u.InTerm, u.OutTerm, u.ErrTerm = isTerminal(in), isTerminal(u.outFile), isTerminal(u.errFile) && !dumb
	off, _ := lookupEnv("NO_COLOR")
	colors := off == "" && !dumb
	u.OutColor, u.ErrColor = colors && u.OutTerm, colors && u.ErrTerm
	return u
}

func isTerminal(f *os.File) bool { return f != nil && term.IsTerminal(int(f.Fd())) }

// OutWidth returns the number of columns of Out, or 0 if it is not a terminal.
func (u *UI) OutWidth() int { return Width(u.Out) }

// ErrWidth returns the number of columns of Err, or 0 if it is not a terminal.
func (u *UI) ErrWidth() int { return Width(u.errFile) } // Err itself is no file

// Width returns the number of columns of a terminal, or 0 if w is none.
func Width(w io.Writer) int {
	f, _ := w.(*os.File)
	if !isTerminal(f) {
		return 0
	}
	columns, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return columns
}

// size returns the size of a terminal, or a common one if it is unknown.
func size(f *os.File) (columns, rows int) {
	columns, rows, err := term.GetSize(int(f.Fd()))
	if err != nil || columns == 0 || rows == 0 {
		return 80, 24
	}
	return columns, rows
}

// Message prints a line that is not a result. It wraps the line between words on a terminal.
func (u *UI) Message(format string, args ...any) {
	_, _ = io.WriteString(u.Err, WrapWords(fmt.Sprintf(format, args...), u.ErrWidth())+"\n") // an error cannot be reported
}

// Error prints a message after a head in the style of errors.
func (u *UI) Error(head, format string, args ...any) {
	u.Message("%s %s", u.Style(StyleError, head), fmt.Sprintf(format, args...))
}

// Warning prints a message after a head in the style of warnings.
func (u *UI) Warning(head, format string, args ...any) {
	u.Message("%s %s", u.Style(StyleWarning, head), fmt.Sprintf(format, args...))
}

// Waiting prints one line until done erases it.
func (u *UI) Waiting(line string) (done func()) {
	line = shortenMiddle(text.Line(line), max(u.ErrWidth()-1-echoWidth, 20))
	_, _ = fmt.Fprint(u.Err, u.Style(StyleFaint, line))
	return func() { _, _ = fmt.Fprint(u.Err, "\r"+clearLine) }
}

// Print prints a line of a result.
func (u *UI) Print(format string, args ...any) error {
	return u.Write(fmt.Sprintf(format+"\n", args...))
}

// Write prints the text of a result.
func (u *UI) Write(text string) error {
	_, err := io.WriteString(u.Out, text)
	return OutputError(err)
}

// OutputError adds to an error that the output could not be written.
func OutputError(err error) error {
	if err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

// Leave restores the screen before the process exits immediately. It waits at most 200 ms for a terminal that blocks.
func (u *UI) Leave() {
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	_, _ = await(ctx, func() (string, error) { u.restore.Call(); return "", nil }) // nothing else can be done
}

// Handler is a function that may be replaced while another goroutine calls it.
type Handler struct{ do atomic.Pointer[func()] }

// Set replaces the function; nil removes it.
func (h *Handler) Set(do func()) { h.do.Store(&do) }

// Call calls the function and reports whether there is one.
func (h *Handler) Call() bool {
	do := h.do.Load()
	if do == nil || *do == nil {
		return false
	}
	(*do)()
	return true
}

// redirectableWriter is stderr. Progress bars redirect it while they are visible, so that other output appears above
// them. Writes are serialized.
type redirectableWriter struct {
	mu sync.Mutex
	to io.Writer // guarded by mu
}

// Write implements io.Writer.
func (d *redirectableWriter) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.to.Write(p)
}

// divert redirects all writes to another writer.
func (d *redirectableWriter) divert(to io.Writer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.to = to
}

// Warnings returns a log that prints only warnings, as sentences.
func (u *UI) Warnings() *slog.Logger { return slog.New(&sentences{ui: u}) }

// sentences is a handler that prints warnings as sentences.
type sentences struct {
	ui    *UI
	attrs []slog.Attr
}

var _ slog.Handler = (*sentences)(nil)

// Enabled implements slog.Handler.
func (*sentences) Enabled(_ context.Context, level slog.Level) bool { return level == slog.LevelWarn }

// WithAttrs implements slog.Handler.
func (h *sentences) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &sentences{h.ui, append(h.attrs[:len(h.attrs):len(h.attrs)], attrs...)}
}

// WithGroup implements slog.Handler. It ignores groups.
func (h *sentences) WithGroup(string) slog.Handler { return h }

// Handle implements slog.Handler. It prints a value of several lines, such as a console, below the message.
func (h *sentences) Handle(_ context.Context, r slog.Record) error {
	var facts []string
	var cause string
	var long strings.Builder
	add := func(attr slog.Attr) bool {
		value := text.Block(strings.TrimSpace(attr.Value.String()))
		switch {
		case strings.Contains(value, "\n"):
			long.WriteString("\n    " + strings.ReplaceAll(value, "\n", "\n    "))
		case attr.Key == "error":
			cause = ": " + value
		default:
			facts = append(facts, attr.Key+" "+value)
		}
		return true
	}
	for _, attr := range h.attrs {
		add(attr)
	}
	r.Attrs(add)
	message := r.Message
	if len(facts) > 0 {
		message += " (" + strings.Join(facts, ", ") + ")"
	}
	if h.ui.Compact {
		long.Reset()
	}
	h.ui.Warning("Warning:", "%s%s%s", message, cause, long.String())
	return nil
}
