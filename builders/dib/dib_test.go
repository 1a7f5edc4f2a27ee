package dib_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/builders/buildertest"
	"github.com/npctl/npctl/builders/dib"
	"github.com/npctl/npctl/internal/testutil"
)

// parse reads disk-image-create's command line.
const parse = `
while test $# -gt 0; do
	case $1 in
	-o) output=$2; shift 2 ;;
	-t) formats=$(echo "$2" | tr , ' '); shift 2 ;;
	--qemu-img-options | --image-cache | -p) shift 2 ;;
	*) shift ;;
	esac
done`

func TestContract(t *testing.T) { buildertest.Run(t, harness(false)) }

// For users other than root, the mounts of a build are visible to all processes, and the build has to unmount them.
func TestContractWithSharedMounts(t *testing.T) { buildertest.RunStopping(t, harness(true)) }

func harness(shared bool) buildertest.Harness {
	return buildertest.Harness{
		New: func() builders.Builder {
			return &dib.Builder{LogLimit: buildertest.LogLimit, SharedMounts: shared}
		},
		Parse: parse,
		Config: func(tool buildertest.Tool) cty.Value {
			return config(map[string]cty.Value{
				"command":      cty.StringVal("sh '" + tool.Script + "' " + tool.Mode),
				"secret_env":   texts("TOOL_SECRET", tool.Secret),
				"stop_timeout": cty.StringVal(tool.Grace.String()),
			})
		},
		Formats: []string{"raw", "qcow2"},
		Foreign: "vhd",
	}
}

func config(written map[string]cty.Value) cty.Value {
	values := new(dib.Builder).Schema().Null().AsValueMap()
	values["elements"] = buildertest.Words("debian-minimal", "vm")
	return buildertest.With(cty.ObjectVal(values), written)
}

func texts(pairs ...string) cty.Value {
	values := map[string]cty.Value{}
	for i := 0; i < len(pairs); i += 2 {
		values[pairs[i]] = cty.StringVal(pairs[i+1])
	}
	return cty.MapVal(values)
}

func job(t *testing.T, config cty.Value, formats ...string) builders.Job {
	t.Helper()
	return builders.Job{
		Image: "debian", BuildID: "b1", Name: "debian-b1", Dir: t.TempDir(), BaseDir: t.TempDir(),
		Config: config, Formats: formats,
	}
}

// fake creates a directory with a disk-image-create that prints its arguments and environment and creates qcow2 and
// raw.
func fake(t *testing.T, more string) (path string) {
	t.Helper()
	dir := t.TempDir()
	text := `#!/bin/sh
echo "arguments: $*"
env | grep -E '^(DIB|ELEMENTS|TMPDIR|OS_|USER_)' | sort
` + parse + `
for format in $formats; do
	printf 'QFI\373\0\0\0\3' > "$output.$format"
	test "$format" = qcow2 || echo image > "$output.$format"
	echo "d7a8fbb307d7809469ca9abcb0082e4f8d5651e46d3cdb762d02d0bf37c9e592  $output.$format" > "$output.$format.sha256"
done
mkdir -p "$output.d/dib-manifests"
env | grep ^DIB > "$output.d/dib-manifests/dib_environment"
` + more
	testutil.WriteProgram(t, filepath.Join(dir, "disk-image-create"), text)
	return dir + ":" + os.Getenv("PATH")
}

