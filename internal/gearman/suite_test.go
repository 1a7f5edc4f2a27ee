package gearman_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/internal/gearman"
	"github.com/npctl/npctl/internal/gearman/gearmantest"
	"github.com/npctl/npctl/internal/testutil"
)

// Every test here runs against our own server with the habits of gearmand and with those of the Python server, and
// with the integration tag against both real ones.

const patience = testutil.Patience

// world is a server and the way to it.
type world struct {
	kind    gearmantest.Kind
	options gearman.Options
}

type suite struct {
	name string
	run  func(*testing.T, world)
}

func suites(kind gearmantest.Kind) []suite {
	var joining []suite
	if kind == gearmantest.Gearmand { // the Python server joins no jobs
		joining = []suite{{"SameUniqueIsOneJob", sameUnique}, {"AbandonedJobIsSubmittedAnew", abandonedJob}}
	}
	return append(joining, []suite{
		{"JobIsDone", jobIsDone},
		{"FailureAndExceptionAreToldApart", failures},
		{"FunctionsComeAndGo", functionsComeAndGo},
		{"FunctionIsTakenBackAfterTheAnswer", takenBackAfterAnswer},
		{"LostWorkerLeavesTheJobToOthers", lostWorker},
		{"LostClientSubmitsAgain", lostClient},
		{"NoWorker", noWorker},
		{"QueueWithoutWorkersIsLeft", queueIsLeft},
		{"StoppedWorkerFinishes", stoppedWorkerFinishes},
		{"StoppedWorkerLeavesWhatTakesTooLong", stoppedWorkerLeaves},
		{"ClientThatGivesUpReturns", clientGivesUp},
		{"ConnectionsAreListed", connectionsAreListed},
	}...)
}

func runSuite(t *testing.T, kind gearmantest.Kind, start func(*testing.T) gearman.Options) {
	for _, s := range suites(kind) {
		t.Run(s.name, func(t *testing.T) { t.Parallel(); s.run(t, world{kind, start(t)}) })
	}
}

func TestClientAndWorker(t *testing.T) {
	for _, kind := range []gearmantest.Kind{gearmantest.Gearmand, gearmantest.Python} {
		t.Run(kind.String(), func(t *testing.T) {
			runSuite(t, kind, func(t *testing.T) gearman.Options { return quick(t, gearmantest.Start(t, kind).Addr()) })
		})
	}
}

// quick returns options with short times.
func quick(t testing.TB, servers ...string) gearman.Options {
	return gearman.Options{
		Servers: servers, Name: "test", Check: 100 * time.Millisecond, KeepAlive: 5 * time.Second,
		Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
}

func withTimeout(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeoutCause(context.Background(), patience, errors.New("the test lost patience"))
	t.Cleanup(cancel)
	return ctx
}

// employ runs a worker until the end of the test, or until the function returned is called.
func employ(t testing.TB, o gearman.Options, slots int, handlers map[string]gearman.Handler) (w *gearman.Worker, dismiss func()) {
	t.Helper()
	w = gearman.NewWorker(o, slots)
	for function, handler := range handlers {
		testutil.Must(t, w.Add(withTimeout(t), handler, function))
	}
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { w.Run(ctx) })
	dismiss = func() { cancel(); work.Wait() }
	t.Cleanup(dismiss)
	return w, dismiss
}

// eventually waits until a server has the given number of workers for a function.
func eventually(t testing.TB, o gearman.Options, function string, workers int) {
	t.Helper()
	client, last := gearman.New(o), map[string]gearman.Function{}
	testutil.Await(t, "the state of the servers", func() bool {
		var err error
		if last, err = client.Status(withTimeout(t)); err != nil {
			t.Fatal(err)
		}
		return last[function].Workers == workers
	}, func() string { return fmt.Sprintf("%d workers for %s; there are %v", workers, function, last) })
}

func receive[T any](t testing.TB, from <-chan T, what string) (value T) {
	t.Helper()
	select {
	case value = <-from:
	case <-time.After(patience):
		t.Fatalf("waited in vain for %s", what)
	}
	return value
}

