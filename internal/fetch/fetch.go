// Package fetch downloads large files over HTTP: in one pass through decompression and checksums into a sparse file,
// gone on with where an interruption stopped it.
//
// Rules:
//
//  1. Bytes are added to what is there only when it is sure that they belong to the same file: the server confirmed a
//     strong validator (RFC 9110, 13.1.5). In any other case the file is fetched from its beginning.
//  2. Everything has a limit: sizes before and after decompression, the time without bytes, the number of tries that
//     got nowhere, the number of redirects.
//  3. No message shows more of an address than scheme, host and path: the rest may hold passwords and signatures.
package fetch

import (
	"bufio"
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

// Client downloads. Zero fields have defaults.
type Client struct {
	HTTP *http.Client // NewClient(nil) when nil
	// Stall is how long a server may take to answer, or to send Floor bytes; then the connection is given up.
	Stall time.Duration // 1 minute
	Floor int64         // 64 KiB
	// Tries is how often in a row it may go wrong without Floor new bytes.
	Tries int // 10
	// FirstWait is the time before the second try. It grows up to LongestWait.
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
	if c.Floor == 0 {
		c.Floor = 64 << 10
	}
	if c.Tries == 0 {
		c.Tries = 10
	}
	return c
}

// Request is a file to fetch.
type Request struct {
	URL     *url.URL // http or https
	Path    string   // the file to make, absolute; while it is incomplete it has imagefile.PartSuffix
	Packing Packing  // what to unpack
	Limit   int64    // most bytes of the file, as sent and as unpacked
	// SHA256 and MD5 are what the unpacked file has to have, in hex; empty when not known.
	SHA256, MD5 string
	// Progress, when set, is told the bytes that came, and how many there are or 0. It may fall back to 0.
	Progress func(done, total int64)
	// Note, when set, is told of interruptions.
	Note func(text string)
}

// Result is a file that was fetched.
type Result struct {
	imagefile.Sums       // of the unpacked file
	Sent           int64 // bytes of the file as sent
	Interrupted    int   // how often the connection was lost
	Restarted      int   // how often the file was fetched from its beginning again
}

// Download fetches a file. After an error there is no file, whole or partial.
func (c Client) Download(ctx context.Context, r Request) (Result, error) {
	result, err := c.withDefaults().download(ctx, r)
	if err != nil {
		err = errors.Join(err, imagefile.Discard(r.Path))
		return Result{}, fmt.Errorf("fetch %s: %w", Shown(r.URL), err)
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

// pass fetches the file from its beginning.
func pass(ctx context.Context, r Request, s *stream) (sums imagefile.Sums, err error) {
	file, err := os.OpenFile(imagefile.PartName(r.Path), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return sums, err
	}
	sink := newSink(file, r.Limit)
	defer sink.hash.Close()
	err = errors.Join(fill(ctx, r, s, sink), file.Close())
	if s.err != nil { // what happened first; the rest follows from it
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
	if err := s.checkRoom(filepath.Dir(r.Path)); err != nil {
		return s.fail(err)
	}
	if err := checkHead(s.header, head); err != nil {
		return err
	}
	layers, err := layers(r.Packing, s.header)
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
	// Whatever unpacks may stop before the end of what was sent.
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

// checkHead knows a web page, which servers like to send with status 200 when something is wrong.
func checkHead(header http.Header, head []byte) error {
	start := strings.ToLower(strings.TrimLeft(strings.TrimPrefix(string(head), "\ufeff"), " \t\r\n"))
	page := strings.HasPrefix(start, "<!doctype") || strings.HasPrefix(start, "<html")
	if kind, _, _ := strings.Cut(header.Get("Content-Type"), ";"); page || strings.EqualFold(strings.TrimSpace(kind), "text/html") {
		return ErrWebPage
	}
	if len(head) == 0 {
		return errors.New("the file is empty")
	}
	return nil
}

// compare holds the file against the sums it has to have.
func compare(got imagefile.Sums, r Request) error {
	for _, sum := range []struct{ kind, got, want string }{{"sha256", got.SHA256, r.SHA256}, {"md5", got.MD5, r.MD5}} {
		if sum.want != "" && !strings.EqualFold(sum.got, sum.want) {
			return &SumError{Kind: sum.kind, Got: sum.got, Want: strings.ToLower(sum.want)}
		}
	}
	return nil
}
