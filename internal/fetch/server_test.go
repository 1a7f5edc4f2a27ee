package fetch

import (
	"bytes"
	"crypto/md5"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/npctl/npctl/internal/testutil"
)

// server is a file server that can be made to misbehave: each request meets the next of its faults, and none after the
// last.
type server struct {
	*httptest.Server
	mu       sync.Mutex
	file     []byte  // guarded by mu
	etag     string  // guarded by mu
	faults   []fault // guarded by mu
	asked    []string
	modified time.Time
	kind     string
	encoding string
	noRanges bool
}

// fault answers in place of the server, or lets it answer when it returns false.
type fault func(s *server, w http.ResponseWriter, r *http.Request) bool

func serve(t *testing.T, file []byte, faults ...fault) *server {
	t.Helper()
	s := &server{file: file, etag: `"one"`, faults: faults, kind: "application/octet-stream"}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, strings.TrimSpace(r.Header.Get("Range")+" "+r.Header.Get("If-Range")))
	var next fault
	if len(s.faults) > 0 {
		next, s.faults = s.faults[0], s.faults[1:]
	}
	s.mu.Unlock()
	if next == nil || !next(s, w, r) {
		s.answer(w, r)
	}
}

func (s *server) answer(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	file, etag := s.file, s.etag
	s.mu.Unlock()
	w.Header().Set("Content-Type", s.kind)
	if etag != "" {
		w.Header().Set("ETag", etag)
	}
	if s.encoding != "" {
		w.Header().Set("Content-Encoding", s.encoding)
	}
	if s.noRanges {
		r.Header.Del("Range")
	}
	http.ServeContent(w, r, "", s.modified, bytes.NewReader(file))
}

func (s *server) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// cut answers as the server would and breaks the connection after n bytes.
func cut(n int) fault {
	return func(s *server, w http.ResponseWriter, r *http.Request) bool {
		s.answer(&cutter{ResponseWriter: w, left: n}, r)
		return true
	}
}

type cutter struct {
	http.ResponseWriter
	left int
}

func (c *cutter) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p[:min(len(p), c.left)])
	if c.left -= n; err == nil && c.left == 0 {
		_ = http.NewResponseController(c.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	return n, err
}

// changed is cut, after which the server has another file.
func changed(n int, file []byte) fault {
	return func(s *server, w http.ResponseWriter, r *http.Request) bool {
		defer func() {
			s.mu.Lock()
			s.file, s.etag = file, fmt.Sprintf(`"%x"`, md5.Sum(file))
			s.mu.Unlock()
		}()
		return cut(n)(s, w, r)
	}
}

func status(code int, header ...string) fault {
	return func(_ *server, w http.ResponseWriter, _ *http.Request) bool {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		fmt.Fprintln(w, "secret words")
		return true
	}
}

// body answers with what write writes.
func body(write func(w http.ResponseWriter, r *http.Request)) fault {
	return func(_ *server, w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Content-Type", "application/octet-stream")
		write(w, r)
		return true
	}
}

// hang sends n bytes and then nothing until the client has gone.
func hang(n int) fault {
	return func(s *server, w http.ResponseWriter, r *http.Request) bool {
		if n == 0 {
			<-r.Context().Done()
			return true
		}
		w.Header().Set("ETag", s.etag)
		w.Header().Set("Content-Length", strconv.Itoa(len(s.file)))
		_, _ = w.Write(s.file[:n])
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		return true
	}
}

func repeat(n int, f fault) []fault {
	var all []fault
	for range n {
		all = append(all, f)
	}
	return all
}

// quick is a client that loses patience within a test's time.
func quick() Client {
	return Client{Stall: 5 * time.Second, Floor: 1 << 10, Tries: 4, FirstWait: time.Millisecond, LongestWait: 2 * time.Millisecond}
}

func (s *server) request(t *testing.T, path string) Request {
	t.Helper()
	address, err := url.Parse(s.URL + path)
	testutil.Must(t, err)
	packing, _ := PackingOf(address.Path)
	return Request{URL: address, Path: filepath.Join(t.TempDir(), "image.raw"), Compression: packing, Limit: 16 << 20,
		Note: func(text string) { t.Log(text) }}
}

// content is a megabyte and a bit, of which the middle is a hole.
func content() []byte {
	random := rand.NewChaCha8([32]byte{1})
	file := make([]byte, 1<<20+77)
	_, _ = random.Read(file[:300<<10])
	_, _ = random.Read(file[700<<10:])
	return file
}

func zstded(t *testing.T, file []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	testutil.Must(t, err)
	return w.EncodeAll(file, nil)
}

func gzipped(t *testing.T, file []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(file); err != nil {
		t.Fatal(err)
	}
	testutil.Must(t, w.Close())
	return b.Bytes()
}

// checkFile wants the file, or after an error none, and nothing beside it.
func checkFile(t *testing.T, r Request, want []byte) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(r.Path))
	testutil.Must(t, err)
	if want == nil {
		if len(entries) > 0 {
			t.Errorf("left behind: %v", entries)
		}
		return
	}
	if len(entries) != 1 {
		t.Errorf("beside the file there is something: %v", entries)
	}
	got, err := os.ReadFile(r.Path)
	testutil.Must(t, err)
	if !bytes.Equal(got, want) {
		t.Errorf("the file has %d bytes, which differ from the %d of the server", len(got), len(want))
	}
}

// newTLS starts a server with an untrusted certificate.
func newTLS(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}