func job(function string) gearman.Job {
	return gearman.Job{Function: function, Unique: "0123456789abcdef0123456789abcdef", Wait: patience}
}

func jobIsDone(t *testing.T, w world) {
	employ(t, w.options, 1, map[string]gearman.Handler{"upper": func(_ context.Context, task *gearman.Task) ([]byte, error) {
		task.Progress(3, 7)
		if err := task.Send([]byte("first\x00word")); err != nil {
			t.Error(err)
		}
		return []byte(strings.ToUpper(string(task.Data)) + " " + task.Unique), nil
	}})
	j := job("upper")
	j.Data = []byte("a\x00b\x00\x00")
	var sent []string
	j.Output = func(data []byte) { sent = append(sent, string(data)) }
	got, err := gearman.New(w.options).Do(withTimeout(t), j)
	if want := "A\x00B\x00\x00 " + j.Unique; string(got) != want || err != nil {
		t.Errorf("result is %q, %v; want %q", got, err, want)
	}
	if diff := cmp.Diff([]string{"first\x00word"}, sent); diff != "" {
		t.Errorf("data before the result (-want +got):\n%s", diff)
	}
}

func failures(t *testing.T, w world) {
	employ(t, w.options, 2, map[string]gearman.Handler{
		"fail": func(context.Context, *gearman.Task) ([]byte, error) {
			return nil, fmt.Errorf("so so: %w", gearman.ErrFailed)
		},
		"throw": func(context.Context, *gearman.Task) ([]byte, error) { return nil, errors.New("no\x00disk") },
		"panic": func(context.Context, *gearman.Task) ([]byte, error) { panic("oops") },
	})
	client := gearman.New(w.options)
	if _, err := client.Do(withTimeout(t), job("fail")); !errors.Is(err, gearman.ErrFailed) {
		t.Errorf("fail: got %v, want ErrFailed", err)
	}
	for function, want := range map[string]string{"throw": "no\x00disk", "panic": "panic: oops"} {
		var exception *gearman.ExceptionError
		if _, err := client.Do(withTimeout(t), job(function)); !errors.As(err, &exception) || exception.Text != want {
			t.Errorf("%s: got %v, want the exception %q", function, err, want)
		}
	}
}

// gate is a handler that reports its start and ends on request.
type gate struct {
	begun   chan string // unique
	open    chan string // result
	stopped chan error  // why a job was stopped
}

func newGate() gate {
	return gate{make(chan string, 16), make(chan string, 16), make(chan error, 16)}
}

func (g gate) handle(ctx context.Context, task *gearman.Task) ([]byte, error) {
	task.Progress(1, 2)
	g.begun <- task.Unique
	select {
	case result := <-g.open:
		return []byte(result), nil
	case <-ctx.Done():
		g.stopped <- context.Cause(ctx)
		return nil, ctx.Err()
	}
}

// result is what Do returned.
type result struct {
	data string
	err  error
}

func submit(ctx context.Context, o gearman.Options, j gearman.Job) <-chan result {
	done := make(chan result, 1)
	go func() {
		data, err := gearman.New(o).Do(ctx, j)
		done <- result{string(data), err}
	}()
	return done
}

func sameUnique(t *testing.T, w world) {
	g := newGate()
	employ(t, w.options, 2, map[string]gearman.Handler{"build": g.handle})
	first, second := job("build"), job("build")
	progress := make(chan [2]int64, 16)
	second.Progress = func(done, total int64) {
		select {
		case progress <- [2]int64{done, total}:
		default:
		}
	}
	one := submit(withTimeout(t), w.options, first)
	receive(t, g.begun, "the job")
	found, err := gearman.New(w.options).Find(withTimeout(t), first.Unique)
	if !found.Known || !found.Running || err != nil {
		t.Errorf("found %+v, %v; want it to run", found, err)
	}
	two := submit(withTimeout(t), w.options, second)
	testutil.Await(t, "the state of the servers", func() bool {
		found, err = gearman.New(w.options).Find(withTimeout(t), first.Unique)
		return err == nil && found.Clients == 2
	}, func() string { return fmt.Sprintf("the second client: %+v, %v", found, err) })
	if other, err := gearman.New(w.options).Find(withTimeout(t), "another"); other.Known || err != nil {
		t.Errorf("a job that is not there: %+v, %v", other, err)
	}
	g.open <- "made once"
	for _, done := range []<-chan result{one, two} {
		if got := receive(t, done, "a result"); got != (result{"made once", nil}) {
			t.Errorf("got %+v", got)
		}
	}
	if len(g.begun) > 0 {
		t.Error("the job was done twice")
	}
}

