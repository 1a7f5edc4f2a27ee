package exec_test

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
	"github.com/npctl/npctl/builders/exec"
	"github.com/npctl/npctl/internal/testutil"
)

func TestContract(t *testing.T) {
	buildertest.Run(t, buildertest.Harness{
		New:   func() builders.Builder { return &exec.Builder{LogLimit: buildertest.LogLimit} },
		Parse: `output=$NPCTL_OUTPUT formats=$NPCTL_IMAGE_FORMATS`,
		Config: func(tool buildertest.Tool) cty.Value {
			return config(map[string]cty.Value{
				"command":      buildertest.Words("sh", tool.Script, tool.Mode),
				"formats":      buildertest.Words("raw", "qcow2"),
				"secret_env":   cty.MapVal(map[string]cty.Value{"TOOL_SECRET": cty.StringVal(tool.Secret)}),
				"stop_timeout": cty.StringVal(tool.Grace.String()),
			})
		},
		Formats: []string{"raw", "qcow2"},
		Foreign: "vhd",
	})
}

// config returns a block with the written attributes and the defaults.
func config(written map[string]cty.Value) cty.Value {
	return buildertest.With(new(exec.Builder).Schema().Null(), written)
}

func job(t *testing.T, config cty.Value, formats ...string) builders.Job {
	t.Helper()
	return builders.Job{
		Image: "debian", BuildID: "b1", Name: "debian-b1", Dir: t.TempDir(), BaseDir: t.TempDir(),
		Config: config, Formats: formats,
	}
}

func TestCommandReceivesTheJob(t *testing.T) {
	b := &exec.Builder{Environ: []string{"PATH=" + os.Getenv("PATH"), "HOME=/home/x", "USER=x", "OS_PASSWORD=secret", "https_proxy=http://proxy:3128"}}
	j := job(t, config(map[string]cty.Value{
		"command": buildertest.Words("sh", "-c", `env -u NPCTL_RUN_ID -u PWD -u PATH | sort; echo x > "$NPCTL_OUTPUT.raw"; test -d "$TMPDIR"`),
		"env":     cty.MapVal(map[string]cty.Value{"HOME": cty.StringVal("/elsewhere"), "SIZE": cty.StringVal("4M")}),
		"formats": buildertest.Words("raw", "tar"),
	}), "vhd", "raw")
	var log bytes.Buffer
	made, err := b.Build(t.Context(), j, &log)
	if err != nil {
		t.Fatalf("%v\n%s", err, &log)
	}
	_, env, _ := strings.Cut(log.String(), "\n")
	want := strings.ReplaceAll(strings.ReplaceAll(`HOME=/elsewhere
LANG=C.UTF-8
NPCTL_BUILD_ID=b1
NPCTL_CONFIG_DIR=@BASE@
NPCTL_IMAGE_FORMATS=raw
NPCTL_IMAGE_NAME=debian
NPCTL_OUTPUT=@DIR@/debian-b1
NPCTL_OUTPUT_DIR=@DIR@
NPCTL_TIMEOUT=0
SIZE=4M
TMPDIR=@DIR@/scratch/tmp
USER=x
https_proxy=http://proxy:3128
Exit code: 0
`, "@DIR@", j.Dir), "@BASE@", j.BaseDir)
	if diff := cmp.Diff(want, env); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	wantMade := builders.Artifact{Files: []builders.File{{Format: "raw", Path: filepath.Join(j.Dir, "debian-b1.raw")}}}
	if diff := cmp.Diff(wantMade, made); diff != "" {
		t.Errorf("artifact (-want +got):\n%s", diff)
	}
}

func TestFormatsMayHaveOtherNames(t *testing.T) {
	for _, test := range []struct{ wanted, asked, format string }{
		{"tgz", "tar.gz", "tgz"},
		{"vhdx", "tar.gz", "tgz"}, // none fits: the first one
		{"qcow2", "qcow", "qcow2"},
		{"raw", "raw", "raw"},
	} {
		j := job(t, config(map[string]cty.Value{
			"command": buildertest.Words("sh", "-c", `for f in $NPCTL_IMAGE_FORMATS; do
				case $f in qcow) printf 'QFI\373\0\0\0\3' >"$NPCTL_OUTPUT.$f" ;; tar.gz) tar czf "$NPCTL_OUTPUT.$f" -T /dev/null ;; *) echo x >"$NPCTL_OUTPUT.$f" ;; esac
			done`),
			"formats": buildertest.Words("tar.gz", "qcow", "raw"),
		}), test.wanted)
		made, err := new(exec.Builder).Build(t.Context(), j, &bytes.Buffer{})
		if err != nil {
			t.Errorf("%s: %v", test.wanted, err)
			continue
		}
		want := []builders.File{{Format: test.format, Path: filepath.Join(j.Dir, "debian-b1."+test.asked)}}
		if diff := cmp.Diff(want, made.Files); diff != "" {
			t.Errorf("%s is wanted (-want +got):\n%s", test.wanted, diff)
		}
	}
}

