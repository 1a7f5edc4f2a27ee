package qemuimg

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/npctl/npctl/internal/imagefile"
	"github.com/npctl/npctl/internal/process"
)

// errUnsafe is wrapped by the error for an image that refers to other files.
var errUnsafe = errors.New("image refers to other files")

const (
	infoTimeout = time.Minute
	infoLimit   = 1 << 20
)

// info holds the sizes of an image.
type info struct {
	VirtualSize int64 // of the disk inside
	Allocated   int64 // bytes the file takes on the disk
}

// leastData estimates the minimum size of a copy in any format: blocks of zeros vanish, and compression may shrink
// the rest further.
func (i info) leastData() int64 { return i.Allocated / 4 }

// answer holds fields of `qemu-img info --output=json`.
type answer struct {
	VirtualSize int64   `json:"virtual-size"`
	ActualSize  int64   `json:"actual-size"`
	Backing     *string `json:"backing-filename"`
	FullBacking *string `json:"full-backing-filename"`
	Specific    struct {
		Data struct {
			DataFile *string `json:"data-file"`
		} `json:"data"`
	} `json:"format-specific"`
}

// inspect checks that the file is an image of that format without references to other files, and returns its sizes.
// It checks the header before qemu-img runs, since qemu-img opens the files that a header names.
func inspect(ctx context.Context, path, format string, opts Options) (info, error) {
	if drivers[format] == "" {
		return info{}, fmt.Errorf("format %q is not one of %v", format, formats())
	}
	if err := imagefile.CheckFormat(path, format); err != nil {
		return info{}, err
	}
	if err := checkHeader(path, format); err != nil {
		return info{}, fmt.Errorf("%s: %w", path, err)
	}
	said, err := ask(ctx, path, format, opts)
	if err != nil {
		return info{}, err
	}
	for _, other := range []*string{said.Backing, said.FullBacking, said.Specific.Data.DataFile} {
		if other != nil {
			return info{}, fmt.Errorf("%s: %w: %q", path, errUnsafe, *other)
		}
	}
	return info{said.VirtualSize, said.ActualSize}, nil
}

func ask(ctx context.Context, path, format string, opts Options) (answer, error) {
	ctx, cancel := process.WithTimeout(ctx, infoTimeout)
	defer cancel()
	var text bytes.Buffer
	spec := opts.spec([]string{"info", "--output=json", "-f", drivers[format], "--", path}, process.Sandbox{Read: []string{path}})
	spec.Log, spec.LogLimit = &text, infoLimit
	if err := opts.run(ctx, spec); err != nil {
		return answer{}, err
	}
	// Warnings may precede the JSON, and the exit status follows it.
	text.Next(max(bytes.IndexByte(text.Bytes(), '{'), 0))
	var said answer
	if err := json.NewDecoder(&text).Decode(&said); err != nil {
		return answer{}, fmt.Errorf("read output of qemu-img info for %s: %w", path, err)
	}
	return said, nil
}

// checkHeader rejects images that name other files.
func checkHeader(path, format string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	switch format {
	case "qcow2":
		return checkQcow2(file)
	case "vmdk":
		return checkVMDK(file)
	case "vhd":
		return checkVHD(file)
	default:
		return nil // raw images name no files; qemu-img rejects differencing VHDX images
	}
}

// section reads up to size bytes; fewer are no error.
func section(file io.ReaderAt, at, size int64) ([]byte, error) {
	return io.ReadAll(io.NewSectionReader(file, at, size))
}
