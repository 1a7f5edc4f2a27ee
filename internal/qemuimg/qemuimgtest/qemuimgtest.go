// Package qemuimgtest stands in for the qemu-img program in tests, so that they run where it is not installed. It knows
// the two commands that npctl uses, info and convert, and the formats raw, qcow2 and vhd. Only it can read the images it
// writes: a format's header, then the disk as it is. What the real program does is tested in internal/qemuimg and
// test/integration.
package qemuimgtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/npctl/npctl/internal/imagefile"
	"github.com/npctl/npctl/internal/process"
)

// Main is the program; TestMain calls it when the test's binary runs under the name qemuimg.Program.
func Main() { os.Exit(command(os.Args[1:], os.Stdout)) }

// Run does in this process what process.Run does with the program.
func Run(ctx context.Context, spec process.Spec) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var said bytes.Buffer
	code := command(spec.Args[1:], &said)
	return End(spec, &said, code, 0)
}

// End turns the output of a program that did not run and the way it ended into what process.Run does with them.
func End(spec process.Spec, said io.Reader, code int, signal syscall.Signal) error {
	transcript := process.NewTranscript(spec)
	transcript.Read(said)
	if code == 0 && signal == 0 {
		transcript.End(nil)
		return nil
	}
	err := &process.ExitError{Program: spec.Args[0], Code: code, Signal: signal, Tail: transcript.Tail()}
	transcript.End(err)
	return err
}

// command returns the exit code.
func command(args []string, out io.Writer) int {
	var err error
	switch name, rest := args[0], parse(args[1:]); name {
	case "info":
		err = info(rest, out)
	case "convert":
		err = convert(rest, out)
	default:
		err = fmt.Errorf("%s is not a command of the stand-in", name)
	}
	if err != nil {
		_, _ = fmt.Fprintf(out, "qemu-img: %s\n", message(err))
		return 1
	}
	return 0
}

// message spells the errors of the system as the C library does.
func message(err error) string {
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		text := errno.Error()
		return strings.Replace(err.Error(), text, strings.ToUpper(text[:1])+text[1:], 1)
	}
	return err.Error()
}

// arguments are those of info and convert.
type arguments struct {
	from, to string   // formats
	files    []string // after --
}

func parse(args []string) (parsed arguments) {
	for i := 0; i < len(args); i++ {
		switch args[i] {
		case "-f":
			i++
			parsed.from = args[i]
		case "-O":
			i++
			parsed.to = args[i]
		case "-o":
			i++
		case "--":
			parsed.files = args[i+1:]
			return parsed
		}
	}
	return parsed
}

func info(args arguments, out io.Writer) error {
	disk, err := read(args.files[0], args.from)
	if err != nil {
		return err
	}
	file, err := os.Stat(args.files[0])
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(map[string]any{
		"virtual-size": len(disk), "actual-size": imagefile.Allocated(file), "format": args.from,
	})
}

func convert(args arguments, out io.Writer) error {
	disk, err := read(args.files[0], args.from)
	if err != nil {
		return err
	}
	text, err := image(args.to, disk)
	if err != nil {
		return err
	}
	_, _ = io.WriteString(out, "    (0.00/100%)\r")
	if err := os.WriteFile(args.files[1], text, fs.FileMode(0o644)); err != nil { //nolint:gosec // G306: as qemu-img does
		return fmt.Errorf("error while writing: %w", err)
	}
	_, _ = io.WriteString(out, "    (100.00/100%)\r\n")
	return nil
}

// sector is what the size of a disk is a multiple of, and the length of each header and footer.
const sector = 512

// headers are the beginnings of images, in qemu's names of formats.
var headers = map[string]func(size int) []byte{
	"qcow2": func(size int) []byte {
		head := make([]byte, sector)
		copy(head, "QFI\xfb")
		binary.BigEndian.PutUint32(head[4:], 3)
		binary.BigEndian.PutUint32(head[20:], 16)
		binary.BigEndian.PutUint64(head[24:], uint64(size)) //nolint:gosec // G115: not negative
		binary.BigEndian.PutUint32(head[100:], 104)
		return head
	},
	"vpc": func(int) []byte {
		head := make([]byte, sector)
		copy(head, "conectix")
		binary.BigEndian.PutUint32(head[60:], 3) // dynamic
		return head
	},
}

// Qcow2 returns an image with that disk, as the stand-in writes and reads it.
func Qcow2(disk []byte) []byte {
	text, err := image("qcow2", disk)
	if err != nil {
		panic(err) // image supports this format
	}
	return text
}

// image is the header, the checksum of the disk, the disk, and the header once more, which a VHD ends with.
func image(format string, disk []byte) ([]byte, error) {
	disk = append(slices.Clone(disk), make([]byte, (sector-len(disk)%sector)%sector)...)
	if format == "raw" {
		return disk, nil
	}
	header, ok := headers[format]
	if !ok {
		return nil, fmt.Errorf("the stand-in knows no format %q", format)
	}
	sum := sha256.Sum256(disk)
	head := header(len(disk))
	return slices.Concat(head, sum[:], disk, head), nil
}

// read returns the disk.
func read(path, format string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil || format == "raw" {
		return append(text, make([]byte, (sector-len(text)%sector)%sector)...), err
	}
	if headers[format] == nil || len(text) < 2*sector+sha256.Size {
		return nil, fmt.Errorf("could not open '%s': it is no %s image of the stand-in", path, format)
	}
	sum, disk := text[sector:sector+sha256.Size], text[sector+sha256.Size:len(text)-sector]
	if got := sha256.Sum256(disk); !bytes.Equal(got[:], sum) {
		return nil, fmt.Errorf("could not read '%s': image is corrupt", path)
	}
	return disk, nil
}
