// Package fetch downloads large files over HTTP: in one pass through decompression and checksums into a sparse file. It
// resumes interrupted downloads.
//
// Rules:
//
//  1. Bytes are appended only if they certainly belong to the same file: the server confirmed a strong validator
//     (RFC 9110, 13.1.5). Otherwise the download starts from the beginning.
//  2. Everything has a limit: sizes before and after decompression, the time without bytes, the number of attempts
//     without progress, the number of redirects.
//  3. Messages show only scheme, host and path of an address: the rest may contain passwords and signatures.
package fetch

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/npctl/npctl/internal/imagefile"
)

// Client downloads files. Zero fields have defaults.
type Client struct {
	HTTP *http.Client // NewClient(nil) when nil
	// Stall is the time that a server may take to respond, or to send Floor bytes; after it the connection is closed.
	Stall time.Duration // 1 minute
	Floor int64         // 64 KiB
	// Tries is the number of consecutive failures without Floor new bytes.
	Tries int // 10
	// FirstWait is the time before the first retry. It grows up to LongestWait.
	FirstWait   time.Duration // 1 second
	LongestWait time.Duration // 1 minute
}

func (c Client) withDefaults() Client {
	if c.HTTP == nil {
		c.HTTP = NewClient(NewTransport(nil))
	}
	for _, d := range []struct {
		value *time.Duration
		usual time.Duration
	}{{&c.Stall, time.Minute}, {&c.FirstWait, time.Second}, {&c.LongestWait, time.Minute}} {
		if *d.value == 0 {
			*d.value = d.usual
		}
	}
	c.Floor = cmp.Or(c.Floor, 64<<10)
	c.Tries = cmp.Or(c.Tries, 10)
	return c
}

// Request is a file to download.
type Request struct {
	URL         *url.URL    // http or https
	Path        string      // absolute path of the result; while incomplete it has imagefile.PartSuffix
	Compression Compression // compression to remove
	Limit       int64       // maximum size in bytes, both compressed and uncompressed
	// SHA256 and MD5 are the expected sums of the unpacked file in hex; empty when unknown.
	SHA256, MD5 string
	// Progress, if not nil, receives the number of bytes received, and the total or 0. The number may fall back to 0.
	Progress func(done, total int64)
	// Note, if not nil, receives a description of each interruption.
	Note func(text string)
}

// Result describes a downloaded file.
type Result struct {
	imagefile.Sums       // of the unpacked file
	Sent           int64 // bytes of the file as sent
	Interrupted    int   // number of lost connections
	Restarted      int   // number of restarts from the beginning
}

// Download downloads a file. After an error there is no file, complete or partial.
func (c Client) Download(ctx context.Context, r Request) (Result, error) {
	result, err := c.withDefaults().download(ctx, r)
	if err != nil {
		err = errors.Join(err, imagefile.Discard(r.Path))
		return Result{}, fmt.Errorf("fetch %s: %w", Redacted(r.URL), err)
	}
	return result, nil
}

func (c Client) download(ctx context.Context, r Request) (Result, error) {
	if err := checkAddress(r.URL); err != nil {
		return Result{}, err
	}
	s := newStream(c, r)
	defer s.drop()
	for {
		sums, err := pass(ctx, r, s)
		if errors.Is(err, errRestart) {
			continue
		}
		if err != nil {
			return Result{}, err
		}
		result := Result{Sums: sums, Sent: s.at, Interrupted: s.interrupted, Restarted: s.restarted}
		return result, imagefile.Publish(r.Path)
	}
}

// pass downloads the file from its beginning.
func pass(ctx context.Context, r Request, s *stream) (sums imagefile.Sums, err error) {
	file, err := os.OpenFile(imagefile.PartName(r.Path), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return sums, err
	}
	sink := newSink(file, r.Limit)
	defer sink.hash.Close()
	err = errors.Join(fill(ctx, r, s, sink), file.Close())
	if s.err != nil { // the first error; the others result from it
		return sums, s.err
	}
	if err != nil {
		return sums, err
	}
	sums = sink.hash.Sums()
	return sums, compare(sums, r)
}

func fill(ctx context.Context, r Request, s *stream, to *sink) error {
	body := bufio.NewReaderSize(readerFunc(func(p []byte) (int, error) { return s.read(ctx, p) }), bufferSize)
	head, err := body.Peek(headSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := s.checkSpace(filepath.Dir(r.Path)); err != nil {
		return s.fail(err)
	}
	if err := checkHead(s.header, head); err != nil {
		return err
	}
	layers, err := layers(r.Compression, s.header)
	if err != nil {
		return err
	}
	unpacked, err := unpack(body, layers)
	if err != nil {
		return err
	}
	defer func() { _ = unpacked.Close() }()
	if _, err := io.CopyBuffer(to.writer(ctx), struct{ io.Reader }{unpacked}, make([]byte, bufferSize)); err != nil {
		return err
	}
	// A decompressor may stop before the end of the body.
	if n, err := io.Copy(io.Discard, body); err != nil || n > 0 {
		return errors.Join(err, fmt.Errorf("%d bytes follow after the end of the compressed file", n))
	}
	return to.finish()
}

const (
	bufferSize = 256 << 10
	headSize   = 512
)

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// checkHead detects a web page, which servers often send with status 200 on errors.
func checkHead(header http.Header, head []byte) error {
	start := strings.ToLower(strings.TrimLeft(strings.TrimPrefix(string(head), "\ufeff"), " \t\r\n"))
	page := strings.HasPrefix(start, "<!doctype") || strings.HasPrefix(start, "<html")
	if kind, _, _ := strings.Cut(header.Get("Content-Type"), ";"); page || strings.EqualFold(strings.TrimSpace(kind), "text/html") {
		return errWebPage
	}
	if len(head) == 0 {
		return errors.New("the file is empty")
	}
	return nil
}

// compare compares the file with the expected sums.
func compare(got imagefile.Sums, r Request) error {
	for _, sum := range []struct{ kind, got, want string }{{"sha256", got.SHA256, r.SHA256}, {"md5", got.MD5, r.MD5}} {
		if sum.want != "" && !strings.EqualFold(sum.got, sum.want) {
			return &sumError{Kind: sum.kind, Got: sum.got, Want: strings.ToLower(sum.want)}
		}
	}
	return nil
}
