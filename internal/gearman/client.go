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

	"github.com/npctl/npctl/internal/waits"
)

// Client submits jobs and queries servers. Several goroutines may call its methods. It has no permanent connection:
// each job has its own, and closing that connection abandons the job.
type Client struct{ options Options }

// New returns a Client. It connects on use.
func New(o Options) *Client { return &Client{options: o.withDefaults()} }

// Job is one job for a worker. Do calls its functions one after the other.
type Job struct {
	Function string
	// Unique identifies the job: a server joins a submission with the unique of an existing job to that job. At most
	// MaxUnique bytes; an empty unique joins nothing.
	Unique string
	Data   []byte
	// Wait is the time to retry while no server is reachable or no worker offers the function.
	Wait time.Duration
	// Precheck, if not nil, is called before each submission with the functions of all servers that respond. Its
	// error ends the job.
	Precheck func(functions map[string]Function) error
	// Waiting, if not nil, receives the reason why the job waits.
	Waiting func(why error)
	// Running, if not nil, is called when a worker has started the job, and when the job is back in the queue. The
	// call may be some seconds late.
	Running func(running bool)
	// Progress, if not nil, receives the worker's progress reports.
	Progress func(done, total int64)
	// Output, if not nil, receives the data that the worker sends before the result.
	Output func(data []byte)
}

// MaxUnique is the maximum length of a unique in bytes. gearmand truncates 64 bytes by one.
const MaxUnique = 63

// The errors with which a job may end, besides the end of its context.
var (
	// ErrFailed is WORK_FAIL: the worker failed; the protocol has no field for a reason.
	ErrFailed = errors.New("the worker failed")
	// ErrNoWorker means that no worker offered the function within the job's Wait.
	ErrNoWorker = errors.New("no worker offers the function")
	// ErrForgotten means that the server no longer knows the unfinished job.
	ErrForgotten = errors.New("the server no longer has the job; an administrator cancelled it there")
)

// ExceptionError is WORK_EXCEPTION: the worker had an unexpected error.
type ExceptionError struct{ Text string }

func (e *ExceptionError) Error() string { return "the worker raised an exception: " + e.Text }

// refusedError is a server's response to a job that it rejects.
type refusedError struct{ Code, Text string }

func (e *refusedError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("it refused the job: %s %s", e.Code, e.Text))
}

// retryableError is an error after which the job is submitted again.
type retryableError struct{ error }

func (a retryableError) Unwrap() error { return a.error }

// Do runs the job on a worker and returns its result. When the connection is lost, or the workers of one server
// disappear, Do submits the job again, with the same unique, to a server with workers.
func (c *Client) Do(ctx context.Context, job Job) ([]byte, error) {
	if err := job.check(); err != nil {
		return nil, err
	}
	pause := backOff(c.options.Check)
	stuck := time.Now()
	for {
		begun := time.Now()
		data, err := c.once(ctx, job)
		var retry retryableError
		if !errors.As(err, &retry) {
			return data, err
		}
		if time.Since(begun) > c.options.KeepAlive { // the connection was stable
			pause.Reset()
			stuck = time.Now()
		}
		if time.Since(stuck) >= job.Wait {
			return nil, retry.error
		}
		if job.Waiting != nil {
			job.Waiting(retry.error)
		}
		if err := waits.Sleep(ctx, pause.NextBackOff()); err != nil {
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

// serverState is the state of a job and its function on one server.
type serverState struct {
	knows     bool // the job
	workers   int  // of the job's function
	functions map[string]Function
	err       error
}

// place selects a server: the server with the job, or else a server with workers for it. Among several it prefers the
// same one for the same unique, if it is reachable.
func (c *Client) place(ctx context.Context, job Job) (string, error) {
	looks := make([]serverState, len(c.options.Servers))
	err := c.each(ctx, "submit "+job.Function, func(ctx context.Context, n int, server string) error {
		looks[n] = c.look(ctx, server, job)
		return looks[n].err
	})
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if err != nil {
		return "", retryableError{err}
	}
	if job.Precheck != nil {
		if err := job.Precheck(merge(looks)); err != nil {
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
		return "", retryableError{c.noWorker(job.Function, looks)}
	}
	return c.options.Servers[best], nil
}

// noWorker returns an error that names the servers without workers and the unreachable ones.
func (c *Client) noWorker(function string, looks []serverState) error {
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
		text += " (unknown: " + strings.Join(lost, "; ") + ")"
	}
	return fmt.Errorf("%s: %w at %s", function, ErrNoWorker, text)
}

func (l serverState) worth() int {
	switch {
	case l.err != nil || l.workers == 0:
		return 0
	case l.knows:
		return 2
	default:
		return 1
	}
}

func (c *Client) look(ctx context.Context, server string, job Job) serverState {
	functions, err := c.options.status(ctx, server)
	if err != nil {
		return serverState{err: err}
	}
	l := serverState{workers: functions[job.Function].Workers, functions: functions}
	if job.Unique != "" && len(c.options.Servers) > 1 {
		found, err := c.options.find(ctx, server, job.Unique)
		l.knows = err == nil && found.Known
	}
	return l
}

// order ranks the servers for a job, so that all clients choose the same one and jobs are distributed.
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

// backOff returns the backoff after consecutive failures: from half a second, with jitter.
func backOff(most time.Duration) *backoff.ExponentialBackOff {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval = min(500*time.Millisecond, most)
	pause.MaxInterval = most
	pause.Reset()
	return pause
}
