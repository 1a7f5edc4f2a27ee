// Package gearman implements the gearman job protocol: a client that submits jobs, a worker that runs them, and the text
// commands that query a server.
//
// A packet is a magic ("\0REQ" or "\0RES"), a type and a size, both 32 bits in big-endian order, and arguments separated
// by NUL, the last of which may contain NULs. The reader accepts both magics, because the Python server sends its own
// WORK_FAIL with the wrong one. The protocol is described at http://gearman.org/protocol/; the actual behaviour of the
// servers was observed on gearmand 1.1.20 and read in the Python library gear 0.16.
package gearman

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Type is the type of a packet.
type Type uint32

// The types of packets, from http://gearman.org/protocol/.
const (
	CanDo           Type = 1  // function
	CantDo          Type = 2  // function
	PreSleep        Type = 4  //
	Noop            Type = 6  //
	SubmitJob       Type = 7  // function, unique, data
	JobCreated      Type = 8  // handle
	NoJob           Type = 10 //
	JobAssign       Type = 11 // handle, function, data
	WorkStatus      Type = 12 // handle, numerator, denominator
	WorkComplete    Type = 13 // handle, data
	WorkFail        Type = 14 // handle
	GetStatus       Type = 15 // handle
	EchoReq         Type = 16 // anything
	EchoRes         Type = 17 // the same
	Error           Type = 19 // code, text
	StatusRes       Type = 20 // handle, known, running, numerator, denominator
	SetClientID     Type = 22 // name
	WorkException   Type = 25 // handle, text
	OptionReq       Type = 26 // option
	OptionRes       Type = 27 // option
	WorkData        Type = 28 // handle, data
	WorkWarning     Type = 29 // handle, data
	GrabJobUniq     Type = 30 //
	JobAssignUniq   Type = 31 // handle, function, unique, data
	GetStatusUnique Type = 41 // unique
	StatusResUnique Type = 42 // unique, known, running, numerator, denominator, clients waiting
)

// shape describes the arguments of a packet type.
type shape struct {
	name      string
	arguments int
	open      bool // the last argument is data, which may contain NULs
}

var shapes = map[Type]shape{
	CanDo: {"CAN_DO", 1, false}, CantDo: {"CANT_DO", 1, false}, PreSleep: {"PRE_SLEEP", 0, false},
	Noop: {"NOOP", 0, false}, SubmitJob: {"SUBMIT_JOB", 3, true}, JobCreated: {"JOB_CREATED", 1, false},
	NoJob: {"NO_JOB", 0, false}, JobAssign: {"JOB_ASSIGN", 3, true}, WorkStatus: {"WORK_STATUS", 3, false},
	WorkComplete: {"WORK_COMPLETE", 2, true}, WorkFail: {"WORK_FAIL", 1, false}, GetStatus: {"GET_STATUS", 1, false},
	EchoReq: {"ECHO_REQ", 1, true}, EchoRes: {"ECHO_RES", 1, true}, Error: {"ERROR", 2, false},
	StatusRes: {"STATUS_RES", 5, false}, SetClientID: {"SET_CLIENT_ID", 1, false},
	WorkException: {"WORK_EXCEPTION", 2, true}, OptionReq: {"OPTION_REQ", 1, false}, OptionRes: {"OPTION_RES", 1, false},
	WorkData: {"WORK_DATA", 2, true}, WorkWarning: {"WORK_WARNING", 2, true}, GrabJobUniq: {"GRAB_JOB_UNIQ", 0, false},
	JobAssignUniq: {"JOB_ASSIGN_UNIQ", 4, true}, GetStatusUnique: {"GET_STATUS_UNIQUE", 1, false},
	StatusResUnique: {"STATUS_RES_UNIQUE", 6, false},
}

func (t Type) String() string {
	if s, ok := shapes[t]; ok {
		return s.name
	}
	return fmt.Sprintf("packet type %d", uint32(t))
}