func functionsComeAndGo(t *testing.T, w world) {
	worker, _ := employ(t, w.options, 3, map[string]gearman.Handler{"first": newGate().handle})
	eventually(t, w.options, "first", 3)
	testutil.Must(t, worker.Add(withTimeout(t), func(context.Context, *gearman.Task) ([]byte, error) { return []byte("yes"), nil }, "second", "third"))
	// Nothing to wait for: when Add returns, the servers know.
	status, err := gearman.New(w.options).Status(withTimeout(t))
	want := map[string]gearman.Function{"first": {Workers: 3}, "second": {Workers: 3}, "third": {Workers: 3}}
	if diff := cmp.Diff(want, status); diff != "" || err != nil {
		t.Errorf("status (-want +got):\n%s%v", diff, err)
	}
	if got, err := gearman.New(w.options).Do(withTimeout(t), job("second")); string(got) != "yes" || err != nil {
		t.Errorf("second: %q, %v", got, err)
	}
	worker.Remove("second", "first", "never there")
	eventually(t, w.options, "second", 0)
	eventually(t, w.options, "first", 0)
	eventually(t, w.options, "third", 3)
}

func takenBackAfterAnswer(t *testing.T, w world) {
	var worker *gearman.Worker
	begun := make(chan struct{})
	worker, _ = employ(t, w.options, 2, map[string]gearman.Handler{"delete": func(ctx context.Context, _ *gearman.Task) ([]byte, error) {
		<-begun
		worker.Remove("delete")
		// The other connection takes it back at once; this one's may not come before the answer.
		for ctx.Err() == nil {
			status, err := gearman.New(w.options).Status(ctx)
			if err != nil || status["delete"].Workers == 0 {
				return nil, errors.New("the function is gone before the answer")
			}
			if status["delete"].Workers == 1 {
				return []byte("deleted"), nil
			}
		}
		return nil, ctx.Err()
	}})
	eventually(t, w.options, "delete", 2)
	close(begun)
	got := receive(t, submit(withTimeout(t), w.options, job("delete")), "the result")
	if got != (result{"deleted", nil}) {
		t.Errorf("got %+v", got)
	}
	eventually(t, w.options, "delete", 0)
}

func lostWorker(t *testing.T, w world) {
	wire := newWire(t, w.options.Servers[0])
	behind := w.options
	behind.Servers = []string{wire.addr()}
	first, second := newGate(), newGate()
	employ(t, behind, 1, map[string]gearman.Handler{"build": first.handle})
	done := submit(withTimeout(t), w.options, job("build"))
	receive(t, first.begun, "the first worker")
	employ(t, w.options, 1, map[string]gearman.Handler{"build": second.handle})
	eventually(t, w.options, "build", 2)
	wire.close() // so that it does not come back first
	if err := receive(t, first.stopped, "the first worker to stop"); !strings.Contains(err.Error(), "another worker") {
		t.Errorf("the first worker's job ended with %v", err)
	}
	if w.kind == gearmantest.Python {
		if got := receive(t, done, "the failure"); !errors.Is(got.err, gearman.ErrFailed) {
			t.Errorf("got %+v, want a failure", got)
		}
		return
	}
	receive(t, second.begun, "the second worker")
	second.open <- "second"
	if got := receive(t, done, "the result"); got != (result{"second", nil}) {
		t.Errorf("got %+v", got)
	}
}

