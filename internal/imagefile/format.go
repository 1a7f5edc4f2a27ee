package imagefile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// errFormat is wrapped by the error for a file of another format.
var errFormat = errors.New("wrong image format")

// magics are the signatures at the start of files. A VHD of fixed size has its signature only in its last 512 bytes.
var magics = []struct {
	format string
	magic  []byte
}{
	{"qcow2", []byte("QFI\xfb")},
	{"vmdk", []byte("KDMV")},
	{"vhdx", []byte("vhdxfile")},
	{"vhd", []byte("conectix")},
}

const vhdFooter = 512

// CheckFormat reads both ends of a file and returns an errFormat if they do not match the format. For a format
// without a signature it only excludes other formats: a raw image that starts like a qcow2 image is a mistake, or an
// attack on programs that guess formats.
func CheckFormat(path, format string) error {
	head, tail, err := ends(path)
	if err != nil {
		return err
	}
	if len(head) == 0 {
		return fmt.Errorf("%w: %s is empty", errFormat, path)
	}
	found := detect(head, tail)
	marked := false
	for _, m := range magics {
		marked = marked || m.format == format
	}
	switch {
	case found == format:
		return nil
	case marked && found == "":
		return fmt.Errorf("%w: %s does not have the header of a %s image%s", errFormat, path, format, looksLike(head))
	case found == "" || (found == "vhd" && format == "raw" && !bytes.HasPrefix(head, []byte("conectix"))):
		return nil
	default:
		return fmt.Errorf("%w: %s is a %s image, not %s", errFormat, path, found, format)
	}
}

func detect(head, tail []byte) string {
	for _, m := range magics {
		if bytes.HasPrefix(head, m.magic) {
			return m.format
		}
	}
	if bytes.HasPrefix(tail, []byte("conectix")) {
		return "vhd"
	}
	return ""
}

// looksLike recognizes common mistakes.
func looksLike(head []byte) string {
	lower := bytes.ToLower(head)
	switch {
	case bytes.Contains(lower, []byte("<html")), bytes.Contains(lower, []byte("<!doctype html")):
		return "; it looks like a web page"
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return "; it looks gzip-compressed"
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return "; it looks zstd-compressed"
	case bytes.HasPrefix(head, []byte("\xfd7zXZ")):
		return "; it looks xz-compressed"
	}
	return ""
}

func ends(path string) (head, tail []byte, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return nil, nil, err
	}
	head, err = section(file, 0, 512)
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", path, err)
	}
	tail, err = section(file, max(info.Size()-vhdFooter, 0), vhdFooter)
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", path, err)
	}
	return head, tail, nil
}

func section(file io.ReaderAt, at, size int64) ([]byte, error) {
	return io.ReadAll(io.NewSectionReader(file, at, size))
}
