package gearman

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Client submits jobs and looks at servers. Its methods may be called from several goroutines. It keeps no connection:
// each job has one of its own, so that giving a job up is closing it.
type Client struct{ options Options }

// New makes a client. It connects when it is used.
func New(o Options) *Client { return &Client{options: o.withDefaults()} }

// Job is one job for a worker. Its functions are called one after the other, by Do.
type Job struct {
	Function string
	// Unique names the job: a server lets the same job, submitted again, join the one that it has. At most MaxUnique
	// bytes; empty joins nothing.
	Unique string
	Data   []byte
	// Wait is how long to go on while no server can be reached, or no worker offers the function.
	Wait time.Duration
	// Unless, when set, is asked before each time the job is submitted. It sees the functions of all servers that answer;
	// its error ends the job.
	Unless func(functions map[string]Function) error
	// Waiting, when set, is told why nothing happens.
	Waiting func(why error)
	// Running, when set, is told when a worker has taken the job, and when the job is back in the queue. It may be some
	// seconds late.
	Running func(running bool)
	// Progress, when set, is told what the worker says about it.
	Progress func(done, total int64)
	// Output, when set, gets what the worker sends before the result.
	Output func(data []byte)
}

// MaxUnique is the longest unique that gearmand tells apart from others: of 64 bytes it cuts the last off.
const MaxUnique = 63

// What a job may end with, besides the end of its context.
var (
	// ErrFailed is WORK_FAIL: the worker could not do it, and protocol has no room for a reason.
	ErrFailed = errors.New("the worker failed")
	// ErrNoWorker means that no worker offered the function for as long as the job's Wait.
	ErrNoWorker = errors.New("no worker offers it")
	// ErrForgotten means that the server does not know the job any more, though it has not ended.
	ErrForgotten = errors.New("the server does not know the job any more: somebody cancelled it there")
)

// ExceptionError is WORK_EXCEPTION: the worker met what it did not expect.
type ExceptionError struct{ Text string }

func (e *ExceptionError) Error() string { return "the worker met an exception: " + e.Text }

// RefusedError is what a server answers to a job it does not take.
type RefusedError struct{ Code, Text string }

func (e *RefusedError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("it refused the job: %s %s", e.Code, e.Text))
}

// again is an error after which the job is submitted anew.
type again struct{ error }

func (a again) Unwrap() error { return a.error }

// Do has a worker do the job and returns its result. When the connection is lost, or the workers of one server
// disappear, the job is submitted again, with the same unique, where there are workers.
func (c *Client) Do(ctx context.Context, job Job) ([]byte, error) {
	if err := job.check(); err != nil {
		return nil, err
	}
	pause := backOff(c.options.Check)
	stuck := time.Now()
	for {
		begun := time.Now()
		data, err := c.once(ctx, job)
		var retry again
		if !errors.As(err, &retry) {
			return data, err
		}
		if time.Since(begun) > c.options.KeepAlive { // it had been going well
			pause.Reset()
			stuck = time.Now()
		}
		if time.Since(stuck) >= job.Wait {
			return nil, retry.error
		}
		if job.Waiting != nil {
			job.Waiting(retry.error)
		}
		if err := sleep(ctx, pause.NextBackOff()); err != nil {
			return nil, err
		}
	}
}

func (c *Client) once(ctx context.Context, job Job) ([]byte, error) {
	server, err := c.place(ctx, job)
	if err != nil {
		return nil, err
	}
	data, err := c.submit(ctx, server, job)
	if ctx.Err() != nil && err != nil {
		return nil, context.Cause(ctx)
	}
	return data, err
}

func (j Job) check() error {
	if j.Function == "" || strings.ContainsAny(j.Function, "\x00\t\r\n") {
		return fmt.Errorf("%q cannot be the name of a gearman function", j.Function)
	}
	if len(j.Unique) > MaxUnique || strings.Contains(j.Unique, "\x00") {
		return fmt.Errorf("%q cannot name a gearman job: at most %d bytes, and no NUL", j.Unique, MaxUnique)
	}
	return nil
}

// look is what one server was found to have.
type look struct {
	knows     bool // the job
	workers   int  // of the job's function
	functions map[string]Function
	err       error
}

// place chooses a server: the one that has the job already, or else one that has workers for it; and among those the
// same one for the same unique, as far as it can be reached.
func (c *Client) place(ctx context.Context, job Job) (string, error) {
	looks := make([]look, len(c.options.Servers))
	err := c.each(ctx, "submit "+job.Function, func(ctx context.Context, n int, server string) error {
		looks[n] = c.look(ctx, server, job)
		return looks[n].err
	})
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if err != nil {
		return "", again{err}
	}
	if job.Unless != nil {
		if err := job.Unless(merge(looks)); err != nil {
			return "", err
		}
	}
	best, most := -1, 0
	for _, n := range c.order(job.Unique) {
		if worth := looks[n].worth(); worth > most {
			best, most = n, worth
		}
	}
	if best < 0 {
		return "", again{c.noWorker(job.Function, looks)}
	}
	return c.options.Servers[best], nil
}

// noWorker names the servers that were asked, and those that could not be.
func (c *Client) noWorker(function string, looks []look) error {
	var asked, lost []string
	for n, l := range looks {
		if l.err != nil {
			lost = append(lost, l.err.Error())
		} else {
			asked = append(asked, c.options.Servers[n])
		}
	}
	text := strings.Join(asked, ", ")
	if len(lost) > 0 {
		text += " (and nobody knows about " + strings.Join(lost, "; ") + ")"
	}
	return fmt.Errorf("%s: %w at %s", function, ErrNoWorker, text)
}

func (l look) worth() int {
	switch {
	case l.err != nil || l.workers == 0:
		return 0
	case l.knows:
		return 2
	default:
		return 1
	}
}

func (c *Client) look(ctx context.Context, server string, job Job) look {
	functions, err := c.options.status(ctx, server)
	if err != nil {
		return look{err: err}
	}
	l := look{workers: functions[job.Function].Workers, functions: functions}
	if job.Unique != "" && len(c.options.Servers) > 1 {
		found, err := c.options.find(ctx, server, job.Unique)
		l.knows = err == nil && found.Known
	}
	return l
}

// order lists the servers by their rank for a job, so that all clients choose the same one and jobs are spread.
func (c *Client) order(unique string) []int {
	order := make([]int, len(c.options.Servers))
	ranks := make([]string, len(order))
	for n, server := range c.options.Servers {
		sum := sha256.Sum256([]byte(server + "\x00" + unique))
		order[n], ranks[n] = n, string(sum[:])
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(ranks[a], ranks[b]) })
	return order
}

// backOff is how long to wait after one failure after another: from half a second, with jitter.
func backOff(most time.Duration) *backoff.ExponentialBackOff {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval = min(500*time.Millisecond, most)
	pause.MaxInterval = most
	pause.Reset()
	return pause
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