// Packet is one packet. A packet of an unknown type has a single argument.
type Packet struct {
	Response bool // the magic is \0RES
	Type     Type
	Args     []string
}

// Request returns a packet for a server.
func Request(t Type, args ...string) Packet { return Packet{Type: t, Args: args} }

// Response returns a packet from a server.
func Response(t Type, args ...string) Packet { return Packet{Response: true, Type: t, Args: args} }

const (
	magicRequest  = "\x00REQ"
	magicResponse = "\x00RES"
	headerSize    = 12
)

// Append appends the encoded packet.
func (p Packet) Append(to []byte) []byte {
	magic := magicRequest
	if p.Response {
		magic = magicResponse
	}
	body := strings.Join(p.Args, "\x00")
	to = append(to, magic...)
	to = binary.BigEndian.AppendUint32(to, uint32(p.Type))
	to = binary.BigEndian.AppendUint32(to, uint32(len(body)))
	return append(to, body...)
}

// check returns an error if the packet cannot be encoded.
func (p Packet) check(limit int) error {
	size := 0
	s, known := shapes[p.Type]
	for n, arg := range p.Args {
		size += len(arg) + 1
		if strings.Contains(arg, "\x00") && (n < len(p.Args)-1 || known && !s.open) {
			return fmt.Errorf("%s: argument %q holds a NUL, which separates arguments", p.Type, arg)
		}
	}
	if size > limit {
		return fmt.Errorf("%s of %d bytes is too large: the limit is %d", p.Type, size, limit)
	}
	return nil
}

// ReadPacket reads one packet with at most limit bytes of arguments. It returns io.EOF if there is no further packet.
func ReadPacket(r io.Reader, limit int) (Packet, error) {
	header := make([]byte, headerSize)
	if n, err := io.ReadFull(r, header); err != nil {
		return Packet{}, cut(err, n, headerSize, "header of a packet")
	}
	magic, kind, size := string(header[:4]), Type(binary.BigEndian.Uint32(header[4:])), binary.BigEndian.Uint32(header[8:])
	if magic != magicRequest && magic != magicResponse {
		return Packet{}, describeBytes(header)
	}
	if uint64(size) > uint64(limit) {
		return Packet{}, fmt.Errorf("%s of %d bytes is too large: the limit is %d", kind, size, limit)
	}
	// The buffer grows with the received bytes, regardless of the size in the header.
	var body bytes.Buffer
	n, err := io.CopyN(&body, r, int64(size))
	if err != nil {
		return Packet{}, cut(err, int(n), int(size), kind.String())
	}
	args, err := split(kind, body.String())
	return Packet{Response: magic == magicResponse, Type: kind, Args: args}, err
}

// split separates the arguments. Some servers end the last one with a NUL that cannot be part of it.
func split(kind Type, body string) ([]string, error) {
	s, known := shapes[kind]
	if !known {
		return []string{body}, nil
	}
	if s.arguments == 0 {
		return nil, nil
	}
	args := strings.SplitN(body, "\x00", s.arguments)
	if len(args) < s.arguments {
		return nil, fmt.Errorf("%s has %d of %d arguments", kind, len(args), s.arguments)
	}
	if !s.open {
		args[len(args)-1], _, _ = strings.Cut(args[len(args)-1], "\x00")
	}
	return args, nil
}

func cut(err error, got, want int, what string) error {
	if got == 0 && want == headerSize && errors.Is(err, io.EOF) {
		return io.EOF
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("%s was cut after %d of %d bytes: %w", what, got, want, err)
}

// describeBytes explains bytes that are not a packet.
func describeBytes(header []byte) error {
	if isTLS(header) {
		return errors.New("the server responds with TLS; add a tls block")
	}
	return fmt.Errorf("the server does not speak gearman: it sent %q", header)
}

// isTLS reports whether the bytes are a TLS alert or handshake record.
func isTLS(header []byte) bool {
	return (header[0] == 0x15 || header[0] == 0x16) && header[1] == 0x03 && header[2] <= 0x04
}