func TestCommandLineIsNodepools(t *testing.T) {
	for _, test := range []struct {
		name    string
		written map[string]cty.Value
		formats []string
		want    string
	}{
		{
			"defaults", nil, []string{"raw", "qcow2"},
			"-x -t qcow2,raw --checksum --no-tmpfs --qemu-img-options compat=0.10 -o @DIR@/debian-b1 debian-minimal vm",
		},
		{"no qcow2", nil, []string{"raw"}, "-x -t raw --checksum --no-tmpfs -o @DIR@/debian-b1 debian-minimal vm"},
		{"vhd is converted", nil, []string{"vhd"}, "-x -t raw --checksum --no-tmpfs -o @DIR@/debian-b1 debian-minimal vm"},
		{
			"everything", map[string]cty.Value{
				"command": cty.StringVal(`disk-image-create --first 'two words'`), "trace": cty.False, "checksum": cty.False,
				"qemu_img_options": cty.StringVal(""), "image_cache": cty.StringVal("cache"), "packages": buildertest.Words("git", "rsync"),
				"extra_args": buildertest.Words("-n", "--mkfs-options", "-i 16384"),
			},
			[]string{"qcow2"},
			"--first two words -t qcow2 --no-tmpfs --image-cache @BASE@/cache -p git,rsync -n --mkfs-options -i 16384 -o @DIR@/debian-b1 debian-minimal vm",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := &dib.Builder{Environ: []string{"PATH=" + fake(t, "")}}
			j := job(t, config(test.written), test.formats...)
			var log bytes.Buffer
			if _, err := b.Build(t.Context(), j, &log); err != nil {
				t.Fatalf("%v\n%s", err, &log)
			}
			_, got, _ := strings.Cut(log.String(), "arguments: ")
			got, _, _ = strings.Cut(got, "\n")
			want := strings.NewReplacer("@DIR@", j.Dir, "@BASE@", j.BaseDir).Replace(test.want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("arguments (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEnvironmentIsCleanAndNodepools(t *testing.T) {
	b := &dib.Builder{Environ: []string{"PATH=" + fake(t, ""), "OS_PASSWORD=topsecret"}}
	j := job(t, config(map[string]cty.Value{
		"release":       cty.StringVal("bookworm"),
		"element_paths": buildertest.Words("elements", "/"),
		"env":           texts("DIB_IMAGE_NAME", "mine", "USER_X", "y"),
		"secret_env":    texts("DIB_TOKEN", "hunter2"),
	}), "raw")
	testutil.Must(t, os.Mkdir(filepath.Join(j.BaseDir, "elements"), 0o755))
	var log bytes.Buffer
	made, err := b.Build(t.Context(), j, &log)
	if err != nil {
		t.Fatalf("%v\n%s", err, &log)
	}
	_, got, _ := strings.Cut(log.String(), "debian-minimal vm\n")
	want := strings.NewReplacer("@DIR@", j.Dir, "@BASE@", j.BaseDir).Replace(`DIB_IMAGE_FILENAME=@DIR@/debian-b1
DIB_IMAGE_NAME=mine
DIB_RELEASE=bookworm
DIB_TOKEN=(sensitive)
ELEMENTS_PATH=@BASE@/elements:/
TMPDIR=@DIR@/scratch/tmp
USER_X=y
Exit code: 0
`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	wantExtra := map[string]string{
		"manifests":  "debian-b1.d",
		"sha256_raw": "d7a8fbb307d7809469ca9abcb0082e4f8d5651e46d3cdb762d02d0bf37c9e592",
	}
	if diff := cmp.Diff(wantExtra, made.Extra); diff != "" {
		t.Errorf("extra (-want +got):\n%s", diff)
	}
	manifest, err := os.ReadFile(filepath.Join(j.Dir, "debian-b1.d/dib-manifests/dib_environment"))
	if err != nil || strings.Contains(string(manifest), "hunter2") || !strings.Contains(string(manifest), "DIB_TOKEN=(sensitive)") {
		t.Errorf("kept manifest is %q, %v; want the secret masked", manifest, err)
	}
}

func TestMissingProgramNamesThePackage(t *testing.T) {
	b := &dib.Builder{Environ: []string{"PATH=/nonexistent"}}
	j := job(t, config(map[string]cty.Value{"command": cty.StringVal("disk-image-create-3")}), "raw")
	_, err := b.Build(t.Context(), j, &bytes.Buffer{})
	want := "disk-image-create-3 is not installed: install the package python3-diskimage-builder"
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error is %v, want %q", err, want)
	}
}

func TestIncompleteChecksumFileIsAnError(t *testing.T) {
	b := &dib.Builder{Environ: []string{"PATH=" + fake(t, `: > "$output.raw.sha256"`)}}
	_, err := b.Build(t.Context(), job(t, config(nil), "raw"), &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "debian-b1.raw.sha256 is incomplete") {
		t.Errorf("error is %v", err)
	}
}

func TestTemporaryDirectoryIsConfigurable(t *testing.T) {
	elsewhere := t.TempDir()
	b := &dib.Builder{Environ: []string{"PATH=" + fake(t, `test -d "$TMPDIR" && : > "$TMPDIR/x"`)}}
	j := job(t, config(map[string]cty.Value{"tmp_dir": cty.StringVal(elsewhere)}), "raw")
	var log bytes.Buffer
	if _, err := b.Build(t.Context(), j, &log); err != nil {
		t.Fatal(err)
	}
	if want := "TMPDIR=" + elsewhere + "/npctl-" + filepath.Base(j.Dir) + "/tmp\n"; !strings.Contains(log.String(), want) {
		t.Errorf("log lacks %q:\n%s", want, &log)
	}
	left, err := os.ReadDir(elsewhere)
	if err != nil || len(left) > 0 {
		t.Errorf("left in tmp_dir: %v, %v", left, err)
	}
	if _, err := os.Lstat(filepath.Join(j.Dir, "scratch")); err == nil {
		t.Error("the link to the temporary directory is left")
	}
}

func TestInputHashFollowsElementsAndTheirDependencies(t *testing.T) {
	base := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(base, "elements", name)
		testutil.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		testutil.Must(t, os.WriteFile(path, []byte(text), 0o644))
	}
	write("ours/element-deps", "package-installs\n# comment\ndeep ours\n")
	write("ours/install.d/10-x", "one")
	write("deep/install.d/10-y", "one")
	write("unused/install.d/10-z", "one")
	b := new(dib.Builder)
	settings := config(map[string]cty.Value{"elements": buildertest.Words("debian-minimal", "ours"), "element_paths": buildertest.Words("elements")})
	hash := func() string {
		t.Helper()
		h, err := b.InputFiles(t.Context(), settings, base)
		testutil.Must(t, err)
		return string(h.Hash)
	}
	first := hash()
	write("unused/install.d/10-z", "TWO")
	if again := hash(); again != first || first == "" {
		t.Errorf("hash is %q, then %q though only an unused element changed", first, again)
	}
	write("deep/install.d/10-y", "TWO")
	second := hash()
	write("ours/install.d/10-x", "TWO")
	if third := hash(); second == first || third == second {
		t.Errorf("hashes are %q, %q, %q; want three", first, second, third)
	}
	_, err := b.InputFiles(t.Context(), config(map[string]cty.Value{"element_paths": buildertest.Words("elemnts")}), base)
	if err == nil || !strings.Contains(err.Error(), "elemnts: no such file or directory: correct the path") {
		t.Errorf("error for a wrong path is %v", err)
	}
}

func TestSchemaChecks(t *testing.T) {
	for _, test := range []struct {
		attribute string
		value     cty.Value
		want      string // empty: no error
	}{
		{"elements", buildertest.Words("debian-minimal", "vm"), ""},
		{"elements", cty.ListValEmpty(cty.String), "elements is empty"},
		{"elements", buildertest.Words("debian minimal"), `"debian minimal" is not an element name`},
		{"elements", buildertest.Words("-x"), "is not an element name"},
		{"packages", buildertest.Words("git", "libc6:i386"), ""},
		{"packages", buildertest.Words("git,rsync"), `"git,rsync" is not a package name: write one name in each string`},
		{"command", cty.StringVal("sudo -E 'my builder'"), ""},
		{"command", cty.StringVal("'unended"), "Unterminated"},
		{"command", cty.StringVal("  "), "is empty"},
		{"env", texts("TMPDIR", "/x"), "set tmp_dir"},
		{"env", texts("DIB_X", "/x"), ""},
	} {
		attribute, ok := new(dib.Builder).Schema().Lookup(test.attribute)
		if !ok {
			t.Fatalf("no attribute %s", test.attribute)
		}
		err := attribute.Check(test.value)
		if (err == nil) != (test.want == "") || (err != nil && !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s = %#v: error is %v, want %q", test.attribute, test.value, err, test.want)
		}
	}
}
