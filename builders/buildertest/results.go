package buildertest

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources/schema"
)

func (r *run) mustSucceed(t *testing.T) {
	t.Helper()
	if r.err != nil {
		t.Fatalf("build: %v\nlog:\n%s", r.err, r.log)
	}
}

// mustFail checks the error's text.
func (r *run) mustFail(t *testing.T, parts ...string) {
	t.Helper()
	if r.err == nil {
		t.Fatalf("the build succeeded with %v, want an error; log:\n%s", r.artifact, r.log)
	}
	for _, part := range parts {
		if !strings.Contains(r.err.Error(), part) {
			t.Errorf("error is %q, want %q in it", r.err, part)
		}
	}
}

// checkFiles checks that the artifact's files are the tool's and are in the job's directory.
func (r *run) checkFiles(t *testing.T) {
	t.Helper()
	for _, file := range r.artifact.Files {
		if want := filepath.Join(r.job.Dir, r.job.Name) + "." + file.Format; file.Path != want {
			t.Errorf("file of format %s is %s, want %s", file.Format, file.Path, want)
		}
		text, err := os.ReadFile(file.Path)
		if err != nil {
			t.Error(err)
		}
		if !strings.HasSuffix(string(text), filepath.Join(r.job.Dir, r.job.Name)) {
			t.Errorf("%s holds %q, which this build's tool did not write", file.Path, text)
		}
	}
}

func (r *run) formats() []string {
	var formats []string
	for _, file := range r.artifact.Files {
		formats = append(formats, file.Format)
	}
	slices.Sort(formats)
	return formats
}

func documented(t *testing.T, h Harness) { CheckSchema(t, h.New()) }

// CheckSchema checks a builder's schema. It is for builders that cannot run the whole suite.
func CheckSchema(t *testing.T, b builders.Builder) {
	t.Helper()
	checkBlock(t, b.Schema())
}

func checkBlock(t *testing.T, b schema.Block) {
	t.Helper()
	for _, nested := range b.Blocks {
		checkBlock(t, nested.Schema)
	}
	for _, a := range b.Attributes {
		if a.Doc == "" || a.Type == cty.NilType {
			t.Errorf("attribute %s lacks documentation or type", a.Name)
		}
		if a.Sensitive && a.Class == schema.Replacing {
			t.Errorf("attribute %s is sensitive and static: a new password would rebuild the image", a.Name)
		}
	}
}

func makesFormats(t *testing.T, h Harness) {
	for n := range h.Formats {
		r := h.job(t, "succeed")
		r.job.Formats = h.Formats[:n+1]
		r.build(t.Context(), t, h.New()).mustSucceed(t)
		if want := slices.Sorted(slices.Values(r.job.Formats)); !slices.Equal(r.formats(), want) {
			t.Errorf("created %v, want %v", r.formats(), want)
		}
		r.checkFiles(t)
		checkOnlyInside(t, r)
	}
}

