package qemuimg

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
)

var errTruncated = errors.New("image is cut short: its header is incomplete")

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
	backing := binary.BigEndian.Uint64(head[8:])
	switch {
	case version != 2 && version != 3:
		return fmt.Errorf("qcow2 version %d is not known", version)
	case backing != 0:
		return fmt.Errorf("%w: it has a backing file", ErrUnsafe)
	case version == 2:
		return nil
	case len(head) < 80:
		return errTruncated
	case binary.BigEndian.Uint64(head[72:])&4 != 0:
		return fmt.Errorf("%w: its data is in an external data file", ErrUnsafe)
	}
	return nil
}

// vmdkDescriptor is the largest descriptor that is read; real ones have under 1 KiB.
const vmdkDescriptor = 64 << 10

// checkVMDK reads the descriptor inside a sparse VMDK: it may name a parent, or extents in other files.
func checkVMDK(file *os.File) error {
	head, err := section(file, 0, 512)
	if err != nil {
		return err
	}
	if len(head) < 512 {
		return errTruncated
	}
	at, size := binary.LittleEndian.Uint64(head[28:]), binary.LittleEndian.Uint64(head[36:]) // in sectors
	if at == 0 || at > 1<<20 || size == 0 || size*512 > vmdkDescriptor {
		return errors.New("VMDK without a descriptor of its own is not taken")
	}
	text, err := section(file, int64(at)*512, int64(size)*512) //nolint:gosec // bounded above
	if err != nil {
		return err
	}
	text, _, _ = bytes.Cut(text, []byte{0})
	return checkDescriptor(string(text))
}

func checkDescriptor(text string) error {
	extents, kind := 0, ""
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		name, value, _ := strings.Cut(line, "=")
		value = strings.Trim(strings.TrimSpace(value), `"`)
		switch {
		case strings.EqualFold(strings.TrimSpace(name), "createType"):
			kind = value
		case strings.EqualFold(strings.TrimSpace(name), "parentFileNameHint"):
			return fmt.Errorf("%w: it has the parent %q", ErrUnsafe, value)
		case strings.HasPrefix(line, "RW "), strings.HasPrefix(line, "RDONLY "), strings.HasPrefix(line, "NOACCESS "):
			extents++
			if fields := strings.Fields(line); len(fields) < 3 || fields[2] != "SPARSE" || strings.Contains(line, "/") {
				return fmt.Errorf("%w: %s", ErrUnsafe, line)
			}
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read VMDK descriptor: %w", err)
	}
	if extents != 1 || (kind != "monolithicSparse" && kind != "streamOptimized") {
		return fmt.Errorf("%w: a VMDK of type %q with %d extents is not in one file", ErrUnsafe, kind, extents)
	}
	return nil
}

// vhdDifferencing is the disk type of a VHD that needs a parent.
const vhdDifferencing = 4

// checkVHD reads the footer at the end.
func checkVHD(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if info.Size() < 512 {
		return errTruncated
	}
	foot, err := section(file, info.Size()-512, 512)
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(foot, []byte("conectix")) {
		return errors.New("image is cut short: a VHD ends with a footer")
	}
	if binary.BigEndian.Uint32(foot[60:]) == vhdDifferencing {
		return fmt.Errorf("%w: it is a differencing disk with a parent", ErrUnsafe)
	}
	return nil
}
