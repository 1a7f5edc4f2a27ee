package qemuimg

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/internal/imagefile"
	"github.com/npctl/npctl/internal/process"
	"github.com/npctl/npctl/internal/testutil"
)

// fake writes a program that emulates qemu-img: `info` prints info, `convert` runs the shell code convert, in which
// $target is the file to write.
func fake(t *testing.T, info, convert string) Options {
	t.Helper()
	dir := t.TempDir()
	text := `#!/bin/sh
echo "$*" >> ` + dir + `/calls
for target; do :; done
case $1 in
info) cat << 'END'
` + info + `
END
;;
convert) ` + convert + ` ;;
esac
`
	path := filepath.Join(dir, "qemu-img")
	testutil.WriteProgram(t, path, text)
	return Options{Command: path, Run: func(ctx context.Context, spec process.Spec) error {
		spec.Sandbox = nil // the program records its calls
		return process.Run(ctx, spec)
	}}
}

const plainInfo = `{"virtual-size": 1000, "actual-size": 100, "format": "raw", "format-specific": {"type": "raw"}}`

func source(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image.src")
	testutil.WriteFile(t, path, content)
	return path
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	testutil.Must(t, err)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func TestConversionReportsSumsAndProgress(t *testing.T) {
	opts := fake(t, plainInfo, `printf '    (0.00/100%%)\r    (50.00/100%%)\r    (100.00/100%%)\r\n'; echo note; printf converted > "$target"`)
	var log bytes.Buffer
	var progress []string
	opts.Log = &log
	opts.Progress = func(done, total int64) { progress = append(progress, fmt.Sprintf("%d/%d", done, total)) }
	opts.Create = map[string]string{"subformat": "fixed"}
	from := source(t, "data")
	to := filepath.Join(filepath.Dir(from), "image.vhd")
	got, err := Convert(t.Context(), from, "raw", to, "vhd", opts)
	testutil.Must(t, err)
	want := imagefile.Sums{Size: 9, SHA256: "ba451247dcf0d65bb50c654ae2ebfb3e3173ec730bd5174a4b9eef5b3dc7c6da", MD5: "befde6e50dbc157f3963dde221712959"}
	if got.Sums != want || got.Virtual != 1000 {
		t.Errorf("result is %+v, want sums %+v", got, want)
	}
	if diff := cmp.Diff([]string{"0/1000", "500/1000", "1000/1000"}, progress); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
	calls, _ := os.ReadFile(filepath.Join(filepath.Dir(opts.Command), "calls"))
	wantCalls := "info --output=json -f raw -- " + from + "\n" +
		"convert -p -f raw -O vpc -o force_size=on -o subformat=fixed -- " + from + " " + to + ".part\n"
	if diff := cmp.Diff(wantCalls, string(calls)); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if !strings.Contains(log.String(), "note\n") || strings.Contains(log.String(), "100%") {
		t.Errorf("log is %q, want the note and no progress", &log)
	}
	if got := files(t, filepath.Dir(to)); !slices.Equal(got, []string{"image.src", "image.vhd"}) {
		t.Errorf("files are %v", got)
	}
}

func TestFailedConversionLeavesTheOldFile(t *testing.T) {
	opts := fake(t, plainInfo, `printf '    (3.00/100%%)\r'; printf half > "$target"; echo "error while writing: No space left on device" >&2; exit 1`)
	from := source(t, "data")
	to := filepath.Join(filepath.Dir(from), "image.qcow2")
	testutil.WriteFile(t, to, "old")
	_, err := Convert(t.Context(), from, "raw", to, "qcow2", opts)
	want := "convert " + from + " to qcow2: " + opts.Command + " ended with exit code 1; the last lines of its output:\n    error while writing: No space left on device"
	if err == nil || err.Error() != want {
		t.Errorf("got error:  %v\nwant error: %s", err, want)
	}
	if text, _ := os.ReadFile(to); string(text) != "old" {
		t.Errorf("the old file holds %q", text)
	}
	if got := files(t, filepath.Dir(to)); !slices.Equal(got, []string{"image.qcow2", "image.src"}) {
		t.Errorf("files are %v", got)
	}
}

func TestCancelledConversionLeavesNothing(t *testing.T) {
	opts := fake(t, plainInfo, `printf half > "$target"; printf '    (3.00/100%%)\r'; sleep 1000`)
	ctx, cancel := context.WithCancel(t.Context())
	opts.Progress = func(int64, int64) { cancel() }
	from := source(t, "data")
	to := filepath.Join(filepath.Dir(from), "image.qcow2")
	_, err := Convert(ctx, from, "raw", to, "qcow2", opts)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	if got := files(t, filepath.Dir(to)); !slices.Equal(got, []string{"image.src"}) {
		t.Errorf("files are %v", got)
	}
}

func TestMissingProgramNamesThePackage(t *testing.T) {
	from := source(t, "data")
	_, err := Convert(t.Context(), from, "raw", from+".qcow2", "qcow2", Options{Env: []string{"PATH=/nonexistent"}})
	if !errors.Is(err, process.ErrNotInstalled) || !strings.Contains(err.Error(), "install the package qemu-utils") {
		t.Errorf("error is %v", err)
	}
}

func TestInvalidConversionsAreRejected(t *testing.T) {
	from := source(t, "data")
	for _, test := range []struct{ from, fromFormat, to, toFormat, want string }{
		{from, "raw", from + ".x", "raw", "it already is raw"},
		{from, "raw", from, "qcow2", "same file"},
		{from, "ova", from + ".x", "raw", `format "ova" is not one of [qcow2 raw vhd vhdx vmdk]`},
		{from, "qcow2", from + ".x", "raw", "does not have the header of a qcow2 image"},
		{from + ".missing", "raw", from + ".x", "vhd", "no such file"},
	} {
		_, err := Convert(t.Context(), test.from, test.fromFormat, test.to, test.toFormat, fake(t, plainInfo, "touch $target"))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s to %s: error is %v, want %q", test.fromFormat, test.toFormat, err, test.want)
		}
	}
}

