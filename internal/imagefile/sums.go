// Package imagefile reads and writes image files: large, mostly zero, and useless if one byte is wrong. It hashes
// them during a transfer, keeps their holes, and gives a file its final name only when it is complete.
package imagefile

import (
	"context"
	"crypto/md5" //nolint:gosec // for accidental damage only; sha256 protects against manipulation
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"
)

// Sums holds the size and checksums of a file. MD5 is Glance's checksum.
type Sums struct {
	Size   int64
	SHA256 string // hex
	MD5    string // hex
}

// chunk is the number of bytes passed from one goroutine to another at a time: large enough to make the overhead
// negligible, small enough that all buffers of a Hasher fit into a cache.
const chunk = 256 << 10

// buffers is the number of chunks by which a writer may be ahead of the slower hash.
const buffers = 4

// Hasher computes the sums of the bytes written to it, each in its own goroutine, while the writer fetches the next
// bytes. Call Sums or Close, which end the goroutines.
type Hasher struct {
	lanes [2]lane
	fill  []byte // not passed on yet
	size  int64
	ended bool
}

// lane is one hash with its goroutine. Both lanes receive every chunk; its buffer is reused when both are done.
type lane struct {
	hash hash.Hash
	work chan []byte
	free chan []byte
	done chan struct{}
}

// NewHasher starts the goroutines.
func NewHasher() *Hasher {
	h := &Hasher{}
	for i, sum := range []hash.Hash{sha256.New(), md5.New()} { //nolint:gosec // see the import
		h.lanes[i] = lane{sum, make(chan []byte, buffers), make(chan []byte, buffers), make(chan struct{})}
		for range buffers {
			h.lanes[i].free <- nil
		}
		go h.lanes[i].run()
	}
	return h
}

func (l *lane) run() {
	defer close(l.done)
	for chunk := range l.work {
		l.hash.Write(chunk)
		l.free <- chunk
	}
}

// Write implements io.Writer; it does not retain p and never fails.
func (h *Hasher) Write(p []byte) (int, error) {
	n := len(p)
	h.size += int64(n)
	for len(p) > 0 {
		if h.fill == nil {
			h.fill = h.buffer()
		}
		took := copy(h.fill[len(h.fill):cap(h.fill)], p)
		h.fill = h.fill[:len(h.fill)+took]
		p = p[took:]
		if len(h.fill) == cap(h.fill) {
			h.handOut()
		}
	}
	return n, nil
}

// buffer waits for a chunk that both hashes have processed. Each lane returns chunks in the order received, so the
// chunk from the second lane is the same one.
func (h *Hasher) buffer() []byte {
	b := <-h.lanes[0].free
	<-h.lanes[1].free
	if b == nil {
		b = make([]byte, chunk)
	}
	return b[:0]
}

func (h *Hasher) handOut() {
	for i := range h.lanes {
		h.lanes[i].work <- h.fill
	}
	h.fill = nil
}

// Sums ends the hashing and returns the result.
func (h *Hasher) Sums() Sums {
	h.Close()
	return Sums{
		Size:   h.size,
		SHA256: hex.EncodeToString(h.lanes[0].hash.Sum(nil)),
		MD5:    hex.EncodeToString(h.lanes[1].hash.Sum(nil)),
	}
}

// Close stops the goroutines. A second call does nothing.
func (h *Hasher) Close() {
	if h.ended {
		return
	}
	h.ended = true
	if len(h.fill) > 0 {
		h.handOut()
	}
	for i := range h.lanes {
		close(h.lanes[i].work)
		<-h.lanes[i].done
	}
}

// Hash reads to the end and returns the sums. progress, if not nil, receives the number of bytes read so far.
func Hash(ctx context.Context, from io.Reader, progress func(done int64)) (Sums, error) {
	h := NewHasher()
	defer h.Close()
	buf := make([]byte, chunk)
	for {
		if ctx.Err() != nil {
			return Sums{}, context.Cause(ctx)
		}
		n, err := from.Read(buf)
		_, _ = h.Write(buf[:n])
		if progress != nil {
			progress(h.size)
		}
		if err == io.EOF {
			return h.Sums(), nil
		}
		if err != nil {
			return Sums{}, err
		}
	}
}

// HashFile is Hash of a file.
func HashFile(ctx context.Context, path string, progress func(done int64)) (Sums, error) {
	file, err := os.Open(path)
	if err != nil {
		return Sums{}, err
	}
	defer func() { _ = file.Close() }()
	sums, err := Hash(ctx, file, progress)
	if err != nil {
		return Sums{}, fmt.Errorf("hash %s: %w", path, err)
	}
	return sums, nil
}
