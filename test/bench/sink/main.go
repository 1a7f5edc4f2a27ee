// Sink serves an OpenStack on loopback. Its Glance discards uploads without hashing or storing them, and then reports
// the number of bytes received and the checksum that npctl announced. The duration of an upload is therefore that of
// the client and the socket alone. Except for the content of images, it is the emulator. A second port accepts
// bytes without a protocol, for dd.
//
// test/bench/uploads.sh runs it. It writes a clouds.yaml, prints the second port, and serves until it is killed.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: sink CLOUDS.YAML")
		os.Exit(2)
	}
	if err := serve(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "sink:", err)
		os.Exit(1)
	}
}

func serve(clouds string) error {
	cloud, err := emulator.Open(emulator.Options{})
	if err != nil {
		return err
	}
	var listen net.ListenConfig
	plain, err := listen.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go drainAll(plain)
	listener, err := listen.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if err := os.WriteFile(clouds, []byte(emulator.CloudsYAML(map[string]string{emulator.Entry: emulator.AuthURL(listener.Addr())})), 0o600); err != nil {
		return err
	}
	fmt.Println(plain.Addr().(*net.TCPAddr).Port)
	server := &http.Server{Handler: &sink{inner: cloud.Handler(), took: map[string]int64{}}, ReadHeaderTimeout: 10 * time.Second}
	return server.Serve(listener)
}

// drain reads to the end with a buffer that is large enough to make system calls cheap.
func drain(from io.Reader) (int64, error) {
	return io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{from}, make([]byte, 256<<10))
}

func drainAll(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			_, _ = drain(conn)
			_ = conn.Close()
		}()
	}
}

// sink is the emulator without the content of images.
type sink struct {
	inner http.Handler
	mu    sync.Mutex
	took  map[string]int64 // bytes received, by image ID; guarded by mu
}

var (
	contentOf = regexp.MustCompile(`/v2/images/([^/]+)/file$`)
	recordOf  = regexp.MustCompile(`/v2/images/([^/]+)$`)
)

func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	content, record := contentOf.FindStringSubmatch(r.URL.Path), recordOf.FindStringSubmatch(r.URL.Path)
	switch {
	case content != nil && r.Method == http.MethodPut:
		s.discard(w, r, content[1])
	case record != nil && r.Method == http.MethodGet:
		s.reportChecksum(w, r, record[1])
	default:
		s.inner.ServeHTTP(w, r)
	}
}

// discard discards the content and forwards a single byte, so that the image becomes active.
func (s *sink) discard(w http.ResponseWriter, r *http.Request, id string) {
	n, err := drain(r.Body)
	if err != nil {
		return // the client disconnected
	}
	s.mu.Lock()
	s.took[id] = n
	s.mu.Unlock()
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader([]byte{0})), 1
	s.inner.ServeHTTP(w, r)
}

// reportChecksum reports the number of bytes received and the checksum in the properties that npctl wrote. An image without
// that property has no checksum.
func (s *sink) reportChecksum(w http.ResponseWriter, r *http.Request, id string) {
	recorder := httptest.NewRecorder()
	s.inner.ServeHTTP(recorder, r)
	body := recorder.Body.Bytes()
	s.mu.Lock()
	size, took := s.took[id]
	s.mu.Unlock()
	var image map[string]any
	if took && json.Unmarshal(body, &image) == nil {
		image["size"], image["checksum"], image["os_hash_algo"], image["os_hash_value"] = size, nil, nil, nil
		if sum, ok := image["npctl_sha256"]; ok {
			image["os_hash_algo"], image["os_hash_value"] = "sha256", sum
		}
		body, _ = json.Marshal(image) // body was valid JSON
	}
	for name, values := range recorder.Header() {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(recorder.Code)
	_, _ = w.Write(body)
}