const (
	sparse  = "createType=\"monolithicSparse\"\n"
	extent  = "RW 8 SPARSE \"a.vmdk\"\n"
	another = 4 // type of a VHD with a parent
)

func TestImagesThatReferToOthersAreRefusedBeforeQemuReadsThem(t *testing.T) {
	noCapacity := []byte(vmdk(sparse + extent))
	clear(noCapacity[12:20])
	elsewhere := append([]byte(vmdk("parentFileNameHint=\"/etc/passwd\"\n")), []byte(vmdk(sparse + extent))[512:]...)
	elsewhere[28] = 2 // where qemu-img does not search for a parent
	long := append([]byte(vmdk(sparse + extent + strings.Repeat("\n", 512))[:1024]), "parentFileNameHint=\"/etc/passwd\""...)
	long[36] = 1 // sector
	first := []byte(vhd(vhdDynamic))
	binary.BigEndian.PutUint32(first[60:], another)
	encrypted := qcow2(2, 0, 0)
	encrypted[35] = 1
	for _, test := range []struct{ name, format, content string }{
		{"qcow2 with a backing file", "qcow2", string(qcow2(3, 0x200, 0))},
		{"qcow2 with a data file", "qcow2", string(qcow2(3, 0, 4))},
		{"qcow2 with an unknown feature", "qcow2", string(qcow2(3, 0, 1<<40))},
		{"qcow2 with encryption", "qcow2", string(encrypted)},
		{"vmdk with an extent elsewhere", "vmdk", vmdk(sparse + "RW 8 FLAT \"/etc/passwd\" 0\n")},
		{"vmdk with a path", "vmdk", vmdk(sparse + "RW 8 SPARSE \"/etc/passwd\"\n")},
		{"vmdk with two extents", "vmdk", vmdk(sparse + extent + extent)},
		{"vmdk of another type", "vmdk", vmdk("createType=\"twoGbMaxExtentSparse\"\n" + extent)},
		{"vmdk with a parent", "vmdk", vmdk(sparse + "parentFileNameHint=\"/etc/passwd\"\n" + extent)},
		{"vmdk with a parent's id", "vmdk", vmdk(sparse + "parentCID=12345678\n" + extent)},
		{"vmdk with a tab", "vmdk", vmdk("# createType=\"monolithicFlat\"\nRW\t1 FLAT \"/etc/passwd\" 0\n" + sparse + "NOACCESS 1 SPARSE \"x.vmdk\"\n")},
		{"vmdk with a type in a comment", "vmdk", vmdk("# createType=\"monolithicFlat\"\n" + sparse + extent)},
		{"vmdk with a type in a value", "vmdk", vmdk("ddb.comment = \"createType=\"\n" + sparse + extent)},
		{"vmdk with an unknown line", "vmdk", vmdk(sparse + extent + "changeTrackPath=\"/etc/passwd\"\n")},
		{"vmdk without a capacity", "vmdk", string(noCapacity)},
		{"vmdk with a parent behind the descriptor", "vmdk", string(long)},
		{"vhd with a parent", "vhd", vhd(another)},
		{"vhd whose first footer has a parent", "vhd", string(first)},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := converted(t, test.format, test.content); !errors.Is(err, errUnsafe) {
				t.Errorf("error is %v, want %v", err, errUnsafe)
			}
		})
	}
	if err := converted(t, "vmdk", string(elsewhere)); err == nil {
		t.Error("a VMDK with its descriptor elsewhere was converted")
	}
}

