package fetch

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/npctl/npctl/internal/testutil"
)

// benchContent returns an image of 256 MiB: one third is data that compresses to half, the rest is zeros.
func benchContent() []byte {
	file := make([]byte, 256<<20)
	seed := content()
	for at := 0; at < len(file)/3; at += 2 << 10 {
		copy(file[at:at+1<<10], seed[(at*7)%(200<<10):])
		file[at], file[at+1] = byte(at>>10), byte(at>>18)
	}
	return file
}

func benchDownload(b *testing.B, path string, sent []byte, size int) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = io.Copy(w, bytes.NewReader(sent))
	}))
	defer s.Close()
	address, err := url.Parse(s.URL + path)
	testutil.Must(b, err)
	packing, _ := PackingOf(path)
	file := filepath.Join(b.TempDir(), "image")
	b.SetBytes(int64(size))
	for b.Loop() {
		if _, err := quick().Download(b.Context(), Request{URL: address, Path: file, Compression: packing, Limit: 1 << 30}); err != nil {
			b.Fatal(err)
		}
		_ = os.Remove(file)
	}
}

func BenchmarkDownloadBare(b *testing.B) {
	file := benchContent()
	benchDownload(b, "/image.raw", file, len(file))
}

func BenchmarkDownloadZstd(b *testing.B) {
	file := benchContent()
	w, err := zstd.NewWriter(nil)
	testutil.Must(b, err)
	sent := w.EncodeAll(file, nil)
	benchDownload(b, "/image.raw.zst", sent, len(file))
}
