// Package httpapi serves the daemon over HTTP: JSON over a unix socket and, when asked to, over TCP with TLS and tokens.
//
// Rules:
//   - A unix socket is guarded by its permissions: whoever may open it may do everything. Every other listener asks for a
//     token, and serves neither the state nor anything else that only another npctl on the same machine needs.
//   - Whatever comes in has a size, a time and a number that can be at work at once. What is not understood is refused
//     whole, with its name: paths, parameters, members of bodies.
//   - Answers are JSON, errors are RFC 9457 problem documents with a code for programs and a hint for people. No secret
//     is in any of them: none is in what the daemon keeps.
//   - Nothing is decided here. What changes anything goes through package watch.
package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/npctl/npctl/internal/connlimit"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/watch"
)

// Options is what a Server works with. All of it may be left empty.
type Options struct {
	Version string           // of npctl, told to clients
	State   string           // path of the state, so that a client can tell whether it is the one it means
	Tokens  *Tokens          // who may use what is not a unix socket; needed for those
	Metrics http.Handler     // served at /metrics; nil: nothing is there
	Guessed func(how string) // told of each wrong token: unknown, or throttled when it was not even looked at
	Log     *slog.Logger
	// BodyTime is how long the body of a call may take to arrive, and CallTime how long a call may take that does not wait
	// for something to happen. Zero means half a minute and a minute.
	BodyTime, CallTime time.Duration
	// Unlock, when set, takes a lock of a store that others work in too from its holder, who is returned; see state.Shared.
	Unlock func(ctx context.Context, id string) (state.Holder, error)
}

// Limits of what is served at a time, and for how long.
const (
	connections      = 1024            // a listener
	connectionsOfOne = connections / 4 // of one client address over TCP
	callsAtOnce      = 64              // that are answered at once
	waitsAtOnce      = 2048            // that wait for something to happen
	headerTime       = 5 * time.Second
	callTime         = time.Minute
	bodyTime         = 30 * time.Second
	answerTime       = 30 * time.Second // to write an answer, or a piece of one that goes on
	idleTime         = 2 * time.Minute
	headerSize       = 16 << 10
	bodySize         = 1 << 20
	queueTime        = 5 * time.Second // for one of callsAtOnce
	shutdownTime     = 5 * time.Second
	longestWait      = time.Minute // of a long poll
	pollEvery        = 5 * time.Second
	streamBeats      = 15 * time.Second // between signs of life of a stream
	idLength         = 1024
	reflectAtMost    = 200 // bytes of what came in that an error repeats
)

// Server answers requests. Its Serve can be called for several listeners.
type Server struct {
	Options
	daemon  *watch.Daemon
	epoch   string // of event numbers
	started time.Time
	routes  []route
	mux     *http.ServeMux
	calls   chan struct{}
	waits   chan struct{}
	explain chan struct{} // one at a time recomputes a plan
	locks   *locks
	guesses *guesses
	openapi []byte
}

// New returns a server for a daemon. It serves nothing yet.
func New(daemon *watch.Daemon, o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Guessed == nil {
		o.Guessed = func(string) {}
	}
	o.BodyTime, o.CallTime = cmp.Or(o.BodyTime, bodyTime), cmp.Or(o.CallTime, callTime)
	s := &Server{Options: o, daemon: daemon, epoch: strings.ReplaceAll(uuid.NewString(), "-", "")[:12], started: time.Now(),
		mux: http.NewServeMux(), calls: make(chan struct{}, callsAtOnce), waits: make(chan struct{}, waitsAtOnce),
		explain: make(chan struct{}, 1), guesses: newGuesses()}
	s.locks = newLocks(daemon, s.Version)
	s.routes = append(s.table(), s.storeTable()...)
	for i := range s.routes {
		r := &s.routes[i]
		s.mux.Handle(r.method+" "+r.path, routed{r})
	}
	s.openapi = s.describe()
	return s
}

// routed carries a route through http.ServeMux, which only looks it up.
type routed struct{ *route }

func (routed) ServeHTTP(http.ResponseWriter, *http.Request) {}

// Serve answers what comes in at a listener until ctx ends, and closes it. What is being answered then is finished, what
// waits is answered at once, and locks that clients hold are lost.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	local := l.Addr().Network() == "unix"
	if !local && s.Tokens == nil {
		_ = l.Close() // it was never used
		return errors.New("nothing but a unix socket is served without tokens")
	}
	server := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: headerTime, ReadTimeout: s.BodyTime, IdleTimeout: idleTime, MaxHeaderBytes: headerSize,
		ErrorLog:  slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug), // clients that misbehave, mostly
		ConnState: connlimit.ConnState,
		BaseContext: func(net.Listener) context.Context {
			return context.WithValue(context.WithoutCancel(ctx), servingKey{}, serving{local: local, ending: ctx.Done()})
		},
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer cancel()
	if err := server.Shutdown(limit); err != nil {
		_ = server.Close() // somebody does not read their answer
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	return nil
}

// serving is what a call knows of the listener that it came by.
type serving struct {
	local  bool
	ending <-chan struct{}
}

type servingKey struct{}

// host is the name of this machine.
func host() string {
	name, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return name
}
