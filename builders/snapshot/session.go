package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/npctl/npctl/internal/host"
	"github.com/npctl/npctl/internal/process"
)

// After a command has ended, its output is read until none arrives for drain, at most for drainAtMost: background
// processes of the command may keep the output open or continue to print.
const (
	drain       = 2 * time.Second
	drainAtMost = time.Minute
)

// activityWriter is a writer that records the time of its last write.
type activityWriter struct {
	io.Writer
	last atomic.Int64 // Unix nanoseconds
}

func (h *activityWriter) Write(p []byte) (int, error) {
	n, err := h.Writer.Write(p)
	h.last.Store(time.Now().UnixNano())
	return n, err
}

// quiet waits until all output has been read, or none has arrived for drain.
func (h *activityWriter) quiet(ctx context.Context, all <-chan struct{}) {
	ended := time.Now()
	for wait := drain; wait > 0; {
		select {
		case <-all:
			return
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		last := time.Unix(0, h.last.Load())
		if last.Before(ended) {
			last = ended
		}
		wait = min(drain-time.Since(last), drainAtMost-time.Since(ended))
	}
}

// exitStatus is the exit status of a command.
type exitStatus struct {
	code   int
	signal syscall.Signal
}

// run runs a command until it ends or ctx is done, which closes the connection. It does not use the sessions of
// x/crypto/ssh, because they report the end of a command only when no process holds its output open any more, which a
// daemon that the script started may do forever.
func (c *connection) run(ctx context.Context, command string, stdin io.Reader, out *process.Transcript) (exitStatus, error) {
	channel, requests, err := c.client.OpenChannel("session", nil)
	if err != nil {
		return exitStatus{}, fmt.Errorf("open a session: %w", err)
	}
	defer channel.Close() //nolint:errcheck // the session may be closed already
	result := make(chan exitStatus, 1)
	c.running.Go(func() { await(requests, result) })
	pipe, write := io.Pipe()
	var copying sync.WaitGroup
	to := &activityWriter{Writer: write}
	for _, from := range []io.Reader{channel, channel.Stderr()} {
		copying.Go(func() { _, _ = io.Copy(to, from) })
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		out.Read(pipe)
	}()
	defer func() { // later output is discarded
		_ = channel.Close()
		_ = write.Close()
		<-read
	}()
	ok, err := channel.SendRequest("exec", true, ssh.Marshal(struct{ Line string }{command}))
	if err == nil && !ok {
		err = errors.New("the instance refuses to run commands")
	}
	if err != nil {
		return exitStatus{}, fmt.Errorf("run a command: %w", err)
	}
	copying.Go(func() {
		if stdin != nil {
			_, _ = io.Copy(channel, stdin) // a command may end before it has read all of it
		}
		_ = channel.CloseWrite()
	})
	return c.result(ctx, result, &copying, to)
}

// result waits for the end of a command and of its output.
func (c *connection) result(ctx context.Context, result <-chan exitStatus, copying *sync.WaitGroup, to *activityWriter) (exitStatus, error) {
	select {
	case end, told := <-result:
		all := make(chan struct{})
		go func() { copying.Wait(); close(all) }()
		to.quiet(ctx, all)
		if !told {
			return exitStatus{}, errors.New("the instance closed the connection without the exit status of the command")
		}
		return end, nil
	case <-ctx.Done():
		return exitStatus{}, context.Cause(ctx)
	}
}

// await reads the exit status of a command from the requests of the server (RFC 4254, 6.10). It closes result if the
// server sends none.
func await(requests <-chan *ssh.Request, result chan<- exitStatus) {
	defer close(result)
	defer ssh.DiscardRequests(requests)
	for request := range requests {
		if request.WantReply {
			_ = request.Reply(false, nil)
		}
		var status struct{ Status uint32 }
		var signal struct {
			Name     string
			Core     bool
			Message  string
			Language string
		}
		switch {
		case request.Type == "exit-status" && ssh.Unmarshal(request.Payload, &status) == nil:
			result <- exitStatus{code: int(status.Status)}
			return
		case request.Type == "exit-signal" && ssh.Unmarshal(request.Payload, &signal) == nil:
			result <- exitStatus{code: -1, signal: host.Signal(signal.Name)}
			return
		}
	}
}

// downLimit limits the time for the shutdown of the instance. If the instance does not shut down in time, npctl makes
// the snapshot anyway.
const downLimit = time.Minute

// shutDown shuts the instance down and waits until the connection ends, so that no file in the image is half written.
func (b *build) shutDown(ctx context.Context, c *connection) {
	if !b.Shutdown || b.ShutdownCommand == "" {
		return
	}
	b.report("shutting the instance down", 0, 0)
	b.logf("shutting the instance down")
	ctx, cancel := context.WithTimeoutCause(ctx, downLimit, fmt.Errorf("not done after %s", downLimit))
	defer cancel()
	transcript := process.NewTranscript(process.Spec{Log: b.log, LogLimit: 64 << 10, Secrets: b.secrets})
	end, err := c.run(ctx, "exec /bin/sh -c "+quote(b.ShutdownCommand), nil, transcript)
	if err == nil && end.code != 0 {
		b.logf("shutdown_command ended with exit code %d; the snapshot is taken while the instance runs", end.code)
		return
	}
	select {
	case <-c.gone:
		b.logf("the instance has closed the connection")
	case <-ctx.Done():
		b.logf("the instance still runs after %s; the snapshot is taken anyway", downLimit)
	}
}
