package gearman

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// Function is the state of a function on the servers.
type Function struct {
	Queued  int // jobs that no worker has started
	Running int
	Workers int // number of worker connections that offer it
}

// Peer is a connection in a server's listing.
type Peer struct {
	Address   string
	Name      string
	Functions []string
}

// maxListing limits the size of a response to a text command.
const maxListing = 32 << 20

// ask sends a text command and calls line for each line of the response, which ends with a line that is a dot.
func (o Options) ask(ctx context.Context, server, command string, line func(string) error) error {
	plain, err := o.dial(ctx, server)
	if err != nil {
		return err
	}
	defer func() { _ = plain.Close() }()
	defer context.AfterFunc(ctx, func() { _ = plain.Close() })()
	if err := plain.SetDeadline(time.Now().Add(o.KeepAlive)); err != nil {
		return &serverError{server, err}
	}
	if _, err := fmt.Fprintln(plain, command); err != nil {
		return &serverError{server, because(ctx, err)}
	}
	err = readListing(plain, line)
	if errors.Is(err, errSilent) && o.TLS == nil {
		err = fmt.Errorf("%w; if it requires TLS, add a tls block", err)
	}
	if err != nil {
		return &serverError{server, fmt.Errorf("command %q: %w", command, because(ctx, err))}
	}
	return nil
}

var errSilent = errors.New("it closed the connection without an answer")

func readListing(r io.Reader, line func(string) error) error {
	limited := &io.LimitedReader{R: r, N: maxListing}
	scanner := bufio.NewScanner(limited)
	scanner.Buffer(nil, maxListing)
	lines := 0
	for ; scanner.Scan(); lines++ {
		text := scanner.Text()
		if text == "." {
			return nil
		}
		if isBinary(text) {
			return errors.New("the server responds with TLS; add a tls block")
		}
		if err := line(text); err != nil {
			return err
		}
	}
	switch {
	case limited.N <= 0:
		return fmt.Errorf("the answer is longer than %d bytes", maxListing)
	case scanner.Err() != nil:
		return scanner.Err()
	case lines == 0:
		return errSilent
	default:
		return errors.New("the answer was cut short")
	}
}

func isBinary(text string) bool { return len(text) >= 3 && isTLS([]byte(text)) }

// status queries the functions of one server.
func (o Options) status(ctx context.Context, server string) (map[string]Function, error) {
	functions := map[string]Function{}
	err := o.ask(ctx, server, "status", func(line string) error {
		name, f, err := parseStatus(line)
		functions[name] = f
		return err
	})
	return functions, err
}

// parseStatus parses "function, jobs, running, workers", separated by tabs. Jobs are queued and running ones
// together.
func parseStatus(line string) (string, Function, error) {
	fields := strings.Split(line, "\t")
	if len(fields) < 4 {
		return "", Function{}, fmt.Errorf("line %q has fewer than four columns", line)
	}
	var numbers [3]int
	for n, field := range fields[len(fields)-3:] {
		number, err := strconv.Atoi(strings.TrimSpace(field))
		if err != nil || number < 0 {
			return "", Function{}, fmt.Errorf("line %q: %q is not a count", line, field)
		}
		numbers[n] = number
	}
	name := strings.Join(fields[:len(fields)-3], "\t")
	return name, Function{Queued: max(0, numbers[0]-numbers[1]), Running: numbers[1], Workers: numbers[2]}, nil
}

// Status returns the functions of all servers that respond: the sum of their jobs, and the highest number of workers,
// since a worker connects to every server. It returns an error when no server responds.
func (c *Client) Status(ctx context.Context) (map[string]Function, error) {
	looks := make([]serverState, len(c.options.Servers))
	err := c.each(ctx, "list functions", func(ctx context.Context, n int, server string) (err error) {
		looks[n].functions, err = c.options.status(ctx, server)
		return err
	})
	return merge(looks), err
}

func merge(looks []serverState) map[string]Function {
	merged := map[string]Function{}
	for _, l := range looks {
		for name, f := range l.functions {
			sum := merged[name]
			merged[name] = Function{sum.Queued + f.Queued, sum.Running + f.Running, max(sum.Workers, f.Workers)}
		}
	}
	return merged
}

// Peers lists the connections of all servers; a worker has one or more to each.
func (c *Client) Peers(ctx context.Context) ([]Peer, error) {
	found := make([][]Peer, len(c.options.Servers))
	err := c.each(ctx, "list connections", func(ctx context.Context, n int, server string) error {
		return c.options.ask(ctx, server, "workers", func(line string) error {
			peer, err := parsePeer(line)
			found[n] = append(found[n], peer)
			return err
		})
	})
	var all []Peer
	for _, peers := range found {
		all = append(all, peers...)
	}
	return all, err
}

// parsePeer parses "fd address name : function function …".
func parsePeer(line string) (Peer, error) {
	head, functions, ok := strings.Cut(line, " :")
	fields := strings.Fields(head)
	if !ok || len(fields) < 3 {
		return Peer{}, fmt.Errorf("line %q describes no connection", line)
	}
	return Peer{Address: fields[1], Name: strings.Join(fields[2:], " "), Functions: strings.Fields(functions)}, nil
}

// each calls look for all servers concurrently. It fails if all of them fail; otherwise it logs the failures.
func (c *Client) each(ctx context.Context, what string, look func(ctx context.Context, n int, server string) error) error {
	var group errgroup.Group
	failed := make([]error, len(c.options.Servers))
	for n, server := range c.options.Servers {
		group.Go(func() error {
			failed[n] = look(ctx, n, server)
			return nil
		})
	}
	_ = group.Wait()
	lost := 0
	for n, err := range failed {
		if err != nil {
			lost++
			c.options.Log.Debug("gearman server does not answer", "server", c.options.Servers[n], "error", err)
		}
	}
	if lost < len(failed) {
		return nil
	}
	return fmt.Errorf("%s: %w", what, oneOf(failed))
}

// oneOf joins errors in one line.
func oneOf(all []error) error {
	switch len(all) {
	case 0:
		return errors.New("there is no gearman server: name at least one")
	case 1:
		return all[0]
	}
	text := make([]string, len(all))
	for n, err := range all {
		text[n] = err.Error()
	}
	return &joined{strings.Join(text, "; "), all}
}

type joined struct {
	text string
	all  []error
}

func (j *joined) Error() string   { return j.text }
func (j *joined) Unwrap() []error { return j.all }
