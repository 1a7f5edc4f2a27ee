// Package httpapi serves the API of the daemon over HTTP: JSON over a unix socket and, optionally, over TCP with TLS and
// tokens.
//
// Rules:
//   - The permissions of a unix socket protect it: a process that can open it has full access. Every other listener
//     requires a token, and serves neither the state nor other routes for npctl processes on the same machine.
//   - Each call has limits of size, time and concurrency. A call with an unknown path, parameter or body member is
//     rejected as a whole, with the unknown name in the error.
//   - Responses are JSON, errors are RFC 9457 problem documents with a code for programs and a hint for people. They
//     contain no secrets, because the daemon stores none.
//   - This package makes no decisions. All changes go through package watch.
package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/npctl/npctl/internal/connlimit"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/watch"
)

// Options configures a Server. All fields are optional.
type Options struct {
	Version      string           // of npctl, reported to clients
	State        string           // path of the state, by which a client checks that it is the expected one
	Tokens       *Tokens          // grants access to listeners other than unix sockets, which require it
	Metrics      http.Handler     // served at /metrics; nil: 404
	InvalidToken func(how string) // called for each invalid token: unknown, or throttled when it was not checked
	Log          *slog.Logger
	// BodyTime limits how long the body of a call may take to arrive; zero means 30 seconds. CallTime limits a call
	// that is not a long poll; zero means one minute.
	BodyTime, CallTime time.Duration
	// Unlock, when set, takes a lock of a shared store from its holder and returns the holder; see state.Shared.
	Unlock func(ctx context.Context, id string) (state.Holder, error)
}

// Limits of the number, size and duration of calls.
const (
	connections      = 1024            // per listener
	connectionsOfOne = connections / 4 // per client address over TCP
	callsAtOnce      = 64              // short calls
	waitsAtOnce      = 2048            // long polls
	headerTime       = 5 * time.Second
	callTime         = time.Minute
	bodyTime         = 30 * time.Second
	answerTime       = 30 * time.Second // to write a response, or one piece of a stream
	idleTime         = 2 * time.Minute
	headerSize       = 16 << 10
	bodySize         = 1 << 20
	queueTime        = 5 * time.Second // to wait for a slot of callsAtOnce or waitsAtOnce
	shutdownTime     = 5 * time.Second
	longestWait      = time.Minute // of a long poll
	pollEvery        = 5 * time.Second
	streamBeats      = 15 * time.Second // between keepalives of a stream
	idLength         = 1024
	reflectAtMost    = 200 // bytes of client input that an error repeats
)

// Server serves the API. Serve may be called for several listeners.
type Server struct {
	Options
	daemon    *watch.Daemon
	mux       *http.ServeMux
	calls     chan struct{}
	longPolls chan struct{}
	locks     *locks
	authority *authority
}

// New returns a server for a daemon. Call Serve to serve a listener.
func New(daemon *watch.Daemon, o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.InvalidToken == nil {
		o.InvalidToken = func(string) {}
	}
	o.BodyTime, o.CallTime = cmp.Or(o.BodyTime, bodyTime), cmp.Or(o.CallTime, callTime)
	s := &Server{Options: o, daemon: daemon, authority: &authority{o.Tokens, newTokenLimiter(), o.InvalidToken},
		mux: http.NewServeMux(), calls: make(chan struct{}, callsAtOnce), longPolls: make(chan struct{}, waitsAtOnce)}
	s.locks = newLocks(daemon, s.Version)
	s.addOperations()
	s.addStore()
	s.addDebug()
	return s
}

// Serve serves a listener until ctx is done, and closes it. Then it finishes running calls, answers long polls at once,
// and drops the locks that clients hold.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	local := l.Addr().Network() == "unix"
	if !local && s.Tokens == nil {
		_ = l.Close() // the listener was not used
		return errors.New("only a unix socket can be served without tokens")
	}
	server := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: headerTime, ReadTimeout: s.BodyTime, IdleTimeout: idleTime, MaxHeaderBytes: headerSize,
		ErrorLog: slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug), // mostly errors of clients
		BaseContext: func(net.Listener) context.Context {
			return context.WithValue(context.WithoutCancel(ctx), servingKey{}, serving{local: local, ending: ctx.Done()})
		},
	}
	if err := connlimit.Serve(ctx, server, l, shutdownTime); err != nil {
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	return nil
}

// serving describes the listener of a call.
type serving struct {
	local  bool
	ending <-chan struct{}
}

type servingKey struct{}

// debugPath is the prefix of the profiles, which exist only on the unix socket.
const debugPath = "/debug/pprof"

// profileTime limits a profile; net/http/pprof collects for 30 s by default.
const profileTime = 5 * time.Minute

// addDebug adds the profiles of the Go runtime: cpu (called profile), trace, goroutine, heap and the others.
func (s *Server) addDebug() {
	s.mux.HandleFunc("GET "+debugPath+"/{name}", func(w http.ResponseWriter, r *http.Request) {
		c := callOf(r.Context())
		if !c.local {
			c.fail(errUnknownPath())
			return
		}
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // net/http would cancel a long profile at it
		c.allowAnswer(profileTime)
		switch name := r.PathValue("name"); name {
		case "profile":
			pprof.Profile(w, r)
		case "trace":
			pprof.Trace(w, r)
		default:
			pprof.Handler(name).ServeHTTP(w, r)
		}
	})
}
