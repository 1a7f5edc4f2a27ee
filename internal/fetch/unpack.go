package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/npctl/npctl/internal/imagefile"
)

// Compression is the compression of a file.
type Compression string

// The supported compressions. NoCompression is the zero value.
const (
	NoCompression Compression = ""
	Gzip          Compression = "gzip"
	Zstd          Compression = "zstd"
)

// window is the maximum window size of a zstd file: the default of the program zstd. One download uses this much
// memory.
const window = 128 << 20

// PackingOf returns the compression that the extension of an address's path indicates, and the path without that
// extension.
func PackingOf(address string) (Compression, string) {
	switch ending := strings.ToLower(path.Ext(address)); ending {
	case ".zst", ".zstd":
		return Zstd, address[:len(address)-len(ending)]
	case ".gz":
		return Gzip, address[:len(address)-len(ending)]
	}
	return NoCompression, address
}

// layers returns the compressions to remove, outermost first: at most the Content-Encoding of the response and the
// compression of the file, since each decoder needs memory. If both are the same, the file is compressed only once.
func layers(packing Compression, header http.Header) ([]Compression, error) {
	var all []Compression
	for encoding := range strings.SplitSeq(strings.ToLower(strings.Join(header.Values("Content-Encoding"), ",")), ",") {
		switch encoding = strings.TrimSpace(encoding); encoding {
		case "gzip", "x-gzip":
			all = append(all, Gzip)
		case "zstd":
			all = append(all, Zstd)
		case "", "identity":
		default:
			all = append(all, Compression(encoding))
		}
	}
	if len(all) > 1 {
		return nil, fmt.Errorf("the server sends it in %d content encodings; npctl unpacks one", len(all))
	}
	if packing != NoCompression && !slices.Contains(all, packing) {
		all = append(all, packing)
	}
	return all, nil
}

func unpack(from io.Reader, layers []Compression) (io.ReadCloser, error) {
	opened := &unpacker{Reader: from}
	for _, layer := range layers {
		if err := opened.add(layer); err != nil {
			_ = opened.Close()
			return nil, err
		}
	}
	return opened, nil
}

// unpacker reads through layers of compression.
type unpacker struct {
	io.Reader
	closers []func()
}

func (u *unpacker) add(layer Compression) error {
	switch layer {
	case Gzip:
		r, err := gzip.NewReader(u.Reader)
		if err != nil {
			return packingError(layer, err)
		}
		u.closers = append(u.closers, func() { _ = r.Close() })
		u.Reader = withPackingError(layer, r)
	case Zstd:
		// One goroutine: the decoder must not read from its source after a pass has ended.
		r, err := zstd.NewReader(u.Reader, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(window), zstd.WithDecoderLowmem(true))
		if err != nil {
			return packingError(layer, err)
		}
		u.closers = append(u.closers, r.Close)
		u.Reader = withPackingError(layer, r)
	default:
		return fmt.Errorf("the server sends it in the encoding %q, which npctl does not know", layer)
	}
	return nil
}

// Close stops decompression; it does not close the source.
func (u *unpacker) Close() error {
	for _, end := range slices.Backward(u.closers) {
		end()
	}
	return nil
}

func withPackingError(layer Compression, from io.Reader) io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		n, err := from.Read(p)
		if err != nil && err != io.EOF { //nolint:errorlint // io.Reader requires io.EOF itself
			err = packingError(layer, err)
		}
		return n, err
	})
}

func packingError(layer Compression, err error) error {
	switch {
	case errors.Is(err, zstd.ErrWindowSizeExceeded):
		return fmt.Errorf("it was compressed with zstd --long or --ultra and needs over %d MiB of memory; compress it without those options", window>>20)
	case errors.Is(err, zstd.ErrMagicMismatch), errors.Is(err, gzip.ErrHeader):
		return fmt.Errorf("it is not compressed with %s, as its address says", layer)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return fmt.Errorf("the %s data is truncated", layer)
	}
	return fmt.Errorf("unpack %s: %w", layer, err)
}

// sink receives the unpacked bytes: it applies the limit and writes to the checksums and the file.
type sink struct {
	file  *imagefile.SparseWriter
	hash  *imagefile.Hasher
	size  int64
	limit int64
}

func newSink(file *os.File, limit int64) *sink {
	return &sink{file: imagefile.NewSparseWriter(file), hash: imagefile.NewHasher(), limit: limit}
}

// writer also ends with ctx: a small input may decompress to a large output.
func (s *sink) writer(ctx context.Context) io.Writer {
	return writerFunc(func(p []byte) (int, error) {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		if s.size += int64(len(p)); s.size > s.limit {
			return 0, tooLarge("the unpacked file has more than", s.limit, s.limit)
		}
		_, _ = s.hash.Write(p)
		return s.file.Write(p)
	})
}

func (s *sink) finish() error { return s.file.Finish() }
