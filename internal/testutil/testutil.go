// Package testutil holds what tests of several packages need.
package testutil

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Patience limits every wait of a test for something that has no limit of its own. Only a failing test takes that long:
// it is far longer than any condition takes on a busy machine, so it proves no promise about time.
const Patience = 5 * time.Minute

// Await polls a condition until it holds. It fails the test after Patience, with the details.
func Await(t testing.TB, what string, so func() bool, details ...func() string) {
	t.Helper()
	if !Poll(Patience, so) {
		for _, detail := range details {
			what += "; " + detail()
		}
		t.Fatalf("not within %s: %s", Patience, what)
	}
}

// Poll polls a condition until it holds or the limit is over, and returns whether it held. The longer the wait and one poll take,
// the rarer the polls are: many of them start processes or ask services, on the processors that the condition waits for.
func Poll(limit time.Duration, so func() bool) bool {
	for began := time.Now(); ; {
		asked := time.Now()
		if so() {
			return true
		}
		past, took := time.Since(began), time.Since(asked)
		if past > limit {
			return false
		}
		time.Sleep(max(min(past/16, 500*time.Millisecond), min(4*took, 2*time.Second), 5*time.Millisecond))
	}
}

// Seeds returns the seeds of a test that draws at random, from 1 on: count of them, or as many as NPCTL_SEEDS says. With NPCTL_SEED=7
// it is only 7.
func Seeds(count int) (seeds []uint64) {
	number := func(name string, otherwise int) int {
		if n, err := strconv.Atoi(os.Getenv(name)); err == nil && n > 0 {
			return n
		}
		return otherwise
	}
	first, last := 1, number("NPCTL_SEEDS", count)
	if only := number("NPCTL_SEED", 0); only > 0 {
		first, last = only, only
	}
	for seed := first; seed <= last; seed++ {
		seeds = append(seeds, uint64(seed)) //nolint:gosec // G115: positive
	}
	return seeds
}

// T is what a test of the standard library and one of rapid have in common.
type T interface {
	Helper()
	Fatal(args ...any)
}

// Must fails the test if there is an error.
func Must(t T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ReadFile returns the content of a file.
func ReadFile(t T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	Must(t, err)
	return string(content)
}

// WriteFile writes a file, and creates its directory if it does not exist.
func WriteFile(t T, path, content string) {
	t.Helper()
	Must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	Must(t, os.WriteFile(path, []byte(content), 0o600))
}

// WriteProgram writes an executable file. While its file is open no process is started: the process would inherit it, and
// the kernel executes no file that is open for writing ("text file busy").
func WriteProgram(t T, path, content string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	Must(t, os.WriteFile(path, []byte(content), 0o700)) //nolint:gosec // G306: a program
}

// ShortDir returns a directory with a short name, because the path of a unix socket is limited.
func ShortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "npctl")
	Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// FreePort returns a TCP port that is free at the time of the call. The port is below the ephemeral range of Linux, so
// that no other process gets it by chance before its use or during a restart of its server. No two calls of a process
// return the same port.
func FreePort(t testing.TB) int {
	t.Helper()
	for range 1000 {
		port := 20000 + rand.IntN(12000)
		if _, given := ports.LoadOrStore(port, true); given {
			continue
		}
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", (&net.TCPAddr{Port: port}).String())
		if err == nil {
			_ = l.Close() // nothing was sent
			return port
		}
	}
	t.Fatal("of 1000 ports from 20000 to 31999 none is free")
	return 0
}

var ports sync.Map // returned by FreePort

// Buffer is a bytes.Buffer for several goroutines.
type Buffer struct {
	mu      sync.Mutex
	content bytes.Buffer // guarded by mu
}

// Write appends to the buffer.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.content.Write(p)
}

// String returns everything that was written.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.content.String()
}

// Direct is a transport that calls a handler, without a connection.
func Direct(handler http.Handler) RoundTripper {
	return func(r *http.Request) (*http.Response, error) {
		if err := context.Cause(r.Context()); err != nil {
			return nil, err
		}
		request := r.Clone(r.Context())
		request.RequestURI = r.URL.RequestURI()
		if request.Body == nil {
			request.Body = http.NoBody
		}
		defer request.Body.Close()
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, request)
		response := recorder.Result()
		response.Request = r
		return response, nil
	}
}

// RoundTripper is a function that is an http.RoundTripper.
type RoundTripper func(*http.Request) (*http.Response, error)

// RoundTrip calls the function.
func (f RoundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
