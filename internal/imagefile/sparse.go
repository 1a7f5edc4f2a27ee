package imagefile

import (
	"bytes"
	"os"
)

// block is the minimum size of a hole.
const block = 4 << 10

var zeros [block]byte

// SparseWriter writes a stream to a new file and leaves holes for zeros.
type SparseWriter struct {
	file *os.File
	at   int64 // position in the stream; holes before it are not in the file yet
}

// NewSparseWriter writes to file from its start; the file must be empty. Call Finish at the end.
func NewSparseWriter(file *os.File) *SparseWriter { return &SparseWriter{file: file} }

// Write implements io.Writer.
func (w *SparseWriter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		size := min(len(p), int(block-w.at%block))
		run := w.extent(p, size)
		if !isZero(p[:size]) {
			if _, err := w.file.WriteAt(p[:run], w.at); err != nil {
				return n - len(p), err
			}
		}
		w.at += int64(run)
		p = p[run:]
	}
	return n, nil
}

// extent returns the number of bytes of p that have the same kind as its first block: zeros, or data.
func (w *SparseWriter) extent(p []byte, first int) int {
	zero := isZero(p[:first])
	run := first
	for run < len(p) {
		size := min(len(p)-run, block)
		if isZero(p[run:run+size]) != zero {
			break
		}
		run += size
	}
	return run
}

func isZero(p []byte) bool { return bytes.Equal(p, zeros[:len(p)]) }

// Finish sets the length of the file, which may end in a hole.
func (w *SparseWriter) Finish() error { return w.file.Truncate(w.at) }
