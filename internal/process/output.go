package process

import (
	"bytes"
	"fmt"
	"io"
)

// DefaultLogLimit is how much of a program's output is logged when the Spec does not say. A long image build writes
// some ten MiB.
const DefaultLogLimit = 64 << 20

const (
	longestLine = 2 << 10 // of a line for people; the log gets it whole
	tailLines   = 20
	tailAfter   = 200 // lines written at the end of a log that hit its limit
)

// output masks what a program prints and hands it to the log and to whoever reads lines.
type output struct {
	spec    Spec
	limit   int64
	mask    *Masker
	rest    []byte // held back: it may be the beginning of a secret
	line    []byte // the line that has not ended yet, cut at longestLine
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

// pump reads until the end, whatever becomes of the log: a program must not hang because nobody reads it.
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

// show logs masked output and takes it apart into lines.
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

// addToLine keeps what fits: a line that never ends must not fill the memory.
func (o *output) addToLine(text []byte) {
	o.line = append(o.line, text[:min(len(text), longestLine-len(o.line))]...)
}

func (o *output) endLine() {
	line := string(bytes.ToValidUTF8(bytes.TrimSpace(o.line), []byte("?")))
	o.line = o.line[:0]
	if line == "" {
		return
	}
	if o.spec.Chatter == nil || !o.spec.Chatter(line) {
		o.tail.add(line)
	}
	if o.dropped > 0 {
		o.end.add(line)
	}
	if o.spec.Line != nil {
		o.spec.Line(line)
	}
}

// log writes up to the limit, and says where it stopped.
func (o *output) log(text []byte) {
	room := max(o.limit-o.written, 0)
	if int64(len(text)) <= room {
		o.write(text)
		return
	}
	if o.dropped == 0 {
		o.write(text[:room])
		o.write(fmt.Appendf(nil, "\nnpctl: this log has reached its limit of %d bytes; what follows is left out, save for its last lines\n", o.limit))
	}
	o.dropped += int64(len(text)) - room
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

// finish ends the log: the last lines when some were left out, and how the program ended.
func (o *output) finish(summary string) {
	var text bytes.Buffer
	if o.midLine {
		fmt.Fprintln(&text)
	}
	if o.dropped > 0 {
		fmt.Fprintf(&text, "npctl: %d bytes were left out; the last lines:\n", o.dropped)
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
