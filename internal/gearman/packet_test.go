package gearman_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/internal/gearman"
)

func TestPacketsAreReadAsWritten(t *testing.T) {
	for _, test := range []struct {
		name, bytes string
		want        gearman.Packet
	}{
		{"no arguments", "\x00REQ\x00\x00\x00\x1e\x00\x00\x00\x00", gearman.Request(gearman.GrabJobUniq)},
		{"empty data", "\x00RES\x00\x00\x00\x0d\x00\x00\x00\x04H:1\x00", gearman.Response(gearman.WorkComplete, "H:1", "")},
		{"data with NULs", "\x00RES\x00\x00\x00\x1f\x00\x00\x00\x0bH\x00f\x00\x00a\x00b\x00\x00c", gearman.Response(gearman.JobAssignUniq, "H", "f", "", "a\x00b\x00\x00c")},
		{"unknown type", "\x00RES\x00\x00\x01\x00\x00\x00\x00\x03a\x00b", gearman.Response(256, "a\x00b")},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := gearman.ReadPacket(strings.NewReader(test.bytes), 100)
			if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
				t.Errorf("read (-want +got):\n%s%v", diff, err)
			}
			if written := string(got.Append(nil)); written != test.bytes {
				t.Errorf("written %q, want %q", written, test.bytes)
			}
		})
	}
}

func TestServerSpecificPacketsAreRead(t *testing.T) {
	for _, test := range []struct {
		name, bytes string
		want        gearman.Packet
	}{
		{"a failure with gearmand's trailing NUL", "\x00RES\x00\x00\x00\x0e\x00\x00\x00\x04H:1\x00", gearman.Response(gearman.WorkFail, "H:1")},
		{"a failure with the Python server's magic", "\x00REQ\x00\x00\x00\x0e\x00\x00\x00\x03H:1", gearman.Request(gearman.WorkFail, "H:1")},
		{"a status with empty numbers", "\x00RES\x00\x00\x00\x14\x00\x00\x00\x08H\x001\x000\x00\x00\x00", gearman.Response(gearman.StatusRes, "H", "1", "0", "", "")},
		{"an error with a trailing NUL", "\x00RES\x00\x00\x00\x13\x00\x00\x00\x050\x00no\x00", gearman.Response(gearman.Error, "0", "no")},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := gearman.ReadPacket(strings.NewReader(test.bytes), 100)
			if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
				t.Errorf("read (-want +got):\n%s%v", diff, err)
			}
		})
	}
}

func TestBadPacketsAreExplained(t *testing.T) {
	for _, test := range []struct{ name, bytes, want string }{
		{"cut in the header", "\x00RES\x00\x00", "header of a packet was cut after 6 of 12 bytes: unexpected EOF"},
		{"cut in the arguments", "\x00RES\x00\x00\x00\x0d\x00\x00\x00\x09H:1\x00ab", "WORK_COMPLETE was cut after 6 of 9 bytes: unexpected EOF"},
		{"cut before the arguments", "\x00RES\x00\x00\x00\x0d\x00\x00\x00\x09", "WORK_COMPLETE was cut after 0 of 9 bytes: unexpected EOF"},
		{"huge", "\x00RES\x00\x00\x00\x1c\xff\xff\xff\xff", "WORK_DATA of 4294967295 bytes is too large: the limit is 100"},
		{"one byte too many", "\x00RES\x00\x00\x00\x1c\x00\x00\x00\x65", "WORK_DATA of 101 bytes is too large: the limit is 100"},
		{"too few arguments", "\x00RES\x00\x00\x00\x0c\x00\x00\x00\x03H\x001", "WORK_STATUS has 2 of 3 arguments"},
		{"other protocol", "HTTP/1.1 400 Bad Request", `the server does not speak gearman: it sent "HTTP/1.1 400"`},
		{"TLS alert", "\x15\x03\x01\x00\x02\x02\x46.....", "the server responds with TLS; add a tls block"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := gearman.ReadPacket(strings.NewReader(test.bytes), 100)
			if err == nil || err.Error() != test.want {
				t.Errorf("got error  %v\nwant error %s", err, test.want)
			}
		})
	}
	if _, err := gearman.ReadPacket(strings.NewReader(""), 100); !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("nothing at all: got %v, want io.EOF", err)
	}
}

// hole returns a header that announces a large size, and no body.
type hole struct{ header *strings.Reader }

func (h hole) Read(p []byte) (int, error) {
	if h.header.Len() > 0 {
		return h.header.Read(p)
	}
	return 0, io.EOF
}

func TestHeaderLengthAllocatesNoMemory(t *testing.T) {
	allocated := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			_, err := gearman.ReadPacket(hole{strings.NewReader("\x00RES\x00\x00\x00\x1c\x7f\x00\x00\x00")}, 1<<31)
			if err == nil {
				b.Fatal("read a packet that is not there")
			}
		}
	}).AllocedBytesPerOp()
	if allocated > 1<<16 {
		t.Errorf("reading a header that promises 2 GB took %d bytes of memory", allocated)
	}
}

func FuzzPacket(f *testing.F) {
	f.Add([]byte("\x00RES\x00\x00\x00\x1f\x00\x00\x00\x0bH\x00f\x00\x00a\x00b\x00\x00c"))
	f.Add([]byte("\x00REQ\x00\x00\x00\x0e\x00\x00\x00\x04H:1\x00"))
	f.Add([]byte("\x00RES\x00\x00\x00\x2a\x00\x00\x00\x0au\x001\x000\x000\x000\x001"))
	f.Add([]byte("\x15\x03\x01\x00\x02\x02\x46....."))
	f.Add([]byte("\x00RES\x00\x00\x00\x1c\xff\xff\xff\xff"))
	const limit = 1 << 12
	f.Fuzz(func(t *testing.T, input []byte) {
		rest := bytes.NewReader(input)
		for {
			p, err := gearman.ReadPacket(rest, limit)
			if err != nil {
				if err.Error() == "" || len(err.Error()) > 500 {
					t.Fatalf("useless error %q", err)
				}
				return
			}
			again, err := gearman.ReadPacket(bytes.NewReader(p.Append(nil)), limit)
			if diff := cmp.Diff(p, again); diff != "" || err != nil {
				t.Fatalf("%q is read, written and read as another packet (-want +got):\n%s%v", input, diff, err)
			}
		}
	})
}
