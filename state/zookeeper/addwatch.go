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

// The client library does not implement persistent recursive watches (ZooKeeper's opcode addWatch; in the library, pull
// requests 89 and 122) and sets no watches of its own. watchConn therefore sends the addWatch requests itself, before
// the library can send anything in the session; the library delivers the events like those of other watches. A watch
// ends with its connection, so each new connection sends the requests again. A library that supports such watches makes
// this file obsolete.
//
// A frame is a length of four bytes, then the content. A request starts with its xid and opcode, a response with the
// xid, the zxid and an error code; see zookeeper.jute in ZooKeeper's source.
const (
	opAddWatch      = 106
	modeRecursive   = 1
	noticeNumber    = -1   // xid of events
	armNumber       = -120 // xid of addWatch requests; the library counts up from 1, and -1, -2, -4 and -8 are reserved
	maxFrame        = 64 << 20
	connectedHeader = 8 // bytes of a connect response up to the end of the session timeout
	armTimeout      = 10 * time.Second
)

// errNoWatch is returned when the server is too old.
var errNoWatch = errors.New("the server does not support persistent watches: use ZooKeeper 3.6 or later")

// watchConn sends the addWatch requests at the start of a session and hides their responses from the library.
type watchConn struct {
	net.Conn
	paths           []string
	lastHeard       *atomic.Int64 // when the server received data for certain, in nanoseconds since 1970
	unansweredSince atomic.Int64  // first write since the newest answer, in nanoseconds since 1970; 0 if none
	// granted is the session timeout that the server granted, in nanoseconds.
	granted *atomic.Int64
	zxid    *atomic.Int64 // of the newest transaction that an answer has named
	fail    func(error)   // receives the error that ends the connection

	connectAnswered bool   // the connect response has been read
	rest            []byte // unread part of the current frame
}

// Read implements net.Conn. It returns whole frames only, so that responses to addWatch never reach the library.
func (c *watchConn) Read(p []byte) (int, error) {
	for len(c.rest) == 0 {
		frame, err := c.frame()
		if err != nil {
			c.fail(err)
			return 0, err
		}
		switch {
		case !c.connectAnswered:
			c.connectAnswered = true
			if err := c.sendAddWatch(frame[4:]); err != nil {
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
		default:
			c.noteTransaction(frame[4:])
		}
		c.rest = frame
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// frame reads the next frame with its length.
func (c *watchConn) frame() ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(c.Conn, head[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > maxFrame {
		return nil, fmt.Errorf("packet of %d bytes: the server is not ZooKeeper", size)
	}
	frame := make([]byte, 4+size)
	copy(frame, head[:])
	_, err := io.ReadFull(c.Conn, frame[4:])
	if notice := size >= 4 && int32(binary.BigEndian.Uint32(frame[4:])) == noticeNumber && c.connectAnswered; !notice {
		c.answered()
	}
	return frame, err
}

// noteTransaction keeps the zxid of an answer, as the library does.
func (c *watchConn) noteTransaction(content []byte) {
	if len(content) < 16 || int32(binary.BigEndian.Uint32(content)) == noticeNumber {
		return
	}
	if zxid := int64(binary.BigEndian.Uint64(content[4:])); zxid > 0 {
		c.zxid.Store(zxid)
	}
}

// answered records that the server has received the data written since the previous answer. The time at which this
// answer was read proves nothing, because a process that was stopped reads old data late. Events prove nothing either,
// because they answer no request.
func (c *watchConn) answered() {
	if sent := c.unansweredSince.Swap(0); sent != 0 {
		c.lastHeard.Store(sent)
	}
}

// Write implements net.Conn.
func (c *watchConn) Write(p []byte) (int, error) {
	c.unansweredSince.CompareAndSwap(0, time.Now().UnixNano())
	return c.Conn.Write(p)
}

func (c *watchConn) ours(content []byte) bool {
	return len(content) >= 16 && int32(binary.BigEndian.Uint32(content)) == armNumber
}

// sendAddWatch sends the requests, unless the connect response says that the session has ended.
func (c *watchConn) sendAddWatch(answer []byte) error {
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
