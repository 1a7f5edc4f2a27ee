package azure

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/google/uuid"

	"github.com/npctl/npctl/drivers"
)

// A fixed VHD is a raw image with a footer of 512 bytes. Azure requires a whole number of MiB in front of it:
// https://learn.microsoft.com/azure/virtual-machines/linux/create-upload-generic.
const (
	vhdCookie = "conectix"
	vhdUnit   = 1 << 20
)

// checkFormat rejects files that Azure would not boot.
func checkFormat(spec drivers.ImageSpec, content io.ReadSeeker) error {
	if spec.Format != formatVHD {
		return nil
	}
	head := make([]byte, len(vhdCookie))
	_, err := io.ReadFull(content, head)
	if _, seekErr := content.Seek(0, io.SeekStart); errors.Join(err, seekErr) != nil {
		return fmt.Errorf("read the image: %w", errors.Join(err, seekErr))
	}
	if bytes.Equal(head, []byte(vhdCookie)) { // only a dynamic one has a copy of its footer at the start
		return fmt.Errorf(`%w: the image is a dynamic VHD and Azure accepts fixed ones; upload raw images instead (image_format = "raw")`, drivers.ErrRejected)
	}
	if spec.Size%sectorSize != 0 {
		return fmt.Errorf("%w: the VHD has %d bytes, which is no multiple of %d", drivers.ErrRejected, spec.Size, sectorSize)
	}
	return nil
}

// tailOf returns the bytes that make a raw image a fixed VHD.
func tailOf(spec drivers.ImageSpec) []byte {
	if spec.Format == formatVHD {
		return nil
	}
	size := (spec.Size + vhdUnit - 1) / vhdUnit * vhdUnit
	return append(make([]byte, size-spec.Size), vhdFooter(size)...)
}

// sectorSize is the size of a VHD's sector and footer, and of a page of Azure.
const sectorSize = 512

// vhdFooter returns the footer of a fixed VHD of a size, as the Virtual Hard Disk Image Format Specification defines it.
func vhdFooter(size int64) []byte {
	b := make([]byte, sectorSize)
	copy(b, vhdCookie)
	put := binary.BigEndian
	put.PutUint32(b[8:], 2)                   // features: reserved, always set
	put.PutUint32(b[12:], 0x10000)            // format version
	put.PutUint64(b[16:], 0xFFFFFFFFFFFFFFFF) // no dynamic header
	copy(b[28:], "npct")                      // creator
	copy(b[36:], "Wi2k")                      // creator's host: Windows
	put.PutUint64(b[40:], uint64(size))       //nolint:gosec // a file's size
	put.PutUint64(b[48:], uint64(size))       //nolint:gosec // a file's size
	put.PutUint32(b[56:], geometry(size/sectorSize))
	put.PutUint32(b[60:], 2) // fixed
	id := uuid.New()
	copy(b[68:], id[:])
	var sum uint32
	for _, c := range b {
		sum += uint32(c)
	}
	put.PutUint32(b[64:], ^sum)
	return b
}

// geometry returns cylinders (16 bits), heads and sectors (8 bits each), by the appendix of the specification.
func geometry(total int64) uint32 {
	total = min(total, 65535*16*255)
	sectors, heads := int64(255), int64(16)
	tracks := total / sectors
	if total < 65535*16*63 {
		sectors = 17
		tracks = total / sectors
		heads = max((tracks+1023)/1024, 4)
		if tracks >= heads*1024 || heads > 16 {
			sectors, heads = 31, 16
			tracks = total / sectors
		}
		if tracks >= heads*1024 {
			sectors, heads = 63, 16
			tracks = total / sectors
		}
	}
	return uint32(tracks/heads)<<16 | uint32(heads)<<8 | uint32(sectors) //nolint:gosec // limited above
}
