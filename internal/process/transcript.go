package process

import (
	"io"
)

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
