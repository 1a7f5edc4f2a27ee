package fetch

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Packing is how a file is compressed.
type Packing string

// Packings that are known. Bare is the zero value.
const (
	Bare Packing = ""
	Gzip Packing = "gzip"
	Zstd Packing = "zstd"
)

// window is how far back a zstd file may refer: what the program zstd writes and reads unless told otherwise. It is the
// memory one download takes.
const window = 128 << 20

// PackingOf tells the packing by the end of an address's path, and returns the path without that end.
func PackingOf(address string) (Packing, string) {
	switch ending := strings.ToLower(path.Ext(address)); ending {
	case ".zst", ".zstd":
		return Zstd, address[:len(address)-len(ending)]
	case ".gz":
		return Gzip, address[:len(address)-len(ending)]
	}
	return Bare, address
}

// layers lists what to unpack, outermost first: at most the one Content-Encoding of the answer and the file's own packing,
// since each decoder takes memory of its own. A server that names the file's packing as its Content-Encoding does not mean
// two of them.
func layers(packing Packing, header http.Header) ([]Packing, error) {
	var all []Packing
	for encoding := range strings.SplitSeq(strings.ToLower(strings.Join(header.Values("Content-Encoding"), ",")), ",") {
		switch encoding = strings.TrimSpace(encoding); encoding {
		case "gzip", "x-gzip":
			all = append(all, Gzip)
		case "zstd":
			all = append(all, Zstd)
		case "", "identity":
		default:
			all = append(all, Packing(encoding))
		}
	}
	if len(all) > 1 {
		return nil, fmt.Errorf("the server sends it in %d content encodings; npctl unpacks one", len(all))
	}
	if packing != Bare && !slices.Contains(all, packing) {
		all = append(all, packing)
	}
	return all, nil
}

func unpack(from io.Reader, layers []Packing) (io.ReadCloser, error) {
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

func (u *unpacker) add(layer Packing) error {
	switch layer {
	case Gzip:
		r, err := gzip.NewReader(u.Reader)
		if err != nil {
			return packingError(layer, err)
		}
		u.closers = append(u.closers, func() { _ = r.Close() })
		u.Reader = explained(layer, r)
	case Zstd:
		// One goroutine: what it reads from must not be read any more when a pass has ended.
		r, err := zstd.NewReader(u.Reader, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(window), zstd.WithDecoderLowmem(true))
		if err != nil {
			return packingError(layer, err)
		}
		u.closers = append(u.closers, r.Close)
		u.Reader = explained(layer, r)
	default:
		return fmt.Errorf("the server sends it in the encoding %q, which npctl does not know", layer)
	}
	return nil
}

// Close ends what unpacks; it does not close what is read from.
func (u *unpacker) Close() error {
	for _, end := range slices.Backward(u.closers) {
		end()
	}
	return nil
}

func explained(layer Packing, from io.Reader) io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		n, err := from.Read(p)
		if err != nil && err != io.EOF { //nolint:errorlint // a wrapped EOF is none
			err = packingError(layer, err)
		}
		return n, err
	})
}

func packingError(layer Packing, err error) error {
	switch {
	case errors.Is(err, zstd.ErrWindowSizeExceeded):
		return fmt.Errorf("it was compressed with zstd --long or --ultra and would take over %d MiB of memory; leave those options out", window>>20)
	case errors.Is(err, zstd.ErrMagicMismatch), errors.Is(err, gzip.ErrHeader):
		return fmt.Errorf("it is not compressed with %s, as its address says", layer)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return fmt.Errorf("it ends in the middle of what %s compressed", layer)
	}
	return fmt.Errorf("unpack %s: %w", layer, err)
}