func lostClient(t *testing.T, w world) {
	g := newGate()
	employ(t, w.options, 1, map[string]gearman.Handler{"build": g.handle})
	wire := newWire(t, w.options.Servers[0])
	behind := w.options
	behind.Servers = []string{wire.addr()}
	j := job("build")
	again := make(chan error, 16)
	j.Waiting = func(why error) { again <- why }
	done := submit(withTimeout(t), behind, j)
	receive(t, g.begun, "the job")
	wire.cut()
	receive(t, again, "the client to notice")
	g.open <- "first"
	if w.kind == gearmantest.Python { // which has forgotten the job, and gives it out again
		receive(t, g.begun, "the job again")
		g.open <- "again"
		if got := receive(t, done, "the result"); got != (result{"again", nil}) {
			t.Errorf("got %+v", got)
		}
		return
	}
	// The job may have ended before the client was back; then it was done again.
	select {
	case <-g.begun:
		g.open <- "first"
	case got := <-done:
		if got != (result{"first", nil}) {
			t.Errorf("got %+v", got)
		}
		return
	}
	if got := receive(t, done, "the result"); got != (result{"first", nil}) {
		t.Errorf("got %+v", got)
	}
}

// gearmand drops a job that all its clients have left, even if another client has joined it since.
func abandonedJob(t *testing.T, w world) {
	first, second := newGate(), newGate()
	_, dismiss := employ(t, w.options, 1, map[string]gearman.Handler{"build": first.handle})
	ctx, leave := context.WithCancel(withTimeout(t))
	left := submit(ctx, w.options, job("build"))
	receive(t, first.begun, "the job")
	leave()
	receive(t, left, "the first client")
	clients := func(n int) {
		testutil.Await(t, "the state of the servers", func() bool {
			found, err := gearman.New(w.options).Find(withTimeout(t), job("build").Unique)
			return err == nil && found.Clients == n
		}, func() string { return "the clients of the job" })
	}
	clients(0)
	done := submit(withTimeout(t), w.options, job("build"))
	clients(1)
	dismiss()
	employ(t, w.options, 1, map[string]gearman.Handler{"build": second.handle})
	receive(t, second.begun, "the job again")
	second.open <- "second"
	if got := receive(t, done, "the result"); got != (result{"second", nil}) {
		t.Errorf("got %+v", got)
	}
}

func noWorker(t *testing.T, w world) {
	j := job("nothing")
	j.Wait = 0
	_, err := gearman.New(w.options).Do(withTimeout(t), j)
	if want := "nothing: no worker offers the function at " + w.options.Servers[0]; !errors.Is(err, gearman.ErrNoWorker) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	status, err := gearman.New(w.options).Status(withTimeout(t))
	if status["nothing"].Queued != 0 || err != nil {
		t.Errorf("left in the queue: %v, %v", status, err)
	}
}

func queueIsLeft(t *testing.T, w world) {
	g := newGate()
	_, dismiss := employ(t, w.options, 1, map[string]gearman.Handler{"build": g.handle})
	eventually(t, w.options, "build", 1)
	other := job("build")
	other.Unique = "another"
	submit(withTimeout(t), w.options, other)
	receive(t, g.begun, "the other job")
	j := job("build")
	j.Wait = 0
	done := submit(withTimeout(t), w.options, j)
	testutil.Await(t, "the state of the servers", func() bool {
		status, err := gearman.New(w.options).Status(withTimeout(t))
		return err == nil && status["build"].Queued == 1
	}, func() string { return "the job in the queue" })
	dismiss()
	if got := receive(t, done, "the client to give up"); !errors.Is(got.err, gearman.ErrNoWorker) {
		t.Errorf("got %+v, want ErrNoWorker", got)
	}
}

func stoppedWorkerFinishes(t *testing.T, w world) {
	g := newGate()
	o := w.options
	o.Drain = patience
	_, dismiss := employ(t, o, 1, map[string]gearman.Handler{"build": g.handle})
	done := submit(withTimeout(t), w.options, job("build"))
	receive(t, g.begun, "the job")
	dismissed := make(chan struct{})
	go func() { dismiss(); close(dismissed) }()
	g.open <- "finished"
	if got := receive(t, done, "the result"); got != (result{"finished", nil}) {
		t.Errorf("got %+v", got)
	}
	receive(t, dismissed, "the worker to end")
	eventually(t, w.options, "build", 0)
}

