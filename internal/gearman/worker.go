package gearman

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/npctl/npctl/internal/waits"
)

// Handler does a job and returns its result. An error that wraps ErrFailed becomes WORK_FAIL, any other WORK_EXCEPTION
// with its text. ctx ends when the connection is lost or the worker is stopped for good: then the server gives the job to
// another worker, and the result is thrown away.
type Handler func(ctx context.Context, task *Task) ([]byte, error)

// Worker does jobs, a number of them at a time. Functions may be added and removed while it runs.
type Worker struct {
	options   Options
	slots     int
	tokens    chan struct{} // holding a token permits one job
	ready     chan struct{} // closed when a server knows the functions
	setReady  func()
	mu        sync.Mutex
	functions map[string]Handler    // guarded by mu
	sessions  map[*session]struct{} // guarded by mu
}

// NewWorker returns a worker that runs up to slots jobs at a time. Each slot has its own connection to every server.
func NewWorker(o Options, slots int) *Worker {
	slots = max(1, slots)
	w := &Worker{
		options: o.withDefaults(), slots: slots, tokens: make(chan struct{}, slots), ready: make(chan struct{}),
		functions: map[string]Handler{}, sessions: map[*session]struct{}{},
	}
	w.setReady = sync.OnceFunc(func() { close(w.ready) })
	for range slots {
		w.tokens <- struct{}{}
	}
	return w
}

// Ready is closed when a server is connected for the first time and knows the functions.
func (w *Worker) Ready() <-chan struct{} { return w.ready }

// Add offers functions. It returns when all connected servers know them, so that later packets on any other
// connection arrive after them. An error means that a server did not confirm the change; the functions are offered
// nevertheless.
func (w *Worker) Add(ctx context.Context, handler Handler, functions ...string) error {
	for _, function := range functions {
		if function == "" || strings.ContainsAny(function, "\x00\t\r\n ") {
			return fmt.Errorf("%q cannot be the name of a gearman function: it may have no blanks", function)
		}
	}
	w.mu.Lock()
	for _, function := range functions {
		w.functions[function] = handler
	}
	confirmations := w.notifySessions()
	w.mu.Unlock()
	return w.confirm(ctx, confirmations)
}

// Remove takes functions back. A job in hand is finished and answered first.
func (w *Worker) Remove(functions ...string) { w.drop(functions) }

// Withdraw withdraws functions without active jobs, and returns when all connected servers have confirmed it. An
// error means that a server did not.
func (w *Worker) Withdraw(ctx context.Context, functions ...string) error {
	return w.confirm(ctx, w.drop(functions))
}

func (w *Worker) drop(functions []string) []<-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, function := range functions {
		delete(w.functions, function)
	}
	return w.notifySessions()
}

// notifySessions makes all sessions compare the functions, and returns a channel for each that is closed after its
// server was notified. Requires mu.
func (w *Worker) notifySessions() []<-chan struct{} {
	var confirmations []<-chan struct{}
	for s := range w.sessions {
		done := make(chan struct{})
		s.waiting = append(s.waiting, done)
		confirmations = append(confirmations, done)
		select {
		case s.changed <- struct{}{}:
		default: // it has not looked since the last time
		}
	}
	return confirmations
}

func (w *Worker) confirm(ctx context.Context, confirmations []<-chan struct{}) error {
	timer := time.NewTimer(w.options.DialTimeout)
	defer timer.Stop()
	for _, done := range confirmations {
		select {
		case <-done:
		case <-timer.C:
			return fmt.Errorf("a gearman server did not confirm the functions within %s", w.options.DialTimeout)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// offered returns the functions as they are now, and the channels to close once the server knows them.
func (w *Worker) offered(s *session) (map[string]Handler, []chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	waiting := s.waiting
	s.waiting = nil
	return maps.Clone(w.functions), waiting
}

// Run connects to all servers and works until ctx ends. Then it takes no new jobs, finishes those in hand within
// Options.Drain, and returns. Servers that cannot be reached are tried again and again.
func (w *Worker) Run(ctx context.Context) {
	var group errgroup.Group
	for _, server := range w.options.Servers {
		for slot := range w.slots {
			group.Go(func() error {
				w.keep(ctx, server, slot)
				return nil
			})
		}
	}
	_ = group.Wait()
}

// keep keeps one connection to a server.
func (w *Worker) keep(ctx context.Context, server string, slot int) {
	pause := backOff(w.options.Retry)
	for settle := time.Duration(0); ctx.Err() == nil; settle = w.options.Settle {
		begun := time.Now()
		err := w.session(ctx, server, slot, settle)
		if err == nil || ctx.Err() != nil {
			return
		}
		if time.Since(begun) > w.options.KeepAlive {
			pause.Reset()
		}
		wait := pause.NextBackOff()
		w.log(slot, slog.LevelWarn)("gearman server disconnected, retrying", "server", server, "connection", slot+1,
			"wait", wait.Round(time.Millisecond), "error", err)
		if waits.Sleep(ctx, wait) != nil {
			return
		}
	}
}

// log speaks for all connections to a server by the first of them.
func (w *Worker) log(slot int, level slog.Level) func(string, ...any) {
	if slot > 0 {
		level = slog.LevelDebug
	}
	return func(text string, args ...any) { w.options.Log.Log(context.Background(), level, text, args...) }
}

// session connects and, after a while, works until the connection is lost or, without an error, ctx has ended.
func (w *Worker) session(ctx context.Context, server string, slot int, settle time.Duration) error {
	conn, err := w.options.open(ctx, server)
	if err != nil {
		return err
	}
	defer conn.shut()
	if settle > 0 && waits.Sleep(ctx, settle) != nil {
		return nil
	}
	s := newSession(w, conn, slot)
	w.mu.Lock()
	w.sessions[s] = struct{}{}
	w.mu.Unlock()
	return s.run(ctx)
}

// forget releases all callers that wait for a session that has ended.
func (w *Worker) forget(s *session) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.sessions, s)
	for _, done := range s.waiting {
		close(done)
	}
	for _, waiting := range s.asked {
		for _, done := range waiting {
			close(done)
		}
	}
}

// name identifies the connections of a worker.
func (w *Worker) name(slot int) string {
	return strings.Join(strings.Fields(w.options.Name), "-") + "-" + strconv.Itoa(slot+1)
}
