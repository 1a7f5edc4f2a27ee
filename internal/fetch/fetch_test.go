package fetch

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/npctl/npctl/internal/imagefile"
	"github.com/npctl/npctl/internal/testutil"
)

func sums(file []byte) imagefile.Sums {
	s, m := sha256.Sum256(file), md5.Sum(file)
	return imagefile.Sums{Size: int64(len(file)), SHA256: hex.EncodeToString(s[:]), MD5: hex.EncodeToString(m[:])}
}

func TestFileIsFetchedUnpackedAndSummed(t *testing.T) {
	file := content()
	for _, test := range []struct {
		name, path, encoding string
		sent                 []byte
	}{
		{"bare", "/image.raw", "", file},
		{"zstd", "/image.raw.zst", "", zstded(t, file)},
		{"two zstd frames", "/image.raw.zst", "", append(zstded(t, file[:1000]), zstded(t, file[1000:])...)},
		{"gzip", "/image.raw.gz", "", gzipped(t, file)},
		{"gzip in capitals, with a query", "/image.raw.GZ?sig=x.raw", "", gzipped(t, file)},
		{"gzip by extension and header", "/image.raw.gz", "gzip", gzipped(t, file)},
		{"encoding of the server", "/image.raw", "gzip", gzipped(t, file)},
		{"encoding around it", "/image.raw.zst", "x-gzip", gzipped(t, zstded(t, file))},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := serve(t, test.sent)
			s.encoding = test.encoding
			r := s.request(t, test.path)
			want := sums(file)
			r.SHA256, r.MD5 = strings.ToUpper(want.SHA256), want.MD5
			var done, total int64
			r.Progress = func(d, of int64) { done, total = d, of }
			got, err := quick().Download(t.Context(), r)
			testutil.Must(t, err)
			checkFile(t, r, file)
			// net/http/httptest sends no length when an encoding is set.
			if diff := cmp.Diff(Result{Sums: want, Sent: int64(len(test.sent))}, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			if done != int64(len(test.sent)) || total != done && test.encoding == "" {
				t.Errorf("progress ended with %d of %d, want %d", done, total, len(test.sent))
			}
		})
	}
}

