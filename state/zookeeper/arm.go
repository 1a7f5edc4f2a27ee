package zookeeper

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"
)

// The client library knows no persistent recursive watches (ZooKeeper's opcode addWatch; in the library they are pull
// requests 89 and 122), and asks for no others of its own. So the connection asks for them, before the library may send
// anything: the events are such as the library hands on anyway. A watch ends with its connection, and each new one asks
// again. That is all this file does; with a library that can, it goes.
//
// Frames are a length of four bytes and as much content. A request begins with its number and its opcode, an answer with
// the number, the zxid and an error code; see zookeeper.jute in ZooKeeper's source.
const (
	opAddWatch      = 106
	modeRecursive   = 1
	noticeNumber    = -1   // of events
	armNumber       = -120 // of our requests; the library counts upwards from 1, and -1, -2, -4 and -8 have a meaning
	maxFrame        = 64 << 20
	connectedHeader = 8 // bytes of an answer to a connect request up to the end of the session timeout
	armTimeout      = 10 * time.Second
)

// errNoWatch says that the server is too old.
var errNoWatch = errors.New("the server knows no persistent watches: ZooKeeper 3.6 or later is needed")

// armedConn asks for watches at the start of a session and takes the answers out of what the library reads.
type armedConn struct {
	net.Conn
	paths []string
	heard *atomic.Int64 // when the server heard us for sure, in nanoseconds since 1970
	asked atomic.Int64  // when something was sent, after the newest answer was read; 0 when nothing was
	// granted is the timeout of the session, in nanoseconds.
	granted *atomic.Int64
	fail    func(error) // is told what ends the connection

	greeted bool   // the answer to the connect request has been read
	rest    []byte // of the frame that the library reads
}

// Read implements net.Conn. It hands on whole frames, so that one of ours never shows.
func (c *armedConn) Read(p []byte) (int, error) {
	for len(c.rest) == 0 {
		frame, err := c.frame()
		if err != nil {
			c.fail(err)
			return 0, err
		}
		switch {
		case !c.greeted:
			c.greeted = true
			if err := c.arm(frame[4:]); err != nil {
				c.fail(err)
				return 0, err
			}
		case c.ours(frame[4:]):
			if code := int32(binary.BigEndian.Uint32(frame[16:])); code != 0 {
				err := fmt.Errorf("%w (error code %d)", errNoWatch, code)
				c.fail(err)
				return 0, err
			}
			continue
		}
		c.rest = frame
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// frame reads the next frame with its length.
func (c *armedConn) frame() ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(c.Conn, head[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > maxFrame {
		return nil, fmt.Errorf("a packet of %d bytes: this is no ZooKeeper", size)
	}
	frame := make([]byte, 4+size)
	copy(frame, head[:])
	_, err := io.ReadFull(c.Conn, frame[4:])
	if notice := size >= 4 && int32(binary.BigEndian.Uint32(frame[4:])) == noticeNumber && c.greeted; !notice {
		c.answered()
	}
	return frame, err
}

// answered notes that the server has heard something that was sent after the answer before. When this one was read says
// nothing: a process that was stopped reads what has come meanwhile. Events say nothing either, since nobody asked for them.
func (c *armedConn) answered() {
	if sent := c.asked.Swap(0); sent != 0 {
		c.heard.Store(sent)
	}
}

// Write implements net.Conn.
func (c *armedConn) Write(p []byte) (int, error) {
	c.asked.CompareAndSwap(0, time.Now().UnixNano())
	return c.Conn.Write(p)
}

func (c *armedConn) ours(content []byte) bool {
	return len(content) >= 16 && int32(binary.BigEndian.Uint32(content)) == armNumber
}

// arm sends the requests, unless the answer to the connect request says that the session is no more.
func (c *armedConn) arm(answer []byte) error {
	if len(answer) < connectedHeader || int32(binary.BigEndian.Uint32(answer[4:])) <= 0 {
		return nil
	}
	c.granted.Store(int64(time.Duration(binary.BigEndian.Uint32(answer[4:])) * time.Millisecond))
	var requests []byte
	for _, path := range c.paths {
		requests = append(requests, watchRequest(path)...)
	}
	if err := c.SetWriteDeadline(time.Now().Add(armTimeout)); err != nil {
		return err
	}
	_, err := c.Write(requests)
	return errors.Join(err, c.SetWriteDeadline(time.Time{}))
}

func watchRequest(path string) []byte {
	number := int32(armNumber)
	body := binary.BigEndian.AppendUint32(nil, uint32(number))
	body = binary.BigEndian.AppendUint32(body, opAddWatch)
	body = binary.BigEndian.AppendUint32(body, uint32(len(path)))
	body = append(body, path...)
	body = binary.BigEndian.AppendUint32(body, modeRecursive)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}
