package openstack

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/imagefile"
	"github.com/npctl/npctl/internal/testutil"
)

// benchSize is the size of a small image, which fits into the page cache, so that the disk does not affect the
// results.
const benchSize = 512 << 20

// benchFile returns an image and its sums, as after a build.
func benchFile(b *testing.B) (string, imagefile.Sums) {
	b.Helper()
	path := filepath.Join(b.TempDir(), "image.raw")
	content := make([]byte, benchSize)
	for i := range content {
		content[i] = byte(i ^ i>>8 ^ i>>16)
	}
	testutil.Must(b, os.WriteFile(path, content, 0o600))
	sums, err := imagefile.HashFile(b.Context(), path, nil)
	testutil.Must(b, err)
	return path, sums
}

// careless is a Glance on a loopback socket that discards all content immediately and then reports the expected sums.
// The duration of an upload is that of npctl and the socket.
func careless(b *testing.B, sums imagefile.Sums) *Cloud {
	b.Helper()
	r := newReplay(b)
	glance(r, fmt.Sprintf(`"size": %d, "checksum": %q`, sums.Size, sums.MD5))
	rest := r.Config.Handler
	r.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Method != http.MethodPut {
			rest.ServeHTTP(w, q)
			return
		}
		_, _ = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{q.Body}, make([]byte, 256<<10))
		w.WriteHeader(http.StatusNoContent)
	})
	return r.open(nil)
}

func benchSpec(sums imagefile.Sums) drivers.ImageSpec {
	spec := uploadSpec()
	spec.Size, spec.SHA256, spec.MD5, spec.Progress = sums.Size, sums.SHA256, sums.MD5, func(int64) {}
	return spec
}

func upload(b *testing.B, c *Cloud, path string, spec drivers.ImageSpec) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = c.UploadImage(b.Context(), spec, file)
	return err
}

// BenchmarkUpload sends a file with known sums, as builds have them.
func BenchmarkUpload(b *testing.B) {
	path, sums := benchFile(b)
	c, spec := careless(b, sums), benchSpec(sums)
	b.SetBytes(benchSize)
	for b.Loop() {
		testutil.Must(b, upload(b, c, path, spec))
	}
}

// BenchmarkUploadOfUnknownSums has to hash on the way.
func BenchmarkUploadOfUnknownSums(b *testing.B) {
	path, sums := benchFile(b)
	c, spec := careless(b, sums), benchSpec(sums)
	spec.SHA256, spec.MD5 = "", ""
	b.SetBytes(benchSize)
	for b.Loop() {
		testutil.Must(b, upload(b, c, path, spec))
	}
}

// BenchmarkUploadToThree sends one file to three clouds at once.
func BenchmarkUploadToThree(b *testing.B) {
	path, sums := benchFile(b)
	clouds, spec := []*Cloud{careless(b, sums), careless(b, sums), careless(b, sums)}, benchSpec(sums)
	b.SetBytes(int64(len(clouds)) * benchSize)
	for b.Loop() {
		var all errgroup.Group
		for _, c := range clouds {
			all.Go(func() error { return upload(b, c, path, spec) })
		}
		testutil.Must(b, all.Wait())
	}
}

// BenchmarkPlainSocket is the baseline: the same bytes through a loopback socket, in pieces as large as dd's.
func BenchmarkPlainSocket(b *testing.B) {
	path, _ := benchFile(b)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testutil.Must(b, err)
	defer listener.Close()
	go drain(listener)
	b.SetBytes(benchSize)
	buf := make([]byte, 1<<20)
	for b.Loop() {
		testutil.Must(b, pour(path, listener.Addr().String(), buf))
	}
}

// drain reads to the end and then sends one byte.
func drain(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		_, _ = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{conn}, make([]byte, 256<<10))
		_, _ = conn.Write([]byte{1})
		_ = conn.Close()
	}
}

func pour(path, address string, buf []byte) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := io.CopyBuffer(struct{ io.Writer }{conn}, struct{ io.Reader }{file}, buf); err != nil {
		return err
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		return err
	}
	_, err = io.ReadFull(conn, buf[:1])
	return err
}
