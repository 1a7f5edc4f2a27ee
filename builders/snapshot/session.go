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
	"golang.org/x/sys/unix"

	"github.com/npctl/npctl/internal/process"
)

// After a command has ended its output is awaited until none has come for drain, and drainAtMost in all: what it left
// running may hold it open, or go on printing.
const (
	drain       = 2 * time.Second
	drainAtMost = time.Minute
)

// heard is a writer that knows when it was last written to.
type heard struct {
	io.Writer
	last atomic.Int64 // Unix nanoseconds
}

func (h *heard) Write(p []byte) (int, error) {
	n, err := h.Writer.Write(p)
	h.last.Store(time.Now().UnixNano())
	return n, err
}

// quiet waits until all output has come, or none has for a while.
func (h *heard) quiet(ctx context.Context, all <-chan struct{}) {
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

// ended is how a command ended.
type ended struct {
	code   int
	signal syscall.Signal
}

// run runs a command to its end, or until ctx ends, which closes the connection. The sessions of x/crypto/ssh tell of an
// end only when nobody holds the output open any more, which a daemon that the script started may do for ever.
func (c *connection) run(ctx context.Context, command string, stdin io.Reader, out *process.Transcript) (ended, error) {
	channel, requests, err := c.client.OpenChannel("session", nil)
	if err != nil {
		return ended{}, fmt.Errorf("open a session: %w", err)
	}
	defer channel.Close() //nolint:errcheck // it may be closed already
	result := make(chan ended, 1)
	c.running.Go(func() { await(requests, result) })
	pipe, write := io.Pipe()
	var copying sync.WaitGroup
	to := &heard{Writer: write}
	for _, from := range []io.Reader{channel, channel.Stderr()} {
		copying.Go(func() { _, _ = io.Copy(to, from) })
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		out.Read(pipe)
	}()
	defer func() { // what still comes is not wanted any more
		_ = channel.Close()
		_ = write.Close()
		<-read
	}()
	ok, err := channel.SendRequest("exec", true, ssh.Marshal(struct{ Line string }{command}))
	if err == nil && !ok {
		err = errors.New("the machine refuses to run commands")
	}
	if err != nil {
		return ended{}, fmt.Errorf("run a command: %w", err)
	}
	copying.Go(func() {
		if stdin != nil {
			_, _ = io.Copy(channel, stdin) // a command may end without having read all
		}
		_ = channel.CloseWrite()
	})
	return c.result(ctx, result, &copying, to)
}

// result waits for the end of a command and of its output.
func (c *connection) result(ctx context.Context, result <-chan ended, copying *sync.WaitGroup, to *heard) (ended, error) {
	select {
	case end, told := <-result:
		all := make(chan struct{})
		go func() { copying.Wait(); close(all) }()
		to.quiet(ctx, all)
		if !told {
			return ended{}, errors.New("the machine hung up without telling how the command ended")
		}
		return end, nil
	case <-ctx.Done():
		return ended{}, context.Cause(ctx)
	}
}

// await reads how a command ended from what the server sends (RFC 4254, 6.10). It closes result when that never comes.
func await(requests <-chan *ssh.Request, result chan<- ended) {
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
			result <- ended{code: int(status.Status)}
			return
		case request.Type == "exit-signal" && ssh.Unmarshal(request.Payload, &signal) == nil:
			number := unix.SignalNum("SIG" + signal.Name)
			if number == 0 {
				number = unix.SIGKILL
			}
			result <- ended{code: -1, signal: number}
			return
		}
	}
}
