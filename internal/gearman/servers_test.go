package gearman_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/internal/gearman"
	"github.com/npctl/npctl/internal/gearman/gearmantest"
	"github.com/npctl/npctl/internal/testutil"
)

// deadAddr returns an address without a listener.
func deadAddr(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testutil.Must(t, err)
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

func TestUnreachableServerIsSkipped(t *testing.T) {
	o := quick(t, deadAddr(t), gearmantest.Start(t, gearmantest.Gearmand).Addr(), deadAddr(t))
	employ(t, o, 1, map[string]gearman.Handler{"f": func(context.Context, *gearman.Task) ([]byte, error) { return []byte("ok"), nil }})
	if got, err := gearman.New(o).Do(withTimeout(t), job("f")); string(got) != "ok" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestNoServerAtAllIsAnErrorWithAllReasons(t *testing.T) {
	o := quick(t, deadAddr(t), deadAddr(t))
	client := gearman.New(o)
	_, statusErr := client.Status(withTimeout(t))
	_, findErr := client.Find(withTimeout(t), "u")
	j := job("f")
	j.Wait = 0
	_, doErr := client.Do(withTimeout(t), j)
	for _, err := range []error{statusErr, findErr, doErr} {
		if err == nil || errors.Is(err, gearman.ErrNoWorker) || !strings.Contains(err.Error(), o.Servers[0]) || !strings.Contains(err.Error(), o.Servers[1]) {
			t.Errorf("got %v, want an error that names both servers", err)
		}
	}
	if _, err := gearman.New(quick(t)).Status(withTimeout(t)); err == nil {
		t.Error("no servers: no error")
	}
}

func TestJobsGoWhereTheWorkersAre(t *testing.T) {
	lonely, working := gearmantest.Start(t, gearmantest.Gearmand).Addr(), gearmantest.Start(t, gearmantest.Gearmand).Addr()
	employ(t, quick(t, working), 1, map[string]gearman.Handler{"f": func(context.Context, *gearman.Task) ([]byte, error) { return nil, nil }})
	eventually(t, quick(t, working), "f", 1)
	for _, servers := range [][]string{{lonely, working}, {working, lonely}} {
		j := job("f")
		j.Wait = 0
		if _, err := gearman.New(quick(t, servers...)).Do(withTimeout(t), j); err != nil {
			t.Error(err)
		}
	}
}

func TestRunningJobIsJoinedOnAnyServer(t *testing.T) {
	first, second := gearmantest.Start(t, gearmantest.Gearmand).Addr(), gearmantest.Start(t, gearmantest.Gearmand).Addr()
	g := newGate()
	employ(t, quick(t, first, second), 2, map[string]gearman.Handler{"f": g.handle})
	for _, server := range []string{first, second} {
		eventually(t, quick(t, server), "f", 2)
		there := submit(withTimeout(t), quick(t, server), job("f"))
		receive(t, g.begun, "the job")
		joined := submit(withTimeout(t), quick(t, first, second), job("f"))
		testutil.Await(t, "the state of the servers", func() bool {
			found, err := gearman.New(quick(t, server)).Find(withTimeout(t), job("f").Unique)
			return err == nil && found.Clients == 2
		}, func() string { return "the second client" })
		g.open <- "once"
		for _, done := range []<-chan result{there, joined} {
			if got := receive(t, done, "the result"); got != (result{"once", nil}) {
				t.Errorf("got %+v", got)
			}
		}
	}
	if len(g.begun) > 0 {
		t.Error("a job was done twice")
	}
}

func TestSlotsAreSharedByServers(t *testing.T) {
	servers := []string{gearmantest.Start(t, gearmantest.Gearmand).Addr(), gearmantest.Start(t, gearmantest.Python).Addr()}
	var now, most, all atomic.Int32
	full := make(chan struct{}, 100)
	handler := func(context.Context, *gearman.Task) ([]byte, error) {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		all.Add(1)
		full <- struct{}{}
		for now.Load() < 2 && all.Load() < 12 { // so that the second slot gets a job too
			time.Sleep(time.Millisecond)
		}
		now.Add(-1)
		return nil, nil
	}
	employ(t, quick(t, servers...), 2, map[string]gearman.Handler{"f": handler})
	var done []<-chan result
	for _, server := range servers {
		eventually(t, quick(t, server), "f", 2)
		for n := range 6 {
			j := job("f")
			j.Unique = strings.Repeat("u", n+1)
			done = append(done, submit(withTimeout(t), quick(t, server), j))
		}
	}
	for _, d := range done {
		if got := receive(t, d, "a result"); got.err != nil {
			t.Error(got.err)
		}
	}
	if most.Load() > 2 || all.Load() != 12 {
		t.Errorf("%d jobs at a time, %d in all; want 2 and 12", most.Load(), all.Load())
	}
}

func TestServerThatComesBackIsUsedAgain(t *testing.T) {
	server := gearmantest.Start(t, gearmantest.Gearmand)
	o := quick(t, server.Addr())
	employ(t, o, 2, map[string]gearman.Handler{"f": func(context.Context, *gearman.Task) ([]byte, error) { return []byte("ok"), nil }})
	eventually(t, o, "f", 2)
	server.Stop()
	j := job("f")
	noticed := make(chan error, 100)
	j.Waiting = func(why error) { noticed <- why }
	done := submit(withTimeout(t), o, j)
	receive(t, noticed, "the client to notice")
	gearmantest.Again(t, gearmantest.Gearmand, server.Addr())
	if got := receive(t, done, "the result"); got != (result{"ok", nil}) {
		t.Errorf("got %+v", got)
	}
	eventually(t, o, "f", 2)
}

func TestSilentServerIsDisconnected(t *testing.T) {
	o := quick(t, listen(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }))
	o.KeepAlive = 50 * time.Millisecond
	if _, err := gearman.New(o).Status(withTimeout(t)); err == nil {
		t.Error("a server that says nothing has a status")
	}
	if _, err := gearman.New(o).Find(withTimeout(t), "u"); err == nil || !strings.Contains(err.Error(), "no response") {
		t.Errorf("got %v, want an error about the missing response", err)
	}
}

func TestQuietServerIsKept(t *testing.T) {
	for _, kind := range []gearmantest.Kind{gearmantest.Gearmand, gearmantest.Python} {
		t.Run(fmt.Sprint(kind), func(t *testing.T) {
			t.Parallel() // mostly waits
			server := gearmantest.Start(t, kind)
			o := quick(t, server.Addr())
			o.KeepAlive = 500 * time.Millisecond // enough for a response on a busy machine
			g := newGate()
			employ(t, o, 1, map[string]gearman.Handler{"f": g.handle})
			done := submit(withTimeout(t), quick(t, server.Addr()), job("f"))
			receive(t, g.begun, "the job")
			testutil.Await(t, "signs of life", func() bool { return strings.Count(strings.Join(server.Log(), "\n"), "GET_STATUS") > 5 })
			g.open <- "still here"
			if got := receive(t, done, "the result"); got != (result{"still here", nil}) || len(g.stopped) > 0 {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestProgressIsReportedOnceASecond(t *testing.T) {
	server := gearmantest.Start(t, gearmantest.Gearmand)
	o := quick(t, server.Addr())
	reported := make(chan [2]int64, 100)
	employ(t, o, 1, map[string]gearman.Handler{"f": func(ctx context.Context, task *gearman.Task) ([]byte, error) {
		for n := range int64(1000) {
			task.Progress(n, 1000)
		}
		select { // the last attempt succeeds
		case <-reported:
		case <-ctx.Done():
		}
		return nil, nil
	}})
	j := job("f")
	j.Progress = func(done, total int64) { reported <- [2]int64{done, total} }
	ran := make(chan bool, 10)
	j.Running = func(running bool) { ran <- running }
	begun := time.Now()
	if got := receive(t, submit(withTimeout(t), o, j), "the result"); got.err != nil {
		t.Fatal(got.err)
	}
	if !receive(t, ran, "to hear that it runs") {
		t.Error("it is said not to run")
	}
	statuses := strings.Count(strings.Join(server.Log(), "\n"), "WORK_STATUS")
	if limit := int(time.Since(begun)/time.Second) + 1; statuses < 1 || statuses > limit {
		t.Errorf("%d statuses in %s", statuses, time.Since(begun))
	}
}

func TestCancelledJobIsNotWaitedFor(t *testing.T) {
	server := gearmantest.Start(t, gearmantest.Gearmand)
	o := quick(t, server.Addr())
	g := newGate()
	employ(t, o, 1, map[string]gearman.Handler{"f": g.handle})
	done := submit(withTimeout(t), o, job("f"))
	receive(t, g.begun, "the job")
	conn, err := net.Dial("tcp", server.Addr())
	testutil.Must(t, err)
	defer conn.Close()
	if _, err := conn.Write([]byte("cancel job H:test:1\n")); err != nil {
		t.Fatal(err)
	}
	if got := receive(t, done, "the client"); !errors.Is(got.err, gearman.ErrForgotten) {
		t.Errorf("got %+v, want ErrForgotten", got)
	}
}

func TestWorkerWaitsForHandlersOfLostConnections(t *testing.T) {
	server := gearmantest.Start(t, gearmantest.Gearmand)
	o := quick(t, server.Addr())
	begun, lost, release := make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	var returned atomic.Bool
	_, dismiss := employ(t, o, 1, map[string]gearman.Handler{"f": func(ctx context.Context, _ *gearman.Task) ([]byte, error) {
		begun <- struct{}{}
		<-ctx.Done()
		close(lost)
		<-release
		returned.Store(true)
		return nil, nil
	}})
	submit(withTimeout(t), o, job("f"))
	receive(t, begun, "the job")
	server.Drop("test-1")
	receive(t, lost, "the handler to hear of it")
	time.AfterFunc(100*time.Millisecond, func() { close(release) })
	dismiss()
	if !returned.Load() {
		t.Error("the worker has ended, and its handler has not")
	}
}

func TestFunctionsAreAddedAfterServerConfirms(t *testing.T) {
	server := gearmantest.Start(t, gearmantest.Python)
	handler := func(context.Context, *gearman.Task) ([]byte, error) { return nil, nil }
	w, _ := employ(t, quick(t, server.Addr()), 2, map[string]gearman.Handler{"f": handler})
	receive(t, w.Ready(), "the worker")
	release := server.Hold()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := w.Add(ctx, handler, "g")
	release()
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the server has not heard of it, and Add returns %v", err)
	}
	if err := w.Add(withTimeout(t), handler, "g"); err != nil {
		t.Error(err)
	}
}

func TestNamesThatWouldBreakTheProtocolAreRefused(t *testing.T) {
	client := gearman.New(quick(t, gearmantest.Start(t, gearmantest.Gearmand).Addr()))
	for name, j := range map[string]gearman.Job{
		"no function":     {},
		"NUL in function": {Function: "a\x00b"},
		"line break":      {Function: "a\nb"},
		"long unique":     {Function: "f", Unique: strings.Repeat("u", 64)},
		"NUL in unique":   {Function: "f", Unique: "a\x00b"},
	} {
		if _, err := client.Do(withTimeout(t), j); err == nil || errors.Is(err, gearman.ErrNoWorker) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for _, function := range []string{"", "a b", "a\x00b", "a\tb"} {
		if err := gearman.NewWorker(quick(t), 1).Add(withTimeout(t), nil, function); err == nil {
			t.Errorf("function %q is accepted", function)
		}
	}
}

func TestInvalidListingsAreErrors(t *testing.T) {
	for answer, want := range map[string]string{
		"f\t1\n":                          `line "f\t1" has fewer than four columns`,
		"f\tx\t0\t0\n":                    `line "f\tx\t0\t0": "x" is not a count`,
		"ERR UNKNOWN_COMMAND no+status\n": `line "ERR UNKNOWN_COMMAND no+status" has fewer than four columns`,
	} {
		o := quick(t, listen(t, func(c net.Conn) { _, _ = c.Write([]byte(answer)) }))
		_, err := gearman.New(o).Status(withTimeout(t))
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("got error  %v\nwant error %s", err, want)
		}
	}
	good := listen(t, func(c net.Conn) { _, _ = c.Write([]byte("with\ttab\t3\t1\t2\nplain\t0\t0\t0\n.\n")) })
	status, err := gearman.New(quick(t, good)).Status(withTimeout(t))
	want := map[string]gearman.Function{"with\ttab": {Queued: 2, Running: 1, Workers: 2}, "plain": {}}
	if diff := cmp.Diff(want, status); diff != "" || err != nil {
		t.Errorf("status (-want +got):\n%s%v", diff, err)
	}
}

// TestAnswerOfALeavingWorkerIsReceived: the worker answers between the query of the workers and that of the job, and leaves.
func TestAnswerOfALeavingWorkerIsReceived(t *testing.T) {
	var left atomic.Bool
	server := listen(t, func(c net.Conn) {
		r := bufio.NewReader(c)
		send := func(kind gearman.Type, args ...string) { _, _ = c.Write(gearman.Response(kind, args...).Append(nil)) }
		for {
			first, err := r.Peek(1)
			if err != nil {
				return
			}
			if first[0] != 0 { // a text command
				_, _ = r.ReadString('\n')
				workers := 1
				if left.Load() {
					workers = 0
				}
				fmt.Fprintf(c, "f\t1\t0\t%d\n.\n", workers)
				continue
			}
			p, err := gearman.ReadPacket(r, 1<<20)
			if err != nil {
				return
			}
			switch {
			case p.Type == gearman.SubmitJob && left.Load():
				t.Error("the job is submitted again")
			case p.Type == gearman.SubmitJob:
				send(gearman.JobCreated, "H:1")
			case p.Type == gearman.GetStatus && !left.Swap(true):
				send(gearman.StatusRes, "H:1", "1", "0", "0", "0")
			case p.Type == gearman.GetStatus:
				send(gearman.WorkComplete, "H:1", "done")
				send(gearman.StatusRes, "H:1", "0", "0", "0", "0")
			}
		}
	})
	j := job("f")
	j.Unique = ""
	if got, err := gearman.New(quick(t, server)).Do(withTimeout(t), j); string(got) != "done" || err != nil {
		t.Errorf("the result is %q, %v", got, err)
	}
}