func TestHolesStayHoles(t *testing.T) {
	file := make([]byte, 8<<20)
	file[0], file[len(file)-1] = 1, 1
	s := serve(t, zstded(t, file))
	r := s.request(t, "/image.zst")
	if _, err := quick().Download(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(r.Path)
	testutil.Must(t, err)
	if taken := info.Sys().(*syscall.Stat_t).Blocks * 512; taken > 1<<20 || info.Size() != int64(len(file)) {
		t.Errorf("a file of %d bytes, nearly all zero, takes %d of %d", len(file), taken, info.Size())
	}
}

func TestInterruptedDownloadResumes(t *testing.T) {
	file := content()
	packed := zstded(t, file)
	s := serve(t, packed, cut(100_000), status(503), cut(200_000), hang(0), cut(3))
	r := s.request(t, "/image.zst")
	c := quick()
	c.Stall = time.Second // one response hangs; no other may look like it
	got, err := c.Download(t.Context(), r)
	testutil.Must(t, err)
	checkFile(t, r, file)
	if want := (Result{Sums: sums(file), Sent: int64(len(packed)), Interrupted: 5}); got != want {
		t.Errorf("result is %+v, want %+v", got, want)
	}
	if want := []string{"", `bytes=100000- "one"`, `bytes=100000- "one"`, `bytes=300000- "one"`, `bytes=300000- "one"`, `bytes=300003- "one"`}; !slices.Equal(s.requests(), want) {
		t.Errorf("requests were %q, want %q", s.requests(), want)
	}
}

func TestDownloadResumesOnlyFromTheSameFile(t *testing.T) {
	file := content()
	other := append([]byte("another"), file...)
	for _, test := range []struct {
		name   string
		faults []fault
		with   func(*server)
		want   []byte
		asked  []string
	}{
		{"no ranges", []fault{cut(5000)}, func(s *server) { s.noRanges = true }, file, []string{"", `bytes=5000- "one"`, ""}},
		{"other file", []fault{changed(5000, other)}, nil, other, []string{"", `bytes=5000- "one"`, ""}},
		{"file that became shorter", []fault{changed(5000, file[:4000])}, nil, file[:4000], []string{"", `bytes=5000- "one"`, ""}},
		{"no validator", []fault{cut(5000)}, func(s *server) { s.etag = "" }, file, []string{"", ""}},
		{"weak validator", []fault{cut(5000)}, func(s *server) { s.etag = `W/"x"` }, file, []string{"", ""}},
		{"changed a moment ago", []fault{cut(5000)}, func(s *server) { s.etag, s.modified = "", time.Now().Add(time.Hour) }, file, []string{"", ""}},
		{"by its time", []fault{cut(5000)}, func(s *server) { s.etag, s.modified = "", time.Unix(1e9, 0) }, file,
			[]string{"", "bytes=5000- Sun, 09 Sep 2001 01:46:40 GMT"}},
		{"another etag on the rest", []fault{cut(5000), body(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"three"`)
			w.Header().Set("Content-Range", fmt.Sprintf("bytes 5000-%d/%d", len(file)-1, len(file)))
			w.WriteHeader(http.StatusPartialContent)
		})}, nil, file, []string{"", `bytes=5000- "one"`, ""}},
		{"another length of the rest", []fault{cut(5000), body(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes 5000-%d/%d", len(file), len(file)+1))
			w.WriteHeader(http.StatusPartialContent)
		})}, nil, file, []string{"", `bytes=5000- "one"`, ""}},
		{"another part than the rest", []fault{cut(5000), body(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes 4999-%d/%d", len(file)-1, len(file)))
			w.WriteHeader(http.StatusPartialContent)
		})}, nil, file, []string{"", `bytes=5000- "one"`, ""}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := serve(t, file, test.faults...)
			if test.with != nil {
				test.with(s)
			}
			r := s.request(t, "/image.raw")
			got, err := quick().Download(t.Context(), r)
			testutil.Must(t, err)
			checkFile(t, r, test.want)
			if got.Sums != sums(test.want) {
				t.Errorf("sums are %+v, want %+v", got.Sums, sums(test.want))
			}
			if !slices.Equal(s.requests(), test.asked) {
				t.Errorf("requests were %q, want %q", s.requests(), test.asked)
			}
		})
	}
}

func TestDownloadMayResumeSeveralTimes(t *testing.T) {
	file := content()[:20_000]
	piece := func(_ *server, w http.ResponseWriter, r *http.Request) bool {
		var from int
		if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from); err != nil {
			t.Errorf("range is %q", r.Header.Get("Range"))
		}
		end := min(from+4000, len(file))
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, end-1, len(file)))
		w.WriteHeader(http.StatusPartialContent)
		_, _ = w.Write(file[from:end])
		return true
	}
	s := serve(t, file, append([]fault{cut(5000)}, repeat(4, piece)...)...)
	r := s.request(t, "/image.raw")
	if _, err := quick().Download(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	checkFile(t, r, file)
	if n := len(s.requests()); n != 5 {
		t.Errorf("requests were %q, want one and four pieces", s.requests())
	}
}

func TestBadAnswersAreErrors(t *testing.T) {
	file := content()
	bomb := zstded(t, make([]byte, 20<<20))
	for _, test := range []struct {
		name, path string
		fault      fault
		is         error
		want       string
	}{
		{"not there", "/x", status(404), ErrGone, "404 Not Found"},
		{"gone", "/x", status(410), ErrGone, "410 Gone"},
		{"forbidden", "/x", status(403), nil, "the server refuses (403 Forbidden); npctl downloads files without credentials"},
		{"odd", "/x", status(418), nil, "the server answers 418"},
		{"page by type", "/x", func(s *server, w http.ResponseWriter, r *http.Request) bool {
			s.kind = "text/html; charset=utf-8"
			return false
		}, errWebPage, ""},
		{"page by content", "/x", body(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "\ufeff\n <!DOCTYPE html><html>") }), errWebPage, ""},
		{"page for a compressed file", "/x.zst", body(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<HTML>") }), errWebPage, ""},
		{"empty", "/x", body(func(http.ResponseWriter, *http.Request) {}), nil, "the file is empty"},
		{"declared too large", "/x", body(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "17000000") }),
			ErrTooLarge, "it has 16.2 MiB, and the limit is 16.0 MiB"},
		{"endless", "/x", body(endless), ErrTooLarge, "it has more than 16.0 MiB"},
		{"endless and compressed", "/x.zst", body(endlessFrames), ErrTooLarge, "it has more than 16.0 MiB"},
		{"bomb", "/x.zst", body(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(bomb) }), ErrTooLarge, "the unpacked file has more than 16.0 MiB"},
		{"gzip bomb", "/x.gz", body(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(gzipped(t, make([]byte, 20<<20))) }),
			ErrTooLarge, "the unpacked file has more than 16.0 MiB"},
		{"not zstd", "/x.zst", body(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(file) }), nil, "not compressed with zstd, as its address says"},
		{"not gzip", "/x.gz", body(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(file) }), nil, "not compressed with gzip, as its address says"},
		{"half of zstd", "/x.zst", body(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(zstded(t, file)[:9000]) }), nil, "the zstd data is truncated"},
		{"half of gzip", "/x.gz", body(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(gzipped(t, file)[:9000]) }), nil, "the gzip data is truncated"},
		{"large window", "/x.zst", body(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa8, 0x09, 0, 0}) // a window of 2 GiB
		}), nil, "needs over 128 MiB of memory"},
		{"unknown encoding", "/x", func(s *server, w http.ResponseWriter, r *http.Request) bool { s.encoding = "br"; return false }, nil, `encoding "br"`},
		{"no end to be seen", "/x", body(unframed), nil, "npctl could not detect a truncated file"},
		{"redirect to a file", "/x", status(302, "Location", "file:///etc/passwd?secret"), nil, "redirects to file:///etc/passwd?…, which is not a web address"},
		{"redirect without end", "/x", status(302, "Location", "/x"), nil, "redirects more than 5 times"},
		{"redirect that cannot be read", "/x", status(302, "Location", "http://[secret"), nil, "redirects to an address that cannot be read"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := serve(t, file, repeat(7, test.fault)...)
			r := s.request(t, test.path+"?secret=1#secret")
			_, err := quick().Download(t.Context(), r)
			if err == nil || test.is != nil && !errors.Is(err, test.is) || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("error is %v, want %v and %q", err, test.is, test.want)
			}
			if !strings.HasPrefix(err.Error(), "fetch "+s.URL+test.path+"?…: ") || strings.Contains(err.Error(), "secret") {
				t.Errorf("error is %v, which tells too little or too much of the address", err)
			}
			if n := len(s.requests()); n != 1 && !strings.Contains(test.name, "redirect") {
				t.Errorf("it was asked for %d times: %q", n, s.requests())
			}
			checkFile(t, r, nil)
		})
	}
}

func endless(w http.ResponseWriter, r *http.Request) {
	chunk := bytes.Repeat([]byte("x"), 64<<10)
	for r.Context().Err() == nil {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}

// endlessFrames sends empty zstd frames.
func endlessFrames(w http.ResponseWriter, r *http.Request) {
	frame := append([]byte{0x50, 0x2a, 0x4d, 0x18, 0, 0, 1, 0}, make([]byte, 1<<16)...)
	for r.Context().Err() == nil {
		if _, err := w.Write(frame); err != nil {
			return
		}
	}
}

// unframed responds with HTTP/1.0 without a length.
func unframed(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	fmt.Fprint(conn, "HTTP/1.0 200 OK\r\nContent-Type: application/octet-stream\r\n\r\nhalf of it")
	_ = conn.Close()
}

func TestWrongChecksumNamesBoth(t *testing.T) {
	file := content()
	have := sums(file)
	for _, test := range []struct{ kind, got string }{{"sha256", have.SHA256}, {"md5", have.MD5}} {
		s := serve(t, file)
		r := s.request(t, "/image.raw")
		other := strings.Repeat("0", len(test.got))
		if test.kind == "md5" {
			r.MD5 = other
		} else {
			r.SHA256 = other
		}
		_, err := quick().Download(t.Context(), r)
		var wrong *sumError
		if !errors.As(err, &wrong) || *wrong != (sumError{test.kind, test.got, other}) {
			t.Errorf("error is %v, want wrong %s %s", err, test.kind, test.got)
		}
		checkFile(t, r, nil)
	}
}

func TestDownloadRetriesAreLimited(t *testing.T) {
	file := content()
	slow := func(_ *server, w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("ETag", `"one"`)
		w.Header().Set("Content-Length", "1000000")
		if r.Header.Get("Range") != "" {
			w.Header().Set("Content-Range", "bytes "+strings.TrimPrefix(r.Header.Get("Range"), "bytes=")+"999999/1000000")
			w.Header().Del("Content-Length")
			w.WriteHeader(http.StatusPartialContent)
		}
		for r.Context().Err() == nil {
			_, _ = w.Write([]byte("x"))
			_ = http.NewResponseController(w).Flush()
			time.Sleep(time.Millisecond)
		}
		return true
	}
	longer := body(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "2000")
		_, _ = w.Write(file[:1999])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	for _, test := range []struct {
		name  string
		fault fault
		want  string
	}{
		{"errors", status(500), "gave up after 4 tries without progress, at 0 bytes: the server answers 500 Internal Server Error"},
		{"silence", hang(0), "no answer within 250ms"},
		{"silence in the middle", hang(100), "no bytes for 250ms"},
		{"trickle", slow, " in "},
		{"shorter than it says", longer, "without progress, at 2.0 KiB of 2.0 KiB: unexpected EOF"},
		{"cut again and again, without ranges", func(s *server, w http.ResponseWriter, r *http.Request) bool {
			s.noRanges = true
			return cut(90_000)(s, w, r)
		}, "without progress, at 87.9 KiB of 1.0 MiB: unexpected EOF"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := serve(t, file, repeat(50, test.fault)...)
			r := s.request(t, "/image.raw")
			c := quick()
			if strings.HasPrefix(test.name, "silence") || test.name == "trickle" {
				c.Stall = 250 * time.Millisecond
			}
			if test.name == "trickle" {
				c.Floor = 1 << 20
			}
			_, err := c.Download(t.Context(), r)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "gave up after 4 tries") {
				t.Fatalf("error is %v, want %q", err, test.want)
			}
			if n := len(s.requests()); n > 9 {
				t.Errorf("it was asked for %d times", n)
			}
			checkFile(t, r, nil)
		})
	}
}

func TestUnreachableServerIsRetried(t *testing.T) {
	s := serve(t, nil)
	r := s.request(t, "/x")
	s.Close()
	notes := 0
	r.Note = func(string) { notes++ }
	_, err := quick().Download(t.Context(), r)
	if err == nil || !strings.Contains(err.Error(), "connection refused") || notes != 3 {
		t.Errorf("error is %v after %d notes", err, notes)
	}
}

func TestUnknownCertificateIsNotRetried(t *testing.T) {
	s := serve(t, content())
	s.Close()
	s.Server = newTLS(t, s)
	_, err := quick().Download(t.Context(), s.request(t, "/x"))
	if err == nil || !strings.Contains(err.Error(), "certificate") || strings.Contains(err.Error(), "gave up") {
		t.Errorf("error is %v", err)
	}
}

func TestRedirectsKeepTheirProtection(t *testing.T) {
	file := content()
	plain := serve(t, file)
	var to string
	secure := newTLS(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/from" {
			http.Redirect(w, r, to, http.StatusFound)
			return
		}
		if r.Referer() != "" {
			t.Errorf("Referer of a redirect is %s, want none", r.Referer())
		}
		plain.answer(w, r)
	}))
	pool := x509.NewCertPool()
	pool.AddCert(secure.Certificate())
	c := quick()
	c.HTTP = NewClient(NewTransport(&tls.Config{RootCAs: pool}))
	defer c.HTTP.CloseIdleConnections()
	for _, test := range []struct{ from, to, want string }{
		{secure.URL, secure.URL + "/to", ""},
		{secure.URL, plain.URL + "/to?sig=secret", "the server redirects from https to " + plain.URL + "/to?…, which is not encrypted"},
	} {
		to = test.to
		r := plain.request(t, "/")
		r.URL, _ = url.Parse(test.from + "/from?sig=secret")
		_, err := c.Download(t.Context(), r)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("to %s: error is %v, want %q", test.to, err, test.want)
		}
	}
	if len(plain.requests()) > 0 {
		t.Errorf("the unprotected server was asked for %q", plain.requests())
	}
}

func TestRetryAfterOfServerIsRespected(t *testing.T) {
	var c transientError
	for _, test := range []struct {
		header string
		want   time.Duration
	}{{"", 0}, {"17", 17 * time.Second}, {"-1", 0}, {"99999999999", 0}, {"soon", 0}, {"Sun, 09 Sep 2001 01:46:40 GMT", 0}} {
		if c.wait = RetryAfter(http.Header{"Retry-After": {test.header}}); c.wait != test.want {
			t.Errorf("Retry-After %q is %s, want %s", test.header, c.wait, test.want)
		}
	}
	future := time.Now().Add(time.Minute).UTC().Format(http.TimeFormat)
	if wait := RetryAfter(http.Header{"Retry-After": {future}}); wait < 50*time.Second || wait > time.Minute {
		t.Errorf("Retry-After in a minute is %s", wait)
	}
	s := serve(t, content(), status(429, "Retry-After", "1"))
	began := time.Now()
	if _, err := quick().Download(t.Context(), s.request(t, "/x")); err != nil || time.Since(began) < time.Second {
		t.Errorf("error %v after %s", err, time.Since(began))
	}
}

func TestEndedContextStopsDownload(t *testing.T) {
	why := errors.New("the operator pressed ^C")
	for name, faults := range map[string][]fault{
		"while it comes":      {hang(5000)},
		"while nothing comes": {hang(0)},
		"between tries":       repeat(3, status(500, "Retry-After", "100")),
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			s := serve(t, content(), faults...)
			r := s.request(t, "/x")
			time.AfterFunc(50*time.Millisecond, func() { cancel(why) })
			_, err := quick().Download(ctx, r)
			if !errors.Is(err, why) {
				t.Errorf("error is %v", err)
			}
			checkFile(t, r, nil)
		})
	}
}

// A few bytes may decompress to so much data that it takes minutes, during which only the sink checks the context.
func TestEndedContextStopsUnpacking(t *testing.T) {
	why := errors.New("the operator pressed ^C")
	ctx, cancel := context.WithCancelCause(t.Context())
	file, err := os.Create(filepath.Join(t.TempDir(), "image"))
	testutil.Must(t, err)
	defer file.Close()
	to := newSink(file, 1<<20)
	defer to.hash.Close()
	if _, err := to.writer(ctx).Write(make([]byte, 10)); err != nil {
		t.Error(err)
	}
	cancel(why)
	if _, err := to.writer(ctx).Write(make([]byte, 10)); !errors.Is(err, why) {
		t.Errorf("error is %v", err)
	}
}

func TestAddressMustBeHTTP(t *testing.T) {
	s := serve(t, nil)
	for _, scheme := range []string{"file", "ftp", "swift", ""} {
		r := s.request(t, "/x")
		r.URL.Scheme = scheme
		if _, err := quick().Download(t.Context(), r); err == nil || !strings.Contains(err.Error(), "not a web address") {
			t.Errorf("scheme %q: error is %v", scheme, err)
		}
	}
	if len(s.requests()) > 0 {
		t.Errorf("requests were made: %q", s.requests())
	}
}

func TestCompressionFollowsFileExtension(t *testing.T) {
	for address, want := range map[string]struct {
		packing Compression
		rest    string
	}{
		"/a/b.raw.zst": {Zstd, "/a/b.raw"}, "/b.qcow2.gz": {Gzip, "/b.qcow2"}, "/b.ZSTD": {Zstd, "/b"},
		"/b.raw": {NoCompression, "/b.raw"}, "/zst": {NoCompression, "/zst"}, "": {NoCompression, ""}, "/a.zst/b": {NoCompression, "/a.zst/b"},
	} {
		if packing, rest := PackingOf(address); packing != want.packing || rest != want.rest {
			t.Errorf("%q is %q and %q, want %q and %q", address, packing, rest, want.packing, want.rest)
		}
	}
}

// However often a download is interrupted and its file changes, the result is one complete file of the server.
func TestInterruptedDownloadsAreComplete(t *testing.T) {
	file := content()[:200_000]
	rapid.Check(t, func(rt *rapid.T) {
		var faults []fault
		files := [][]byte{file}
		for range rapid.IntRange(0, 4).Draw(rt, "faults") {
			at := rapid.IntRange(1, 199_000).Draw(rt, "at")
			switch rapid.IntRange(0, 3).Draw(rt, "fault") {
			case 0:
				faults = append(faults, cut(at))
			case 1:
				other := slices.Clone(file)
				other[at] ^= 0xff
				files = append(files, other)
				faults = append(faults, changed(at, other))
			case 2:
				faults = append(faults, status(502))
			case 3:
				faults = append(faults, func(s *server, w http.ResponseWriter, r *http.Request) bool {
					r.Header.Del("Range")
					return cut(at)(s, w, r)
				})
			}
		}
		s := serve(t, file, faults...)
		r := s.request(t, "/x")
		r.Note = nil
		c := quick()
		c.Tries = 10
		got, err := c.Download(t.Context(), r)
		testutil.Must(rt, err)
		content, err := os.ReadFile(r.Path)
		testutil.Must(rt, err)
		if !slices.ContainsFunc(files, func(f []byte) bool { return bytes.Equal(f, content) }) || got.Sums != sums(content) {
			rt.Fatalf("a file of %d bytes that the server never had, %+v", len(content), got)
		}
		s.Close()
	})
}

func FuzzContentRange(f *testing.F) {
	f.Add("bytes 100-199/200")
	f.Add("bytes 100-199/*")
	f.Add("bytes */200")
	f.Fuzz(func(t *testing.T, text string) {
		from, size, err := contentRange(text)
		if err == nil && (from < 0 || size >= 0 && from >= size) {
			t.Errorf("%q begins at %d of %d", text, from, size)
		}
	})
}

func TestOneContentEncodingIsUnpacked(t *testing.T) {
	file := content()
	for _, test := range []struct{ encoding, want string }{
		{"gzip", ""},
		{"identity, gzip", ""},
		{"gzip, gzip", "sends it in 2 content encodings"},
		{"zstd, gzip", "sends it in 2 content encodings"},
		{strings.Repeat("zstd,", 250), "sends it in 250 content encodings"},
	} {
		s := serve(t, gzipped(t, file))
		s.encoding = test.encoding
		r := s.request(t, "/image.raw")
		_, err := quick().Download(t.Context(), r)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%.40s: error is %v, want %q", test.encoding, err, test.want)
		}
		if test.want == "" {
			checkFile(t, r, file)
		}
	}
}
