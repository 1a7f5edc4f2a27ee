// Package imagefile reads and writes image files: large, mostly zero, and worthless when one byte is wrong. It hashes
// them while their bytes pass by, keeps their holes, and gives a file its final name only when it is complete.
package imagefile

import (
	"context"
	"crypto/md5" //nolint:gosec // clouds ask for it; it guards against accidents, sha256 against the rest
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"
)

// Sums is what is known of a file's content. MD5 is what Glance shows as a checksum.
type Sums struct {
	Size   int64
	SHA256 string // hex
	MD5    string // hex
}

// chunk is how many bytes are handed from one goroutine to another at a time: large enough that handing over costs
// nothing, small enough that all buffers of a Hasher fit into a cache.
const chunk = 256 << 10

// buffers is how far a writer may run ahead of the slower hash.
const buffers = 4

// Hasher computes the sums of what is written to it, each in a goroutine of its own, while the writer goes on to fetch
// the next bytes. Sums or Close must be called, since they end the goroutines.
type Hasher struct {
	lanes [2]lane
	fill  []byte // not handed out yet
	size  int64
	ended bool
}

// lane is one hash with its goroutine. Both lanes get every chunk; a chunk's buffer is used again after both are done.
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

// Write implements io.Writer; it keeps nothing of p and never fails.
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

// buffer waits for a chunk that both hashes are done with. Each lane hands chunks back in the order it got them, so the
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

// Sums ends the hashing and returns what was written.
func (h *Hasher) Sums() Sums {
	h.Close()
	return Sums{
		Size:   h.size,
		SHA256: hex.EncodeToString(h.lanes[0].hash.Sum(nil)),
		MD5:    hex.EncodeToString(h.lanes[1].hash.Sum(nil)),
	}
}

// Close ends the goroutines. A second call does nothing.
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

// Hash reads everything and returns its sums. Progress, when not nil, is told the bytes read so far.
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
