package process

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strconv"
)

// DefaultLogLimit is the default limit of a program's log in bytes. A long image build writes some ten MiB.
const DefaultLogLimit = 64 << 20

const (
	longestLine = 2 << 10 // limit of one line in messages; the log is not affected
	tailLines   = 20
	tailAfter   = 200 // lines written at the end of a log that hit its limit
)

// output masks a program's output and passes it to the log and to Spec.Line.
type output struct {
	spec    Spec
	limit   int64
	mask    *Masker
	rest    []byte // buffered: it may be the start of a secret
	line    []byte // the incomplete line, cut at longestLine
	written int64
	dropped int64
	err     error // of the log
	midLine bool  // the log does not end with a newline
	tail    ring
	end     ring // lines for the end of a log that hit its limit
}

func newOutput(spec Spec) *output {
	o := &output{spec: spec, limit: spec.LogLimit, mask: NewMasker(append(proxyPasswords(spec.Env), spec.Secrets...))}
	if o.limit <= 0 {
		o.limit = DefaultLogLimit
	}
	if o.spec.Log == nil {
		o.spec.Log = io.Discard
	}
	o.tail.size, o.end.size = tailLines, tailAfter
	return o
}

// pump reads to the end even if the log fails: a program must not hang because its output is not read.
func (o *output) pump(from io.Reader) {
	buf := make([]byte, 32<<10)
	var shown []byte
	for {
		n, err := from.Read(buf)
		o.rest = append(o.rest, buf[:n]...)
		shown, o.rest = o.mask.next(shown[:0], o.rest, err != nil)
		o.rest = bytes.Clone(o.rest)
		o.show(shown)
		if err != nil {
			o.endLine()
			return
		}
	}
}

// show logs masked output and splits it into lines.
func (o *output) show(text []byte) {
	o.log(text)
	for len(text) > 0 {
		i := bytes.IndexAny(text, "\n\r")
		if i < 0 {
			o.addToLine(text)
			return
		}
		o.addToLine(text[:i])
		o.endLine()
		text = text[i+1:]
	}
}

// addToLine truncates the line at longestLine: an endless line must not fill the memory.
func (o *output) addToLine(text []byte) {
	o.line = append(o.line, text[:min(len(text), longestLine-len(o.line))]...)
}

func (o *output) endLine() {
	line := string(bytes.ToValidUTF8(bytes.TrimSpace(o.line), []byte("?")))
	o.line = o.line[:0]
	if line == "" {
		return
	}
	if o.spec.IsNoise == nil || !o.spec.IsNoise(line) {
		o.tail.add(line)
	}
	if o.dropped > 0 {
		o.end.add(line)
	}
	if o.spec.Line != nil {
		o.spec.Line(line)
	}
}

// log writes up to the limit, and notes where the log is cut.
func (o *output) log(text []byte) {
	left := max(o.limit-o.written, 0)
	if int64(len(text)) <= left {
		o.write(text)
		return
	}
	if o.dropped == 0 {
		o.write(text[:left])
		o.write(fmt.Appendf(nil, "\nnpctl: this log has reached its limit of %d bytes; further output is omitted, except for the last lines\n", o.limit))
	}
	o.dropped += int64(len(text)) - left
}

func (o *output) write(text []byte) {
	if o.err != nil || len(text) == 0 {
		return
	}
	n, err := o.spec.Log.Write(text)
	o.written += int64(n)
	o.midLine = text[len(text)-1] != '\n'
	o.err = err
}

// finish ends the log: it writes the last lines if output was omitted, and how the program ended.
func (o *output) finish(summary string) {
	var text bytes.Buffer
	if o.midLine {
		fmt.Fprintln(&text)
	}
	if o.dropped > 0 {
		fmt.Fprintf(&text, "npctl: %d bytes were omitted; the last lines:\n", o.dropped)
		for _, line := range o.end.lines() {
			fmt.Fprintln(&text, line)
		}
	}
	fmt.Fprintln(&text, o.mask.Text(summary))
	o.write(text.Bytes())
}

// ring keeps the newest lines.
type ring struct {
	size int
	kept []string
}

func (r *ring) add(line string) {
	if len(r.kept) >= 2*r.size {
		r.kept = append(r.kept[:0], r.kept[len(r.kept)-r.size+1:]...)
	}
	r.kept = append(r.kept, line)
}

func (r *ring) lines() []string { return r.kept[max(len(r.kept)-r.size, 0):] }

// Transcript handles the output of a program that runs elsewhere, such as on another machine, like Run handles that
// of a local program: it masks and limits the log, passes lines to Spec.Line, and keeps the last lines for errors. It
// uses only Log, LogLimit, Secrets, Line and IsNoise of the Spec.
type Transcript struct{ output *output }

// NewTranscript returns an empty Transcript.
func NewTranscript(spec Spec) *Transcript { return &Transcript{newOutput(spec)} }

// Read reads to the end of from, which combines stdout and stderr. Call it once.
func (t *Transcript) Read(from io.Reader) { t.output.pump(from) }

// End writes how the program ended into the log, after Read has returned. A nil error is an exit code of 0.
func (t *Transcript) End(err error) { t.output.finish(summary(err)) }

// Tail returns the last lines, masked.
func (t *Transcript) Tail() []string { return t.output.tail.lines() }

// progressLine matches a progress report in the output of a program, for example:
//
//	npctl-progress: 3/10 installing packages
//	npctl-progress: booting the installer
var progressLine = regexp.MustCompile(`^npctl-progress: *(?:(\d{1,18})/(\d{1,18}) *)?(.*)$`)

const longestPhase = 100

// ParseProgress parses a progress report in a line of output; ok is false for any other line.
func ParseProgress(line string) (phase string, done, total int64, ok bool) {
	found := progressLine.FindStringSubmatch(line)
	if found == nil {
		return "", 0, 0, false
	}
	if found[1] != "" {
		done, _ = strconv.ParseInt(found[1], 10, 64)
		total, _ = strconv.ParseInt(found[2], 10, 64)
	}
	phase = found[3]
	return phase[:min(len(phase), longestPhase)], min(done, total), total, true
}
