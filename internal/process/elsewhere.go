package process

import (
	"io"
)

// Transcript takes what a program prints that runs elsewhere, such as on another machine, and does with it what Run does
// with the output of one that runs here: masked and bounded into the log, line by line to whoever asks, the last lines
// kept for errors. Of the Spec only Log, LogLimit, Secrets, Line and Chatter count.
type Transcript struct{ output *output }

// NewTranscript returns an empty one.
func NewTranscript(spec Spec) *Transcript { return &Transcript{newOutput(spec)} }

// Read takes in everything up to the end of from, which is to hold stdout and stderr together. It is called once.
func (t *Transcript) Read(from io.Reader) { t.output.pump(from) }

// End writes how the program ended into the log, after Read has returned. A nil error is an exit code of 0.
func (t *Transcript) End(err error) { t.output.finish(summary(err)) }

// Tail returns the last lines, masked.
func (t *Transcript) Tail() []string { return t.output.tail.lines() }