func stoppedWorkerLeaves(t *testing.T, w world) {
	first, second := newGate(), newGate()
	o := w.options
	o.Drain = 50 * time.Millisecond
	_, dismiss := employ(t, o, 1, map[string]gearman.Handler{"build": first.handle})
	done := submit(withTimeout(t), w.options, job("build"))
	receive(t, first.begun, "the job")
	employ(t, w.options, 1, map[string]gearman.Handler{"build": second.handle})
	eventually(t, w.options, "build", 2)
	dismiss()
	if err := receive(t, first.stopped, "the job to be stopped"); err.Error() != "this worker is being stopped" {
		t.Errorf("the job was stopped by %v", err)
	}
	if w.kind == gearmantest.Python {
		if got := receive(t, done, "the failure"); !errors.Is(got.err, gearman.ErrFailed) {
			t.Errorf("got %+v, want a failure", got)
		}
		return
	}
	receive(t, second.begun, "the second worker")
	second.open <- "second"
	if got := receive(t, done, "the result"); got != (result{"second", nil}) {
		t.Errorf("got %+v", got)
	}
}

func clientGivesUp(t *testing.T, w world) {
	g := newGate()
	employ(t, w.options, 1, map[string]gearman.Handler{"build": g.handle})
	reason := errors.New("enough")
	ctx, cancel := context.WithCancelCause(withTimeout(t))
	done := submit(ctx, w.options, job("build"))
	receive(t, g.begun, "the job")
	cancel(reason)
	if got := receive(t, done, "the client"); !errors.Is(got.err, reason) {
		t.Errorf("got %+v, want %v", got, reason)
	}
	g.open <- "too late"
	// Nor does the worker mind.
	next := job("build")
	next.Unique = "next"
	done = submit(withTimeout(t), w.options, next)
	if got := receive(t, g.begun, "the next job"); got != "next" {
		t.Errorf("the worker does %q", got)
	}
	g.open <- "well"
	if got := receive(t, done, "the result"); got != (result{"well", nil}) {
		t.Errorf("got %+v", got)
	}
}

func connectionsAreListed(t *testing.T, w world) {
	employ(t, w.options, 2, map[string]gearman.Handler{"b": newGate().handle, "a": newGate().handle})
	eventually(t, w.options, "b", 2)
	peers, err := gearman.New(w.options).Peers(withTimeout(t))
	testutil.Must(t, err)
	var got []string
	for _, p := range peers {
		slices.Sort(p.Functions)
		if strings.HasPrefix(p.Name, "test-") {
			got = append(got, fmt.Sprint(p.Name, p.Functions))
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{"test-1[a b]", "test-2[a b]"}, got); diff != "" {
		t.Errorf("connections (-want +got):\n%s", diff)
	}
}

// wire is a way to a server that can be cut.
type wire struct {
	listener net.Listener
	server   string
	mu       sync.Mutex
	open     []net.Conn // guarded by mu
}

func newWire(t testing.TB, server string) *wire {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testutil.Must(t, err)
	w := &wire{listener: listener, server: server}
	go w.serve()
	t.Cleanup(w.close)
	return w
}

func (w *wire) addr() string { return w.listener.Addr().String() }

// close cuts it for good.
func (w *wire) close() {
	_ = w.listener.Close()
	w.cut()
}

// cut closes all connections; new ones may be made.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.open {
		_ = c.Close()
	}
	w.open = nil
}

func (w *wire) serve() {
	for {
		near, err := w.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", w.server)
		if err != nil {
			_ = near.Close()
			continue
		}
		w.mu.Lock()
		w.open = append(w.open, near, far)
		w.mu.Unlock()
		go func() { _, _ = io.Copy(far, near); _ = far.Close() }()
		go func() { _, _ = io.Copy(near, far); _ = near.Close() }()
	}
}
