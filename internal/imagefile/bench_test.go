package imagefile

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
)

// The size is that of a small image, which fits into the page cache, so that the disk does not affect the results.
const benchSize = 256 << 20

func benchFile(b *testing.B) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "image")
	testutil.Must(b, os.WriteFile(path, pattern(benchSize), 0o600))
	b.SetBytes(benchSize)
	b.ResetTimer()
	return path
}

func open(b *testing.B, path string) *os.File {
	b.Helper()
	file, err := os.Open(path)
	testutil.Must(b, err)
	return file
}

// BenchmarkPlainRead is the baseline.
func BenchmarkPlainRead(b *testing.B) {
	path := benchFile(b)
	buf := make([]byte, chunk)
	for b.Loop() {
		file := open(b, path)
		_, _ = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{file}, buf)
		_ = file.Close()
	}
}

// BenchmarkPlainCopy writes a second file.
func BenchmarkPlainCopy(b *testing.B) {
	path := benchFile(b)
	buf := make([]byte, chunk)
	for b.Loop() {
		from := open(b, path)
		to, err := os.Create(path + ".copy")
		testutil.Must(b, err)
		if _, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, buf); err != nil {
			b.Fatal(err)
		}
		_, _ = from.Close(), to.Close()
	}
}

// BenchmarkCopyAndHash is the same copy with both sums computed on the way.
func BenchmarkCopyAndHash(b *testing.B) {
	path := benchFile(b)
	buf := make([]byte, chunk)
	for b.Loop() {
		from := open(b, path)
		to, err := os.Create(path + ".copy")
		testutil.Must(b, err)
		h := NewHasher()
		if _, err := io.CopyBuffer(io.MultiWriter(to, h), struct{ io.Reader }{from}, buf); err != nil {
			b.Fatal(err)
		}
		h.Sums()
		_, _ = from.Close(), to.Close()
	}
}

func BenchmarkHashFile(b *testing.B) {
	path := benchFile(b)
	for b.Loop() {
		if _, err := HashFile(b.Context(), path, nil); err != nil {
			b.Fatal(err)
		}
	}
}
