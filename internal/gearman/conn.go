package gearman

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

// conn is a bidirectional packet connection. Packets and unsolicited errors arrive at any time and in any order, so
// one goroutine reads all of them and passes them on.
type conn struct {
	net     net.Conn
	server  string
	options Options
	buffer  *bufio.Reader
	packets chan Packet // closed after the last packet
	err     error       // why it ended; set before packets is closed
	gone    chan struct{}
	close   func()
	ended   chan struct{} // the reader has returned
	writing sync.Mutex    // held while writing to net
}

// open connects to a server and starts to read.
func (o Options) open(ctx context.Context, server string) (*conn, error) {
	plain, err := o.dial(ctx, server)
	if err != nil {
		return nil, err
	}
	c := &conn{
		net: plain, server: server, options: o, buffer: bufio.NewReader(plain),
		packets: make(chan Packet, 16), gone: make(chan struct{}), ended: make(chan struct{}),
	}
	c.close = sync.OnceFunc(func() {
		close(c.gone)
		_ = plain.Close()
	})
	go c.read()
	return c, nil
}

// shut closes the connection and waits for its reader.
func (c *conn) shut() {
	c.close()
	<-c.ended
}

func (c *conn) read() {
	defer close(c.ended)
	defer close(c.packets)
	defer c.close()
	for {
		p, err := c.next()
		if err != nil {
			c.err = &serverError{c.server, c.lost(err)}
			return
		}
		select {
		case c.packets <- p:
		case <-c.gone:
			c.err = &serverError{c.server, net.ErrClosed}
			return
		}
	}
}

func (c *conn) lost(err error) error {
	select {
	case <-c.gone:
		return net.ErrClosed
	default:
	}
	if errors.Is(err, io.EOF) {
		return errors.New("it closed the connection")
	}
	return fmt.Errorf("connection lost: %w", err)
}

// next waits for a packet. It pings a silent server and gives it up if it remains silent.
func (c *conn) next() (Packet, error) {
	for asked := false; ; asked = true {
		if err := c.net.SetReadDeadline(time.Now().Add(c.options.KeepAlive)); err != nil {
			return Packet{}, err
		}
		_, err := c.buffer.Peek(1)
		if err == nil {
			break
		}
		if !timedOut(err) {
			return Packet{}, err
		}
		if asked {
			return Packet{}, fmt.Errorf("no response for %s", 2*c.options.KeepAlive)
		}
		if err := c.send(ping("")); err != nil {
			return Packet{}, err
		}
	}
	if err := c.net.SetReadDeadline(time.Now().Add(transfer)); err != nil {
		return Packet{}, err
	}
	return ReadPacket(c.buffer, c.options.MaxPacket)
}

// pingPrefix starts the handle of a job that does not exist.
const pingPrefix = "npctl-ping:"

// ping requests the status of a job that does not exist, which every server answers in order with all earlier
// packets. ECHO_REQ is meant for that, but the Python server never answers it.
func ping(mark string) Packet { return Request(GetStatus, pingPrefix+mark) }

// pong returns the mark of the ping to which the packet responds.
func pong(p Packet) (mark string, ok bool) {
	if p.Type != StatusRes {
		return "", false
	}
	return strings.CutPrefix(p.Args[0], pingPrefix)
}

// send writes packets at once. If that fails half-way it closes the connection.
func (c *conn) send(packets ...Packet) error {
	var bytes []byte
	for _, p := range packets {
		if err := p.check(c.options.MaxPacket); err != nil {
			return err
		}
		bytes = p.Append(bytes)
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	err := c.net.SetWriteDeadline(time.Now().Add(transfer))
	if err == nil {
		_, err = c.net.Write(bytes)
	}
	if err != nil {
		c.close()
		return &serverError{c.server, fmt.Errorf("connection lost: %w", err)}
	}
	return nil
}
