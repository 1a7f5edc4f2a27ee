package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/watch/httpapi/client"
)

// serve serves a socket until end is called.
func serve(t *testing.T, socket string, answer http.HandlerFunc) (end func()) {
	t.Helper()
	l, err := net.Listen("unix", socket)
	testutil.Must(t, err)
	server := &http.Server{Handler: answer, ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() { _ = server.Serve(l); close(done) }()
	return func() { _ = server.Close(); <-done }
}

func newClient(t *testing.T) (*client.Client, string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "npctl") //nolint:usetesting // t.TempDir is too long for a socket
	testutil.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "sock")
	c, err := client.New(client.Options{Socket: socket})
	testutil.Must(t, err)
	t.Cleanup(c.Close)
	return c, socket
}

func TestWaitSurvivesRestart(t *testing.T) {
	c, socket := newClient(t)
	called := make(chan struct{})
	die := serve(t, socket, func(http.ResponseWriter, *http.Request) { close(called); select {} })
	waited := make(chan wire.Request, 1)
	go func() {
		r, err := c.WaitRequest(t.Context(), "1")
		if err != nil {
			t.Error(err)
		}
		waited <- r
	}()
	<-called
	die()
	end := serve(t, socket, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"id":"1","state":"fulfilled","a_later_name":true}`)
	})
	defer end()
	if r := <-waited; r.State != resources.StateFulfilled {
		t.Errorf("request is %+v", r)
	}
}

func TestWaitFailsWithoutADaemon(t *testing.T) {
	c, socket := newClient(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := c.WaitRequest(ctx, "1"); !errors.Is(err, client.ErrNoDaemon) || errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), socket) {
		t.Errorf("error is %v", err)
	}
}

func TestForeignResponsesAreErrors(t *testing.T) {
	c, socket := newClient(t)
	for what, answer := range map[string]http.HandlerFunc{
		"a proxy's page": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "<html>bad gateway</html>", http.StatusBadGateway)
		},
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://elsewhere/", http.StatusFound)
		},
		"no JSON": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") },
		"a cut list": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"kind":"node","id":"1","record":{}}`+"\n")
		},
		"a foreign store": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"format":99}`) },
	} {
		end := serve(t, socket, answer)
		if _, err := c.Status(t.Context()); err == nil && what != "a cut list" && what != "a foreign store" {
			t.Errorf("%s: no error", what)
		}
		if s, err := client.OpenStore(t.Context(), c); err == nil {
			t.Errorf("%s: a store was opened: %v", what, s)
		}
		end()
	}
}

func TestTruncatedListIsAnError(t *testing.T) {
	c, socket := newClient(t)
	end := serve(t, socket, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/records") {
			_, _ = io.WriteString(w, `{"kind":"node","id":"1","revision":1,"record":{"id":"1"}}`+"\n")
			return
		}
		_, _ = fmt.Fprintf(w, `{"format":%d}`, wire.StoreFormat)
	})
	defer end()
	s, err := client.OpenStore(t.Context(), c)
	testutil.Must(t, err)
	if entries, err := s.List(t.Context()); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a part was taken for the whole: %v, %v", entries, err)
	}
}

func TestErrorsOfTheDaemonMatchThoseOfStores(t *testing.T) {
	c, socket := newClient(t)
	for code, want := range map[wire.Code]error{wire.CodeNotFound: state.ErrNotFound, wire.CodeConflict: state.ErrConflict, wire.CodeLost: state.ErrLost,
		wire.CodeLocked: state.ErrLocked} {
		end := serve(t, socket, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", wire.MediaProblem)
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, `{"code":"`+string(code)+`","detail":"in its words","lock":{"name":"state","holder":{"id":"7"}}}`)
		})
		_, err := c.Node(context.Background(), "1")
		if !errors.Is(err, want) || err.Error() != "in its words" {
			t.Errorf("%s: %v", code, err)
		}
		end()
	}
}

func TestTokensAreNotSentUnencrypted(t *testing.T) {
	for _, url := range []string{"http://192.0.2.1:1", "ftp://127.0.0.1", "nonsense", "https://"} {
		if _, err := client.New(client.Options{URL: url, Token: "secret"}); err == nil {
			t.Errorf("%s is taken", url)
		}
	}
	if _, err := client.New(client.Options{URL: "http://127.0.0.1:1"}); err != nil {
		t.Error(err)
	}
}
