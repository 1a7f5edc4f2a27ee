package qemuimg

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"

	"github.com/npctl/npctl/internal/imagefile"
)

// The checks accept only headers that are known to be harmless: a header that npctl and qemu-img read differently is
// an attack.

var errTruncated = errors.New("image is truncated: its header is incomplete")

// Incompatible features of qcow2 that do not affect which files are opened: dirty, corrupt, compression type,
// extended L2 entries.
const (
	qcow2External = 1 << 2
	qcow2Harmless = 1<<0 | 1<<1 | 1<<3 | 1<<4
)

// checkQcow2 follows docs/interop/qcow2.txt of QEMU.
func checkQcow2(file *os.File) error {
	head, err := section(file, 0, 104)
	if err != nil {
		return err
	}
	if len(head) < 72 {
		return errTruncated
	}
	version := binary.BigEndian.Uint32(head[4:])
	switch {
	case version != 2 && version != 3:
		return fmt.Errorf("qcow2 version %d is not known", version)
	case binary.BigEndian.Uint64(head[8:]) != 0:
		return fmt.Errorf("%w: it has a backing file", errUnsafe)
	case binary.BigEndian.Uint32(head[32:]) != 0:
		return fmt.Errorf("%w: it is encrypted", errUnsafe)
	case version == 2:
		return nil
	case len(head) < 80:
		return errTruncated
	}
	switch features := binary.BigEndian.Uint64(head[72:]); {
	case features&qcow2External != 0:
		return fmt.Errorf("%w: its data is in an external data file", errUnsafe)
	case features&^qcow2Harmless != 0:
		return fmt.Errorf("%w: it has unknown incompatible features %#x", errUnsafe, features)
	}
	return nil
}

const (
	vmdkSector = 512
	// vmdkDescriptor is the maximum size of a descriptor in bytes; real ones have less than 1 KiB.
	vmdkDescriptor = 64 << 10
	// vmdkParent is the number of bytes behind the header in which qemu-img searches for a parent, regardless of the
	// descriptor's length.
	vmdkParent = 20 * vmdkSector
)

// checkVMDK checks the descriptor inside a sparse VMDK: it may name a parent, or extents in other files. qemu-img
// uses the extents of a header without a capacity, and searches for a parent directly behind the header, regardless
// of the position of the descriptor in the header.
func checkVMDK(file *os.File) error {
	head, err := section(file, 0, vmdkSector)
	if err != nil {
		return err
	}
	if len(head) < vmdkSector {
		return errTruncated
	}
	capacity := binary.LittleEndian.Uint64(head[12:])
	at, size := binary.LittleEndian.Uint64(head[28:]), binary.LittleEndian.Uint64(head[36:]) // in sectors
	if at != 1 || size == 0 || size > vmdkDescriptor/vmdkSector {
		return errors.New("npctl accepts a VMDK only with an embedded descriptor directly after its header")
	}
	if capacity == 0 {
		return fmt.Errorf("%w: the header of the VMDK has no capacity, so qemu-img would follow its descriptor", errUnsafe)
	}
	length := int64(size) * vmdkSector //nolint:gosec // G115: bounded above
	text, err := section(file, vmdkSector, max(length, vmdkParent))
	if err != nil {
		return err
	}
	text, _, ended := bytes.Cut(text, []byte{0})
	if int64(len(text)) > length || !ended && int64(len(text)) != length {
		return fmt.Errorf("%w: the descriptor of the VMDK does not have the length that its header states", errUnsafe)
	}
	return checkDescriptor(string(text))
}

// descriptorLines match lines of a descriptor, as qemu-img, VMware and VirtualBox write them.
type descriptorLines struct {
	kind, extent *regexp.Regexp
	others       []*regexp.Regexp
	words        *regexp.Regexp // qemu-img recognizes them anywhere in the text
}

// vmdkLines compiles the patterns when they are needed, because they would delay the start of each command by 1 ms.
var vmdkLines = sync.OnceValue(func() descriptorLines {
	return descriptorLines{
		kind:   regexp.MustCompile(`^createType="(monolithicSparse|streamOptimized)"$`),
		extent: regexp.MustCompile(`^(RW|RDONLY) [0-9]{1,19} SPARSE "[^"/\\[:cntrl:]]{1,255}"$`),
		others: []*regexp.Regexp{
			regexp.MustCompile(`^$`),
			regexp.MustCompile(`^# ?(Disk DescriptorFile|Extent description|The Disk Data Base ?|DDB)?$`),
			regexp.MustCompile(`^version=[0-9]{1,3}$`),
			regexp.MustCompile(`^encoding="[A-Za-z0-9_.-]{1,64}"$`),
			regexp.MustCompile(`^CID=[0-9a-fA-F]{1,8}$`),
			regexp.MustCompile(`^parentCID=[fF]{8}$`),
			regexp.MustCompile(`^isNativeSnapshot="no"$`),
			regexp.MustCompile(`^ddb\.[A-Za-z0-9_.]{1,64} ?= ?"[^"[:cntrl:]]{0,255}"$`),
		},
		words: regexp.MustCompile(`(?i)createType|parentFileNameHint|CID`),
	}
})

func checkDescriptor(text string) error {
	patterns := vmdkLines()
	extents, types := 0, 0
	for line := range strings.SplitSeq(text, "\n") {
		switch {
		case patterns.kind.MatchString(line):
			types++
		case patterns.extent.MatchString(line):
			extents++
		case !patterns.accept(line):
			return fmt.Errorf("%w: the descriptor of the VMDK has the unknown line %.100q", errUnsafe, line)
		}
	}
	if extents != 1 || types != 1 {
		return fmt.Errorf("%w: a VMDK with %d types and %d extents is not in one file", errUnsafe, types, extents)
	}
	return nil
}

// accept reports whether a line is neither a type nor an extent, and harmless.
func (p descriptorLines) accept(line string) bool {
	for _, known := range p.others {
		if known.MatchString(line) {
			name, value, _ := strings.Cut(line, "=")
			return !p.words.MatchString(value) && (!strings.HasPrefix(name, "ddb.") || !p.words.MatchString(name))
		}
	}
	return false
}

// The VHD types that consist of one file.
const (
	vhdFixed   = 2
	vhdDynamic = 3
)

// checkVHD checks the footer at the end, and its copy at the beginning, which qemu-img prefers.
func checkVHD(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if info.Size() < 512 {
		return errTruncated
	}
	head, err := section(file, 0, 512)
	if err != nil {
		return err
	}
	foot, err := section(file, info.Size()-512, 512)
	if err != nil {
		return err
	}
	if !isVHDFooter(foot) {
		return errors.New("image is truncated: a VHD ends with a footer")
	}
	for _, footer := range [][]byte{head, foot} {
		if kind := binary.BigEndian.Uint32(footer[60:]); isVHDFooter(footer) && kind != vhdFixed && kind != vhdDynamic {
			return fmt.Errorf("%w: it is a VHD of type %d; those of type 4 have a parent", errUnsafe, kind)
		}
	}
	return nil
}

func isVHDFooter(text []byte) bool { return bytes.HasPrefix(text, []byte("conectix")) }

// Check rejects files of another format, and files that refer to other files. It reads the file itself, without
// qemu-img; it identifies formats that qemu-img cannot convert only by their signatures.
func Check(path, format string) error {
	if err := imagefile.CheckFormat(path, format); err != nil {
		return err
	}
	if err := checkHeader(path, format); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