// checkOnlyInside checks that the build changed nothing outside its directory and left nothing temporary in it.
func checkOnlyInside(t *testing.T, r *run) {
	t.Helper()
	if got, want := names(t, filepath.Dir(r.job.Dir)), []string{"configuration", r.job.Name}; !slices.Equal(got, want) {
		t.Errorf("beside the build there is %v, want %v", got, want)
	}
	if got, want := names(t, r.job.BaseDir), []string{"tool.sh"}; !slices.Equal(got, want) {
		t.Errorf("in the configuration's directory there is %v, want %v", got, want)
	}
	for _, name := range names(t, r.job.Dir) {
		if !strings.HasPrefix(name, r.job.Name+".") {
			t.Errorf("the build left %s in its directory", name)
		}
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	testutil.Must(t, err)
	var all []string
	for _, entry := range entries {
		all = append(all, entry.Name())
	}
	return all
}

func makesSomething(t *testing.T, h Harness) {
	if h.Foreign == "" {
		t.Fatal("the harness has no foreign format")
	}
	r := h.job(t, "succeed")
	r.job.Formats = []string{h.Foreign}
	r.build(t.Context(), t, h.New()).mustSucceed(t)
	if len(r.artifact.Files) == 0 || slices.Contains(r.formats(), h.Foreign) {
		t.Errorf("created %v for %s, want another format", r.formats(), h.Foreign)
	}
	r.checkFiles(t)
}

func tellsProgress(t *testing.T, h Harness) {
	r := h.job(t, "succeed").build(t.Context(), t, h.New())
	r.mustSucceed(t)
	if len(r.phases) < 2 {
		t.Errorf("progress is %q, want the start and the output of the tool", r.phases)
	}
	r = h.job(t, "succeed")
	r.job.Progress = nil
	r.build(t.Context(), t, h.New()).mustSucceed(t)
}

func writesLog(t *testing.T, h Harness) {
	r := h.job(t, "succeed").build(t.Context(), t, h.New())
	r.mustSucceed(t)
	for _, want := range []string{"npctl: running ", "tool: succeed makes", "tool: that went well", "\nExit code: 0\n"} {
		if !strings.Contains(r.log.String(), want) {
			t.Errorf("log lacks %q:\n%s", want, r.log)
		}
	}
}

func limitsLog(t *testing.T, h Harness) {
	r := h.job(t, "verbose").build(t.Context(), t, h.New())
	r.mustSucceed(t)
	text := r.log.String()
	if most := LogLimit + 64<<10; len(text) > most {
		t.Errorf("log has %d bytes, want %d at the most", len(text), most)
	}
	for _, want := range []string{"reached its limit", "were omitted", "tool: the very last line", "Exit code: 0"} {
		if !strings.Contains(text, want) {
			t.Errorf("log of a verbose tool lacks %q; it ends:\n%s", want, text[max(len(text)-500, 0):])
		}
	}
}

func failureTellsLastLines(t *testing.T, h Harness) {
	r := h.job(t, "fail").build(t.Context(), t, h.New())
	r.mustFail(t, "exit code 3", "tool: line before the last", "the frobnicator is missing")
	if !strings.Contains(r.log.String(), "\nExit code: 3\n") {
		t.Errorf("log does not contain the exit code:\n%s", r.log)
	}
}

func missingFile(t *testing.T, h Harness) {
	r := h.job(t, "nofile").build(t.Context(), t, h.New())
	r.mustFail(t, "did not create "+filepath.Join(r.job.Dir, r.job.Name)+".")
}

func linkedFile(t *testing.T, h Harness) {
	r := h.job(t, "link").build(t.Context(), t, h.New())
	r.mustFail(t, r.job.Name)
}

func wrongFormat(t *testing.T, h Harness) {
	r := h.job(t, "wrong").build(t.Context(), t, h.New())
	r.mustFail(t, "wrong image format")
}

func secretsStayIn(t *testing.T, h Harness) {
	for _, mode := range []string{"secret", "fail"} {
		r := h.job(t, mode).build(t.Context(), t, h.New())
		shown := map[string]string{"log": r.log.String()}
		if r.err != nil {
			shown["error"] = r.err.Error()
		}
		for _, phase := range r.phases {
			shown["progress "+phase] = phase
		}
		for what, text := range shown {
			if strings.Contains(text, "s3cr3t") || strings.Contains(text, "w0rd") || strings.Contains(text, "czNjcjN0") {
				t.Errorf("%s of a tool that plays %s shows a secret:\n%s", what, mode, text)
			}
		}
		if !strings.Contains(r.log.String(), "(sensitive)") {
			t.Errorf("the tool that plays %s showed nothing to mask; log:\n%s", mode, r.log)
		}
	}
}

func endedContext(t *testing.T, h Harness) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := h.job(t, "succeed")
	r.artifact, r.err = h.New().Build(ctx, r.job, r.log)
	r.mustFail(t, "canceled")
	if strings.Contains(r.log.String(), "tool:") {
		t.Errorf("the tool ran:\n%s", r.log)
	}
}

func twoBuilds(t *testing.T, h Harness) {
	images, b := t.TempDir(), h.New()
	first, second := h.jobIn(t, images, "img-1", "slow"), h.jobIn(t, images, "img-2", "slow")
	waitFirst, waitSecond := first.start(t.Context(), t, b), second.start(t.Context(), t, b)
	// The first build ends, including its cleanup, while the second runs.
	for _, next := range []struct {
		run  *run
		wait func()
	}{{first, waitFirst}, {second, waitSecond}} {
		testutil.Must(t, os.WriteFile(filepath.Join(next.run.job.Dir, next.run.job.Name+".go"), nil, 0o600))
		next.wait()
		next.run.mustSucceed(t)
		next.run.checkFiles(t)
	}
}
