package gearman

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// Found is a server's state of an unfinished job.
type Found struct {
	Server      string
	Known       bool
	Running     bool
	Done, Total int64
	Clients     int // number of waiting clients
}

// Find searches for a job by its unique. Servers without that query, such as the Python server, count as not knowing
// the job. It returns an error when no server responds.
func (c *Client) Find(ctx context.Context, unique string) (Found, error) {
	found := make([]Found, len(c.options.Servers))
	err := c.each(ctx, "find job "+unique, func(ctx context.Context, n int, server string) (err error) {
		found[n], err = c.options.find(ctx, server, unique)
		return err
	})
	for _, f := range found {
		if f.Known {
			return f, err
		}
	}
	return Found{}, err
}

// find queries one server. Every server answers the ping that follows the query, so a server without support for the
// query differs from one that does not respond.
func (o Options) find(ctx context.Context, server, unique string) (Found, error) {
	conn, err := o.open(ctx, server)
	if err != nil {
		return Found{}, err
	}
	defer conn.shut()
	if err := conn.send(Request(GetStatusUnique, unique), ping("find")); err != nil {
		return Found{}, err
	}
	timer := time.NewTimer(2 * o.KeepAlive)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return Found{}, context.Cause(ctx)
		case <-timer.C:
			return Found{}, &serverError{server, fmt.Errorf("no response about job %s", unique)}
		case p, ok := <-conn.packets:
			if !ok {
				return Found{}, conn.err
			}
			if p.Type == StatusResUnique && p.Args[0] == unique {
				return foundIn(server, p.Args), nil
			}
			if _, ok := pong(p); ok {
				return Found{}, nil
			}
		}
	}
}

// foundIn parses unique, known, running, numerator, denominator, clients. Numbers may be empty.
func foundIn(server string, args []string) Found {
	number := func(n int) int64 {
		value, _ := strconv.ParseInt(args[n], 10, 64)
		return value
	}
	return Found{
		Server: server, Known: args[1] != "0", Running: args[2] != "0",
		Done: number(3), Total: number(4), Clients: int(number(5)),
	}
}