func TestMissingFileErrorListsTheDirectory(t *testing.T) {
	j := job(t, config(map[string]cty.Value{"command": buildertest.Words("sh", "-c", `echo x > "$NPCTL_OUTPUT.img"`)}), "raw")
	_, err := new(exec.Builder).Build(t.Context(), j, &bytes.Buffer{})
	want := "the command succeeded but did not create " + j.Dir + "/debian-b1.raw; the command must create $NPCTL_OUTPUT.<format> " +
		"for each of $NPCTL_IMAGE_FORMATS (raw); " + j.Dir + " contains debian-b1.img"
	if err == nil || err.Error() != want {
		t.Errorf("got error:  %v\nwant error: %s", err, want)
	}
}

func TestProgramThatCannotRunIsNamed(t *testing.T) {
	for _, test := range []struct{ name, command, want string }{
		{"not installed", "no-such-builder", "no-such-builder is not installed: no such program in PATH="},
		{"no file", "./build.sh", "build.sh is not installed: there is no such file"},
		{"not executable", "./plain.sh", "plain.sh is not executable: chmod +x it"},
		{"directory", "./", "is a directory, not a program"},
	} {
		t.Run(test.name, func(t *testing.T) {
			j := job(t, config(map[string]cty.Value{"command": buildertest.Words(test.command)}), "raw")
			testutil.WriteFile(t, filepath.Join(j.BaseDir, "plain.sh"), "echo")
			_, err := new(exec.Builder).Build(t.Context(), j, &bytes.Buffer{})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want %q in it", err, test.want)
			}
		})
	}
}

func TestMarkedValuesAreSecrets(t *testing.T) {
	j := job(t, config(map[string]cty.Value{
		"command": buildertest.Words("sh", "-c", `echo "key is $KEY" >&2; exit 1`),
		"env":     cty.MapVal(map[string]cty.Value{"KEY": cty.StringVal("hunter2").Mark("sensitive")}),
	}), "raw")
	var log bytes.Buffer
	_, err := new(exec.Builder).Build(t.Context(), j, &log)
	if err == nil || !strings.Contains(err.Error(), "key is (sensitive)") || strings.Contains(log.String(), "hunter2") {
		t.Errorf("error is %v; log is:\n%s", err, &log)
	}
}

func TestInputHashFollowsContent(t *testing.T) {
	base := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(base, name)
		testutil.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		testutil.Must(t, os.WriteFile(path, []byte(text), 0o644))
	}
	b := new(exec.Builder)
	settings := config(map[string]cty.Value{"command": buildertest.Words("./build.sh"), "inputs": buildertest.Words("files/**")})
	hash := func() string {
		t.Helper()
		h, err := b.InputFiles(t.Context(), settings, base)
		testutil.Must(t, err)
		return string(h.Hash)
	}
	write("build.sh", "one")
	write("files/a/b", "two")
	first := hash()
	write("README", "not an input")
	if again := hash(); again != first || first == "" {
		t.Errorf("hash is %q, then %q though no input changed", first, again)
	}
	seen := map[string]string{first: "at first"}
	for _, change := range []struct{ name, text string }{
		{"build.sh", "ONE"}, {"files/a/b", "TWO"}, {"files/a/c", ""},
	} {
		write(change.name, change.text)
		now := hash()
		if before, ok := seen[now]; ok {
			t.Errorf("after a change of %s the hash is as %s", change.name, before)
		}
		seen[now] = "after a change of " + change.name
	}
	none, err := b.InputFiles(t.Context(), config(map[string]cty.Value{"command": buildertest.Words("sh", "-c", "true")}), base)
	if none.Hash != "" || err != nil {
		t.Errorf("hash without inputs is %q, %v; want none", none.Hash, err)
	}
}

func TestSchemaChecks(t *testing.T) {
	for _, test := range []struct {
		attribute string
		value     cty.Value
		want      string // empty: no error
	}{
		{"command", buildertest.Words("make"), ""},
		{"command", cty.ListValEmpty(cty.String), "command is empty"},
		{"command", buildertest.Words(" "), "the first string of command is empty"},
		{"formats", buildertest.Words("raw", "qcow2", "tar.gz"), ""},
		{"formats", buildertest.Words("../../etc/passwd"), "not a file extension"},
		{"formats", cty.ListValEmpty(cty.String), "formats is empty"},
		{"formats", buildertest.Words("qcow", "raw", "qcow2"), `"qcow" and "qcow2" are the same format`},
		{"env", cty.MapVal(map[string]cty.Value{"A_1": cty.StringVal("x")}), ""},
		{"env", cty.MapVal(map[string]cty.Value{"A=B": cty.StringVal("x")}), "not the name of an environment variable"},
		{"secret_env", cty.MapVal(map[string]cty.Value{"NPCTL_OUTPUT": cty.StringVal("x")}), "set by npctl"},
	} {
		attribute, ok := new(exec.Builder).Schema().Lookup(test.attribute)
		if !ok {
			t.Fatalf("no attribute %s", test.attribute)
		}
		err := attribute.Check(test.value)
		if (err == nil) != (test.want == "") || (err != nil && !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s = %#v: error is %v, want %q", test.attribute, test.value, err, test.want)
		}
	}
}