// converted converts an image that must be rejected.
func converted(t *testing.T, format, content string) error {
	t.Helper()
	opts := fake(t, plainInfo, `touch "$target"`)
	from := source(t, content)
	_, err := Convert(t.Context(), from, format, from+".raw", "raw", opts)
	if calls, err := os.ReadFile(filepath.Join(filepath.Dir(opts.Command), "calls")); err == nil {
		t.Errorf("qemu-img was run: %s", calls)
	}
	return err
}

func TestImagesOfOneFileAreAccepted(t *testing.T) {
	const vmware = "version=1\nencoding=\"UTF-8\"\nCID=fffffffe\nparentCID=ffffffff\nisNativeSnapshot=\"no\"\ncreateType=\"streamOptimized\"\n\n" +
		"# Extent description\nRDONLY 83886080 SPARSE \"generated-stream.vmdk\"\n\n# The Disk Data Base \n#DDB\n\n" +
		"ddb.adapterType = \"lsilogic\"\nddb.geometry.cylinders = \"5221\"\nddb.uuid.image=\"d1b3-4c\"\n"
	const qemu = "version=1\nCID=d5c8ab37\nparentCID=ffffffff\ncreateType=\"monolithicSparse\"\n\n# Extent description\nRW 196608 SPARSE \"my disk.vmdk\"\n\n" +
		"# The Disk Data Base\n#DDB\n\nddb.virtualHWVersion = \"4\"\nddb.toolsVersion = \"2147483647\"\n"
	for _, test := range []struct{ name, format, content string }{
		{"qcow2 version 2", "qcow2", string(qcow2(2, 0, 0))},
		{"qcow2 with zstd", "qcow2", string(qcow2(3, 0, 1<<3))},
		{"vmdk of qemu-img", "vmdk", vmdk(qemu)},
		{"vmdk of VMware", "vmdk", vmdk(vmware)},
		{"fixed vhd", "vhd", strings.Repeat("x", 512) + vhd(vhdFixed)[512:]},
		{"dynamic vhd", "vhd", vhd(vhdDynamic)},
	} {
		if err := Check(source(t, test.content), test.format); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

func TestReferencesReportedByQemuAreRejected(t *testing.T) {
	for _, info := range []string{
		`{"virtual-size": 1, "backing-filename": "x"}`,
		`{"virtual-size": 1, "full-backing-filename": "x"}`,
		`{"virtual-size": 1, "format-specific": {"data": {"data-file": "x"}}}`,
	} {
		from := source(t, "data")
		if _, err := inspect(t.Context(), from, "raw", fake(t, info, "")); !errors.Is(err, errUnsafe) {
			t.Errorf("%s: error is %v, want %v", info, err, errUnsafe)
		}
	}
}

func TestCutOffImagesAreErrors(t *testing.T) {
	for _, test := range []struct{ format, content string }{
		{"qcow2", "QFI\xfb\x00\x00\x00\x03"},
		{"qcow2", string(qcow2(3, 0, 0)[:75])},
		{"qcow2", string(qcow2(9, 0, 0))},
		{"vmdk", "KDMV"},
		{"vmdk", vmdk("createType=\"monolithicSparse\"\n")[:512]},
		{"vhd", "conectix"},
		{"vhd", vhd(3) + strings.Repeat("x", 512)},
	} {
		from := source(t, test.content)
		if info, err := inspect(t.Context(), from, test.format, fake(t, plainInfo, "")); err == nil {
			t.Errorf("%s of %d bytes was taken: %+v", test.format, len(test.content), info)
		}
	}
}

// FuzzHeaders compares the accepted images with qemu-img's reading of the same bytes: they must not refer to another
// file.
func FuzzHeaders(f *testing.F) {
	const good = "version=1\nCID=fffffffe\nparentCID=ffffffff\ncreateType=\"monolithicSparse\"\nRW 8 SPARSE \"a\"\nddb.adapterType = \"ide\"\n"
	f.Add("qcow2", qcow2(3, 0, 0))
	f.Add("qcow2", qcow2(3, 0, qcow2External))
	f.Add("qcow2", qcow2(2, 104, 0))
	for _, descriptor := range []string{
		good, "createType=\"monolithicSparse\"\nRW 8 SPARSE \"a\"\n", good + "parentFileNameHint=\"/etc/passwd\"\n", good + "RW\t1 FLAT \"/etc/passwd\" 0\n",
		"# createType=\"monolithicFlat\"\n" + good, strings.Replace(good, "\"a\"", "\"/etc/passwd\"", 1),
	} {
		f.Add("vmdk", []byte(vmdk(descriptor)))
		empty := []byte(vmdk(descriptor))
		clear(empty[12:20]) // the capacity
		f.Add("vmdk", empty)
	}
	f.Add("vhd", []byte(vhd(3)))
	f.Add("vhd", []byte(vhd(4)))
	path := filepath.Join(f.TempDir(), "image")
	f.Fuzz(func(t *testing.T, format string, content []byte) {
		testutil.Must(t, os.WriteFile(path, content, 0o600))
		if checkHeader(path, format) != nil { // must neither panic nor take much memory
			return
		}
		if why := map[string]func([]byte) string{"qcow2": qcow2Leads, "vmdk": vmdkLeads, "vhd": vhdLeads}[format]; why != nil && why(content) != "" {
			t.Errorf("an accepted %s leads to another file: %s", format, why(content))
		}
	})
}

// qcow2Leads, vmdkLeads and vhdLeads return how an image makes qemu-img open another file, according to
// block/qcow2.c, block/vmdk.c and block/vpc.c of QEMU; empty if it does not.
func qcow2Leads(head []byte) string {
	switch {
	case binary.BigEndian.Uint64(head[8:]) != 0:
		return "backing file"
	case binary.BigEndian.Uint32(head[4:]) > 2 && head[79]&qcow2External != 0:
		return "data file"
	}
	return ""
}

func vmdkLeads(head []byte) string {
	if binary.LittleEndian.Uint64(head[12:]) == 0 {
		return "no capacity: the extents of the descriptor are opened"
	}
	text, _, _ := strings.Cut(string(head[512:min(len(head), 512+20*512)]), "\x00") // DESC_SIZE, read as a C string
	_, after, found := strings.Cut(text, "createType=\"")
	if kind, _, _ := strings.Cut(after, "\""); !found || kind != "monolithicSparse" && kind != "streamOptimized" || strings.Index(text, "createType") != strings.Index(text, "createType=") {
		return "its first type is " + kind
	}
	if strings.Contains(text, "parentFileNameHint") {
		return "parent"
	}
	for line := range strings.SplitSeq(text, "\n") { // sscanf takes any white space
		if w := strings.Fields(line); len(w) > 3 && slices.Contains([]string{"RW", "RDONLY", "NOACCESS"}, w[0]) && (w[2] != "SPARSE" || strings.Contains(line, "/")) {
			return "extent " + line
		}
	}
	return ""
}

func vhdLeads(content []byte) string {
	foot := content[:min(len(content), 512)] // the copy at the beginning comes first
	if !bytes.HasPrefix(foot, []byte("conectix")) {
		foot = content[max(0, len(content)-512):]
	}
	if len(foot) >= 64 && binary.BigEndian.Uint32(foot[60:]) == 4 {
		return "parent of a differencing image"
	}
	return ""
}

func qcow2(version uint32, backing, incompatible uint64) []byte {
	head := make([]byte, 104)
	copy(head, "QFI\xfb")
	binary.BigEndian.PutUint32(head[4:], version)
	binary.BigEndian.PutUint64(head[8:], backing)
	binary.BigEndian.PutUint64(head[72:], incompatible)
	return head
}

func vmdk(descriptor string) string {
	head := make([]byte, 1536)
	copy(head, "KDMV")
	binary.LittleEndian.PutUint64(head[12:], 8)
	binary.LittleEndian.PutUint64(head[28:], 1)
	binary.LittleEndian.PutUint64(head[36:], 2)
	copy(head[512:], "# Disk DescriptorFile\n"+descriptor)
	return string(head)
}

func vhd(kind uint32) string {
	foot := make([]byte, 512)
	copy(foot, "conectix")
	binary.BigEndian.PutUint32(foot[60:], kind)
	return string(foot) + string(foot)
}
